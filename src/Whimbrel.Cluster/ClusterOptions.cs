namespace Whimbrel.Clusters;

/// <summary>Options of a cluster node.</summary>
public sealed class ClusterOptions
{
    internal const int LeastKeyBytes = 16;
    internal const int MostPayloadBytes = 16 << 20;
    internal const int LeastPresenceBytes = 1024; // more than the longest name with its count

    private static readonly TimeSpan s_shortest = TimeSpan.FromMilliseconds(10);
    private static readonly TimeSpan s_mostInterval = TimeSpan.FromHours(1);
    private static readonly TimeSpan s_longest = TimeSpan.FromDays(7);

    /// <summary>
    /// Name of the cluster: only nodes with the same name on the same broker communicate. 1 to 64 ASCII letters,
    /// digits, - and _. Required.
    /// </summary>
    public required string Application { get; init; }

    /// <summary>
    /// Name of the node in diagnostic events and gaps, unique per node: 1 to 64 bytes of UTF-8. Null (the default): the
    /// machine name with a random suffix.
    /// </summary>
    public string? NodeId { get; init; }

    /// <summary>
    /// Key for HMAC-SHA256 signatures, for brokers that other programs can publish on. At least 16 bytes, the same on
    /// each node. Envelopes without a valid signature are rejected, with a diagnostic event of kind
    /// <see cref="DiagnosticEventKind.Cluster"/> at most once a minute. Empty (the default): no signatures.
    /// </summary>
    public ReadOnlyMemory<byte> Key { get; init; }

    /// <summary>
    /// Largest broadcast in bytes: default 1 MiB, at most 16 MiB. Larger envelopes of other nodes are rejected unread.
    /// </summary>
    public int MaxPayloadBytes { get; init; } = 1 << 20;

    /// <summary>
    /// Maximum number of bytes queued for the broker: default 4 MiB, at least 1 KiB above
    /// <see cref="MaxPayloadBytes"/>.
    /// </summary>
    public int QueueLimitBytes { get; init; } = 4 << 20;

    /// <summary>Broadcasts that are dropped above <see cref="QueueLimitBytes"/>. Default: the oldest.</summary>
    public QueuePolicy QueuePolicy { get; init; }

    /// <summary>
    /// Time without the broker after which the state is <see cref="ClusterState.Isolated"/>. Above zero, up to 7 days;
    /// default 10 s.
    /// </summary>
    public TimeSpan IsolatedAfter { get; init; } = TimeSpan.FromSeconds(10);

    /// <summary>
    /// Interval of the node's announcements. 10 ms up to an hour; default 2 s. A node is missing if it is silent for
    /// more than three intervals, by the larger of the two nodes' values, without having left by
    /// <see cref="Cluster.DisposeAsync"/>. It has crashed or is connected to another broker. The state is then
    /// <see cref="ClusterState.Degraded"/>.
    /// </summary>
    public TimeSpan AnnounceInterval { get; init; } = TimeSpan.FromSeconds(2);

    /// <summary>
    /// Time for which a missing node keeps the state at <see cref="ClusterState.Degraded"/>; then it is forgotten.
    /// Above zero, up to 7 days; default 10 minutes. A node that is started again with the same <see cref="NodeId"/>
    /// replaces it at once.
    /// </summary>
    public TimeSpan ForgetNodesAfter { get; init; } = TimeSpan.FromMinutes(10);

    /// <summary>
    /// Maximum time for which broadcasts are held after a reconnect, until the nodes that were present before have
    /// announced themselves: earlier broadcasts would reach no subscription. Zero up to an hour; default 2 s. Zero
    /// publishes at once.
    /// </summary>
    public TimeSpan RejoinGrace { get; init; } = TimeSpan.FromSeconds(2);

    /// <summary>
    /// Maximum number of bytes of published broadcasts that are kept for 10 s. After a reconnect they are published
    /// again, because the broker may not have delivered them; other nodes drop duplicates by sequence number. Default 4
    /// MiB; zero keeps none.
    /// </summary>
    public int RepeatLimitBytes { get; init; } = 4 << 20;

