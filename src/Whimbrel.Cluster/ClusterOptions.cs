namespace Whimbrel.Clusters;

/// <summary>How a node takes part in a cluster.</summary>
public sealed class ClusterOptions
{
    internal const int LeastKeyBytes = 16;
    internal const int MostPayloadBytes = 16 << 20;
    internal const int LeastPresenceBytes = 1024; // the longest name with its count, and to spare

    private static readonly TimeSpan s_shortest = TimeSpan.FromMilliseconds(10);
    private static readonly TimeSpan s_mostInterval = TimeSpan.FromHours(1);
    private static readonly TimeSpan s_longest = TimeSpan.FromDays(7);

    /// <summary>Which cluster it is: nodes with the same name on the same broker hear each other, and no others. 1 to 64 ASCII letters, digits, - and _. Required.</summary>
    public required string Application { get; init; }

    /// <summary>The node's name in notices and gaps, different on each node: 1 to 64 bytes of UTF-8. Null (the default) makes one of the machine's name and chance.</summary>
    public string? NodeId { get; init; }

    /// <summary>Signs each envelope with HMAC-SHA256 and refuses those that are not signed with it: for a broker that others can publish on. At least 16 bytes, the same on each node; an envelope that is not signed with it gives a notice of kind <see cref="NoticeKind.Cluster"/>, at most once a minute. Empty (the default) does not.</summary>
    public ReadOnlyMemory<byte> Key { get; init; }

    /// <summary>Largest broadcast: default 1 MiB, at most 16 MiB. Larger envelopes of others are refused before anything in them is read.</summary>
    public int MaxPayloadBytes { get; init; } = 1 << 20;

    /// <summary>Most bytes that wait for the broker: default 4 MiB. At least one largest broadcast.</summary>
    public int QueueLimitBytes { get; init; } = 4 << 20;

    /// <summary>What is lost above that. Default: what has waited longest.</summary>
    public QueuePolicy QueuePolicy { get; init; }

    /// <summary>How long the broker is away until the state is <see cref="ClusterState.Isolated"/>. Above zero, up to 7 days; default 10 s.</summary>
    public TimeSpan IsolatedAfter { get; init; } = TimeSpan.FromSeconds(10);

    /// <summary>
    /// Interval at which a node tells the others that it is there. 10 ms up to an hour; default 2 s. A node that is silent for more than three of them, by the larger of the two nodes' intervals, and that
    /// has not left by <see cref="Cluster.DisposeAsync"/>, makes the state <see cref="ClusterState.Degraded"/>: it has crashed, or is connected to another broker.
    /// </summary>
    public TimeSpan AnnounceInterval { get; init; } = TimeSpan.FromSeconds(2);

    /// <summary>
    /// Time for which a missing node keeps the state at <see cref="ClusterState.Degraded"/>. Above zero, up to 7 days; default 10 minutes. After it the node is not expected any more; a node that is started again under the same
    /// <see cref="NodeId"/> replaces it at once.
    /// </summary>
    public TimeSpan ForgetNodesAfter { get; init; } = TimeSpan.FromMinutes(10);

    /// <summary>
    /// Longest time for which broadcasts wait after a lost broker is reached again, until the nodes that were there before are heard: what is published earlier reaches no subscription. Default 2 s;
    /// zero publishes at once.
    /// </summary>
    public TimeSpan RejoinGrace { get; init; } = TimeSpan.FromSeconds(2);

    /// <summary>
    /// Most bytes of broadcasts that are kept for 10 s after the broker took them. When a lost broker is reached again they are published once more, since it may not have delivered them; nodes that
    /// have them drop them by their numbers. Default 4 MiB; zero keeps none.
    /// </summary>
    public int RepeatLimitBytes { get; init; } = 4 << 20;