    /// <summary>
    /// Time for which a group without local members stays subscribed, for sessions that reconnect. Zero up to 7 days;
    /// default 5 s.
    /// </summary>
    public TimeSpan UnsubscribeAfter { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// Interval of marks: after the last broadcast of a group its sequence is published six times, so that the loss of
    /// the last broadcast is detected. Also the time for which a new subscription waits for the publishers' answers;
    /// without an answer earlier broadcasts count as lost. 10 ms up to an hour; default 1 s.
    /// </summary>
    public TimeSpan MarkInterval { get; init; } = TimeSpan.FromSeconds(1);

    /// <summary>
    /// Interval at which a node publishes changed member counts, for <see cref="ClusterGroup.Count"/> and
    /// <see cref="ClusterGroup.ReadPresence"/>. 10 ms up to an hour, the same on each node. Zero (the default) disables
    /// presence.
    /// </summary>
    public TimeSpan PresenceInterval { get; init; }

    /// <summary>
    /// Time of silence after which the members of a node are no longer counted. At least two
    /// <see cref="PresenceInterval"/>, up to 7 days. Null (the default): three intervals.
    /// </summary>
    public TimeSpan? PresenceLease { get; init; }

    /// <summary>
    /// Maximum number of recoverable groups of this node: default 65,536, at least 1.
    /// <see cref="Cluster.RecoverableGroup"/> throws above it.
    /// </summary>
    public int MaxRecoverableGroups { get; init; } = 65_536;

    /// <summary>
    /// Delivery of a broadcast to the local members. Null (the default): its bytes are sent unchanged.
    /// </summary>
    public GroupDelivery? Deliver { get; init; }

    /// <summary>Called on a loop when broadcasts were lost for local or remote members. Must not block.</summary>
    public Action<ClusterGap>? OnGap { get; init; }

    /// <summary>
    /// Called on a loop when the state or the set of missing nodes has changed, with the reason as text. Must not
    /// block.
    /// </summary>
    public Action<ClusterState, string>? OnStateChanged { get; init; }

    /// <summary>
    /// Called on a loop once for each other process with this node's id, at most 256. No data is lost, but gaps name
    /// the wrong node. Null (the default): a diagnostic event of kind <see cref="DiagnosticEventKind.Cluster"/>, at
    /// most once a minute.
    /// </summary>
    public Action<string>? OnTwin { get; init; }

    /// <summary>
    /// Returns the mistakes for which
    /// <see cref="Cluster.JoinAsync(Server, IGroupBus, ClusterOptions, CancellationToken)"/> would throw: one sentence
    /// each, which begins with the name of the option. Empty if there are none.
    /// </summary>
    public IReadOnlyList<string> FindMistakes()
    {
        List<string> mistakes = [];
        Want(Subjects.IsPlain(Application), nameof(Application), "1 to 64 ASCII letters, digits, - and _");
        Want(NodeId is not { } id || System.Text.Encoding.UTF8.GetByteCount(id) is >= 1 and <= Envelope.MostNodeBytes,
            nameof(NodeId), "1 to 64 bytes of UTF-8");
        Want(Key.Length is 0 or >= LeastKeyBytes, nameof(Key), "at least 16 bytes, or none");
        Want(MaxPayloadBytes is >= 1 and <= MostPayloadBytes, nameof(MaxPayloadBytes), "between 1 byte and 16 MiB");
        Want(QueueLimitBytes >= (long)MaxPayloadBytes + Envelope.MostOverheadBytes, nameof(QueueLimitBytes),
            "at least 1 KiB above MaxPayloadBytes");
        Want(IsolatedAfter > TimeSpan.Zero && IsolatedAfter <= s_longest, nameof(IsolatedAfter),
            "above zero, up to 7 days");
        Want(AnnounceInterval >= s_shortest && AnnounceInterval <= s_mostInterval, nameof(AnnounceInterval),
            "10 ms up to an hour");
        Want(ForgetNodesAfter > TimeSpan.Zero && ForgetNodesAfter <= s_longest, nameof(ForgetNodesAfter),
            "above zero, up to 7 days");
        Want(RejoinGrace >= TimeSpan.Zero && RejoinGrace <= s_mostInterval, nameof(RejoinGrace), "zero up to an hour");
        Want(RepeatLimitBytes >= 0, nameof(RepeatLimitBytes), "zero or positive");
        Want(UnsubscribeAfter >= TimeSpan.Zero && UnsubscribeAfter <= s_longest, nameof(UnsubscribeAfter),
            "zero up to 7 days");
        Want(PresenceInterval == TimeSpan.Zero
            || (PresenceInterval >= s_shortest && PresenceInterval <= s_mostInterval),
            nameof(PresenceInterval), "zero, or 10 ms up to an hour");
        Want(PresenceLease is not { } lease || (lease >= 2 * PresenceInterval && lease <= s_longest),
            nameof(PresenceLease), "at least two of PresenceInterval, up to 7 days");
        Want(PresenceInterval <= TimeSpan.Zero || MaxPayloadBytes >= LeastPresenceBytes, nameof(MaxPayloadBytes),
            "at least 1 KiB where there is a PresenceInterval");
        Want(MaxRecoverableGroups >= 1, nameof(MaxRecoverableGroups), "at least 1");
        Want(MarkInterval >= s_shortest && MarkInterval <= s_mostInterval, nameof(MarkInterval), "10 ms up to an hour");
        return mistakes;

        void Want(bool isRight, string name, string allowed)
        {
            if (!isRight) mistakes.Add($"{name} has to be {allowed}.");
        }
    }

    internal void Check()
    {
        IReadOnlyList<string> mistakes = FindMistakes();
        if (mistakes.Count > 0)
            throw new ArgumentException(
                $"{nameof(ClusterOptions)}.{string.Join($" {nameof(ClusterOptions)}.", mistakes)}",
                mistakes[0][..mistakes[0].IndexOf(' ', StringComparison.Ordinal)]);
    }
}