    /// <summary>How long a group without members here stays subscribed, for sessions that come back. Zero up to 7 days; default 5 s.</summary>
    public TimeSpan UnsubscribeAfter { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// 10 ms up to an hour; default 1 s. So often a node says how far it has published, six times behind the last broadcast of a group: so the loss of a last
    /// one is found, too. For so long a new subscription waits for what publishers say of what was before it: what is not said in time counts as lost.
    /// </summary>
    public TimeSpan MarkInterval { get; init; } = TimeSpan.FromSeconds(1);

    /// <summary>
    /// So often a node tells the others how many members its groups have, for <see cref="ClusterGroup.Count"/> and <see cref="ClusterGroup.ReadPresence"/>: only what has changed, or that nothing has.
    /// 10 ms up to an hour, and the same on each node. Zero (the default) tells and hears nothing of that.
    /// </summary>
    public TimeSpan PresenceInterval { get; init; }

    /// <summary>After so long without a word the members of a node are not counted any more. At least two intervals, up to 7 days. Null (the default): three.</summary>
    public TimeSpan? PresenceLease { get; init; }

    /// <summary>Most recoverable groups that this node opens, each of which it follows until it leaves: default 65,536, at least 1. <see cref="Cluster.RecoverableGroup"/> throws above it.</summary>
    public int MaxRecoverableGroups { get; init; } = 65_536;

    /// <summary>How members here get a broadcast. Null (the default): its bytes.</summary>
    public GroupDelivery? Deliver { get; init; }

    /// <summary>Called on a loop for what members here or elsewhere did not get. Must not block.</summary>
    public Action<ClusterGap>? OnGap { get; init; }

    /// <summary>Called on a loop when the state has changed, or other nodes are missing than before, with what happened, why, and what now. Must not block.</summary>
    public Action<ClusterState, string>? OnStateChanged { get; init; }

    /// <summary>Called on a loop once for each other process that uses this node's id. Nothing is lost by it, but gaps name the wrong node. Null (the default): a notice of kind <see cref="NoticeKind.Cluster"/>, at most once a minute.</summary>
    public Action<string>? OnTwin { get; init; }

    /// <summary>What <see cref="Cluster.JoinAsync(Server, IGroupBus, ClusterOptions, CancellationToken)"/> would throw for: one sentence for each mistake, which begins with the name of the option. Empty when there is none.</summary>
    public IReadOnlyList<string> FindMistakes()
    {
        List<string> mistakes = [];
        Want(Subjects.IsPlain(Application), nameof(Application), "1 to 64 ASCII letters, digits, - and _");
        Want(NodeId is not { } id || System.Text.Encoding.UTF8.GetByteCount(id) is >= 1 and <= Envelope.MostNodeBytes, nameof(NodeId), "1 to 64 bytes of UTF-8");
        Want(Key.Length is 0 or >= LeastKeyBytes, nameof(Key), "at least 16 bytes, or none");
        Want(MaxPayloadBytes is >= 1 and <= MostPayloadBytes, nameof(MaxPayloadBytes), "between 1 byte and 16 MiB");
        Want(QueueLimitBytes >= (long)MaxPayloadBytes + Envelope.MostOverheadBytes, nameof(QueueLimitBytes), "at least 1 KiB above MaxPayloadBytes");
        Want(IsolatedAfter > TimeSpan.Zero && IsolatedAfter <= s_longest, nameof(IsolatedAfter), "above zero, up to 7 days");
        Want(AnnounceInterval >= s_shortest && AnnounceInterval <= s_mostInterval, nameof(AnnounceInterval), "10 ms up to an hour");
        Want(ForgetNodesAfter > TimeSpan.Zero && ForgetNodesAfter <= s_longest, nameof(ForgetNodesAfter), "above zero, up to 7 days");
        Want(RejoinGrace >= TimeSpan.Zero && RejoinGrace <= s_mostInterval, nameof(RejoinGrace), "zero up to an hour");
        Want(RepeatLimitBytes >= 0, nameof(RepeatLimitBytes), "zero or positive");
        Want(UnsubscribeAfter >= TimeSpan.Zero && UnsubscribeAfter <= s_longest, nameof(UnsubscribeAfter), "zero up to 7 days");
        Want(PresenceInterval == TimeSpan.Zero || (PresenceInterval >= s_shortest && PresenceInterval <= s_mostInterval), nameof(PresenceInterval), "zero, or 10 ms up to an hour");
        Want(PresenceLease is not { } lease || (lease >= 2 * PresenceInterval && lease <= s_longest), nameof(PresenceLease), "at least two of PresenceInterval, up to 7 days");
        Want(PresenceInterval <= TimeSpan.Zero || MaxPayloadBytes >= LeastPresenceBytes, nameof(MaxPayloadBytes), "at least 1 KiB where there is a PresenceInterval");
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
        if (mistakes.Count > 0) throw new ArgumentException($"{nameof(ClusterOptions)}.{string.Join($" {nameof(ClusterOptions)}.", mistakes)}", mistakes[0][..mistakes[0].IndexOf(' ', StringComparison.Ordinal)]);
    }
}
