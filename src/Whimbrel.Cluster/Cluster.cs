using System.Buffers;
using System.Buffers.Binary;
using System.Collections.Concurrent;
using System.Runtime.InteropServices;
using System.Security.Cryptography;
using System.Text;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel.Clusters;

/// <summary>
/// A node of a cluster. Its groups have members on this and other nodes; a message bus carries broadcasts between the
/// nodes.
/// </summary>
/// <remarks>
/// The contract, by number; each number has a test:
/// <list type="number">
/// <item>Local members receive a broadcast in call order, before it is published, and independently of the bus.</item>
/// <item>Remote members receive it at most once, in order per publishing node and group. Between groups and nodes there
/// is no order.</item>
/// <item>Every loss is reported by <see cref="ClusterOptions.OnGap"/>: on each node with members that missed it, and on
/// this node if it did not reach the bus. The number is never too small. Broadcasts before a group's subscription, and
/// its question, reached the publisher are not counted. If a last broadcast and all marks after it are lost, the loss
/// is detected with the next broadcast.</item>
/// <item>A lost broker ends no connection. The state reports it; broadcasts wait within a limit and are published when
/// the broker is back.</item>
/// <item>Envelopes of this node that the broker sends back are dropped.</item>
/// <item>A group is subscribed with its first member here, and unsubscribed a while after its last.</item>
/// <item>Broadcasts of one turn go to the bus in one call.</item>
/// <item>Invalid data from the broker never ends the process: envelopes that are too large, truncated, foreign,
/// unsigned or of another version are dropped and counted.</item>
/// <item>Presence, if enabled: three intervals after the last loss and the last change the counts are right. A node
/// that is silent for a lease has no members.</item>
/// <item>A restart of the broker loses nothing that fits the queue, if the nodes are back within the grace period: see
/// <see cref="ClusterOptions.RejoinGrace"/> and <see cref="ClusterOptions.RepeatLimitBytes"/>.</item>
/// <item>A known node that disappears without a goodbye sets the state <see cref="ClusterState.Degraded"/>; the reason
/// names it.</item>
/// </list>
/// The bus works on one loop, the first of the server's engine. Other threads enqueue to its <see cref="Outbox"/>.
/// </remarks>
public sealed partial class Cluster : IGroupBusListener, IAsyncDisposable
{
    private const int MostInBatch = 256;
    private const int MostPresenceBytes = 16 * 1024; // of an envelope
    private const int AnnouncementBytes = 5; // its interval, and whether the others are asked to announce themselves
    private const long LeastBetweenAnnouncementsMs = 100;
    private const int MostTwins = 256; // that are reported
    private const int MostNames = 1024;
    private const long ForgetAfterMs = 600_000;
    private const int MostKeptWhileAway = 65_536; // groups that were published to

    private readonly ConcurrentDictionary<string, GroupState> _groups = new(StringComparer.Ordinal);
    private readonly ConcurrentDictionary<string, GroupState>.AlternateLookup<ReadOnlySpan<char>> _groupsBySpan;
    private readonly ClusterOptions _options;
    private readonly IGroupBus _bus;
    private readonly Loop _loop;
    private readonly Server _server;
    private readonly Outbox _outbox;
    private readonly byte[] _key;
    private readonly byte[] _nodeBytes;
    private readonly EnvelopeForm _form;
    private readonly ulong _instance = BitConverter.ToUInt64(RandomNumberGenerator.GetBytes(8));
    private readonly List<Outgoing> _batch = [];
    private readonly Queue<GroupState> _unasked = []; // subscribed; their question about earlier broadcasts waits
    private readonly HashSet<ulong> _twins = [];
    private readonly Dictionary<ulong, string> _names = []; // of other nodes, by instance: one string for all groups
    private BusMessage[] _messages = new BusMessage[8];
    private GroupState? _lastFound;
    private readonly string _nodesSubject;
    private readonly Presence? _presence;
    private readonly NodeTable _nodes = new();
    private LoopTimer? _timer;
    private LoopTimer? _presenceTimer;
    private LoopTimer? _announceTimer;
    private LoopTimer? _answerTimer; // the next announcement for those that ask
    private LoopTimer? _grace;
    private bool _isHeld; // broadcasts wait for the nodes that were there before
    private bool _wasLost;
    private long _announcedAtMs = long.MinValue / 2;
    private long _beatAtMs;
    private long _watchMs; // the clock of the node table; stops while the loop is suspended
    private string _stateReason = "The broker has not been reached yet.";
    private uint _epochs;
    private bool _isConnected;
    private bool _isDisposed;
    private int _hasLeft;
    private NoticePace _keyNotices;
    private NoticePace _twinNotices;
    private long _lostAtMs;
    private long _tickedAtMs;
    private long _runningMs; // any thread reads
    private int _state = (int)ClusterState.Degraded;
    private long _published;
    private long _received;
    private long _missed;
    private long _dropped;
    private long _duplicates;
    private long _echoes;
    private long _refused;
    private long _unknownVersions;

    private Cluster(Server server, IGroupBus bus, ClusterOptions options)
    {
        _options = options;
        _bus = bus;
        _server = server;
        _loop = server.Engine.GetLoop(0);
        _key = options.Key.ToArray();
        NodeId = options.NodeId ?? MakeNodeId();
        _nodeBytes = Encoding.UTF8.GetBytes(NodeId);
        _form = new EnvelopeForm(_instance, _nodeBytes, _key.Length > 0);
        _outbox = new Outbox(options.QueueLimitBytes, options.RepeatLimitBytes, options.QueuePolicy, _form);
        _groupsBySpan = _groups.GetAlternateLookup<ReadOnlySpan<char>>();
        _nodesSubject = Subjects.OfNodes(options.Application);
        if (options.PresenceInterval > TimeSpan.Zero)
            _presence = new Presence(Math.Min(MostPresenceBytes, options.MaxPayloadBytes));
    }

    /// <summary>Name of this node.</summary>
    public string NodeId { get; }

    /// <summary>State of the connection to the broker and the other nodes. Any thread; a snapshot.</summary>
    public ClusterState State => (ClusterState)Volatile.Read(ref _state);

    /// <summary>
    /// Reason for <see cref="State"/> as text for operators: what happened, why, what to do, and the names of missing
    /// nodes. Any thread; a snapshot.
    /// </summary>
    public string StateReason => Volatile.Read(ref _stateReason);

    internal string Application => _options.Application;

    internal Engine Engine => _loop.Engine;

    /// <summary>Whether the numbers of members of other nodes are known.</summary>
    internal bool HasPresence => _presence is not null;

    /// <summary>
    /// Numbers of members by group: of all nodes with presence, otherwise of this node. Any thread; visits the groups
    /// of all nodes.
    /// </summary>
    internal Dictionary<string, long> CountMembers()
    {
        Dictionary<string, long> counts = new(StringComparer.Ordinal);
        foreach ((string name, GroupState state) in _groups) counts[name] = state.Count;
        _presence?.AddTo(counts);
        return counts;
    }

    /// <summary>Joins a server to a cluster as a node.</summary>
    /// <param name="server">Server that provides the engine. The server or its engine must have been started.</param>
    /// <param name="bus">Connection to the broker, owned by the node and disposed with it.</param>
    /// <param name="options">Options; the application is required.</param>
    /// <param name="cancellationToken">Cancels the first attempt to reach the broker.</param>
    /// <exception cref="ArgumentException">An option is out of its range.</exception>
    /// <exception cref="NetworkException">The broker could not be reached.</exception>
    public static async ValueTask<Cluster> JoinAsync(Server server, IGroupBus bus, ClusterOptions options,
        CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(server);
        ArgumentNullException.ThrowIfNull(bus);
        ArgumentNullException.ThrowIfNull(options);
        options.Check();
        Cluster cluster = new(server, bus, options);
        try
        {
            await bus.StartAsync(cluster._loop, cluster, cancellationToken).ConfigureAwait(false);
        }
        catch
        {
            await bus.DisposeAsync().ConfigureAwait(false);
            throw;
        }

        ClusterMetrics.Joined(cluster);
        cluster._loop.Post(static c => ((Cluster)c!).StartTicking(), cluster);
        return cluster;
    }

    /// <summary>Joins a server to a cluster as a node, with the broker at an address.</summary>
    /// <param name="server">Server that provides the engine. The server or its engine must have been started.</param>
    /// <param name="address">
    /// Address of the broker, for example <c>nats://127.0.0.1:4222</c>. The scheme selects the bus:
    /// <see cref="GroupBus.Register"/>.
    /// </param>
    /// <param name="options">Options; the application is required.</param>
    /// <param name="cancellationToken">Cancels the first attempt to reach the broker.</param>
    /// <exception cref="ArgumentException">The address is wrong, no bus is registered for its scheme, or an option is
    /// out of its range.</exception>
    /// <exception cref="NetworkException">The broker could not be reached.</exception>
    public static ValueTask<Cluster> JoinAsync(Server server, string address, ClusterOptions options,
        CancellationToken cancellationToken = default) =>
        JoinAsync(server, GroupBus.Make(address), options, cancellationToken);

    /// <summary>Creates a node without a broker: the same groups, limited to one process.</summary>
    /// <param name="server">Server that provides the engine. The server or its engine must have been started.</param>
    /// <param name="options">Options; the application is required.</param>
    public static ValueTask<Cluster> JoinAsync(Server server, ClusterOptions options) =>
        JoinAsync(server, new MemoryBus().Connect(), options);

    /// <summary>
    /// Returns the group of a name. The node keeps no state for it before the first join or broadcast.
    /// </summary>
    /// <param name="name">Any characters, at most 256 bytes of UTF-8.</param>
    /// <exception cref="ArgumentException">The name is too long.</exception>
    public ClusterGroup Group(string name)
    {
        CheckName(name);
        return new ClusterGroup(this, name);
    }

    /// <summary>
    /// The groups that this node keeps state for: those with members here, and those that were used lately, in no
    /// particular order. Any thread; may be slightly outdated.
    /// </summary>
    public IEnumerable<ClusterGroup> Groups
    {
        get
        {
            foreach ((string name, _) in _groups) yield return new ClusterGroup(this, name);
        }
    }

    /// <summary>Reads the counters. Any thread.</summary>
    public ClusterCounters ReadCounters() => new(
        Volatile.Read(ref _published), Volatile.Read(ref _received), Volatile.Read(ref _missed),
        Volatile.Read(ref _dropped), Volatile.Read(ref _duplicates),
        Volatile.Read(ref _echoes), Volatile.Read(ref _refused), Volatile.Read(ref _unknownVersions), _outbox.Bytes);

    /// <summary>
    /// Leaves the cluster: offers queued broadcasts to the bus once more, and disposes the bus. Sessions stay connected
    /// but receive no more broadcasts: <see cref="ClusterGroup.Broadcast(ReadOnlySpan{byte}, Session)"/> returns
    /// <see cref="SendResult.Closed"/>. A second call does nothing.
    /// </summary>
    public async ValueTask DisposeAsync()
    {
        // Both the owner and a dependency-injection container may dispose the node.
        if (Interlocked.Exchange(ref _hasLeft, 1) != 0) return;
        ClusterMetrics.Left(this);
        try
        {
            await _loop.PostAsync(Leave).ConfigureAwait(false);
        }
        catch (InvalidOperationException)
        {
            // The engine has ended, and with it the loop.
        }

        _outbox.Close();
        await _bus.DisposeAsync().ConfigureAwait(false);
    }

    // ------------------------------------------------------------------ from any thread

    internal GroupState? Find(string name) => _groups.GetValueOrDefault(name);

    internal GroupState Use(string name)
    {
        while (true)
        {
            GroupState state = _groups.GetOrAdd(name, static (n, cluster) => new GroupState(cluster, n,
                Interlocked.Increment(ref cluster._epochs), Volatile.Read(ref cluster._runningMs)), this);
            if (state.TryUse(Volatile.Read(ref _runningMs))) return state;
            // The loop is forgetting this group: a session that joined it would receive nothing.
            _groups.TryRemove(new KeyValuePair<string, GroupState>(name, state));
        }
    }

    internal void Join(string name, Session session)
    {
        ObjectDisposedException.ThrowIf(Volatile.Read(ref _hasLeft) != 0, this);
        Use(name).Join(session);
    }

    internal void CheckPayload(ReadOnlySpan<byte> data)
    {
        if (data.Length > _options.MaxPayloadBytes)
            throw new ArgumentException($"{data.Length} bytes are more than "
                + $"{nameof(ClusterOptions)}.{nameof(ClusterOptions.MaxPayloadBytes)} ({_options.MaxPayloadBytes}).",
                nameof(data));
    }

    internal SendResult Broadcast(string name, ReadOnlySpan<byte> data, Session? except)
    {
        CheckPayload(data);
        if (Volatile.Read(ref _hasLeft) != 0) return SendResult.Closed;
        if (data.IsEmpty) return SendResult.Queued;
        GroupState state = Use(name);
        SendResult result = Deliver(state, data, except);
        if (result == SendResult.Full) return result;
        List<(GroupState Group, int Count)>? dropped = null;
        if (_outbox.Add(state, data, ClusterMetrics.Now(_loop), ref dropped)) Schedule();
        if (dropped is not null) PostDropped(dropped);
        return result;
    }

    internal List<NodePresence> ReadPresence(string name, int here)
    {
        List<NodePresence> all = [new NodePresence(NodeId, here)];
        _presence?.Read(name, all);
        return all;
    }

    internal void Occupied(GroupState state) => _loop.Post(s => JudgeOccupied((GroupState)s!), state);

    private static void CheckName(string name)
    {
        ArgumentNullException.ThrowIfNull(name);
        if (Encoding.UTF8.GetByteCount(name) > Envelope.MostGroupBytes)
            throw new ArgumentException($"A group's name has at most {Envelope.MostGroupBytes} bytes of UTF-8.",
                nameof(name));
    }

    private static string MakeNodeId()
    {
        string machine = Environment.MachineName.Length > 40 ? Environment.MachineName[..40] : Environment.MachineName;
        return $"{(Ascii.IsValid(machine) ? machine : "node")}-"
            + $"{RandomNumberGenerator.GetHexString(8, lowercase: true)}";
    }

    // A method of its own, because in the caller the closure would be allocated for each broadcast.
    private void PostDropped(List<(GroupState Group, int Count)> dropped) =>
        _loop.Post(d => TellDropped((List<(GroupState Group, int Count)>)d!), dropped);

    private void Schedule() => _loop.Post(static c => ((Cluster)c!).Flush(), this);

    private SendResult Deliver(GroupState state, ReadOnlySpan<byte> payload, Session? except) =>
        _options.Deliver is { } deliver ? deliver(state, payload, except) : state.Broadcast(payload, except);

    // ------------------------------------------------------------------ on the node's loop

    internal string NameOf(in Envelope envelope)
    {
        Span<char> name = stackalloc char[Envelope.MostNodeBytes];
        name = name[..Encoding.UTF8.GetChars(envelope.Node, name)];
        if (_names.TryGetValue(envelope.Instance, out string? known) && name.SequenceEqual(known)) return known;
        if (_names.Count >= MostNames) _names.Clear();
        return _names[envelope.Instance] = name.ToString();
    }

    private void Flush()
    {
        while (_isConnected)
        {
            AskAndMark();
            _outbox.Take(_batch, MostInBatch, _isHeld);
            if (_batch.Count == 0) return;
            LeaveOutTooLarge();
            if (_batch.Count == 0) continue;
            int taken = PublishBatch();
            Span<Outgoing> sent = CollectionsMarshal.AsSpan(_batch)[..taken];
            foreach (Outgoing item in sent)
            {
                if (item.IsRepeated) continue; // already counted when it was first published
                if (item.Count > 0) Interlocked.Add(ref _published, item.Count);
                foreach (long since in item.Since) ClusterMetrics.Published(this, _loop, since);
            }

            _outbox.Sent(sent, _loop.TimeMs);
            _batch.RemoveRange(0, taken);
            if (_batch.Count == 0) continue;
            _outbox.GiveBack(_batch); // the bus is full or away: OnRoom or OnConnected, and the next tick
            return;
        }

        _outbox.Unschedule();
    }

    private int PublishBatch()
    {
        if (_messages.Length < _batch.Count) _messages = new BusMessage[MostInBatch];
        Span<BusMessage> messages = _messages.AsSpan(0, _batch.Count);
        for (int i = 0; i < messages.Length; i++)
        {
            Outgoing item = _batch[i];
            Envelope.Seal(item.Bytes.Span, item.Sequence, _key);
            messages[i] = new BusMessage(item.Subject, item.Bytes);
        }

        int taken = _bus.Publish(messages);
        messages.Clear(); // the buffers belong to the pool again
        return taken;
    }

    /// <summary>
    /// Drops envelopes above the broker's limit, because the broker would close the connection and later envelopes
    /// would be lost.
    /// </summary>
    private void LeaveOutTooLarge()
    {
        List<(GroupState Group, int Count)>? dropped = null;
        int most = _bus.MaxEnvelopeBytes;
        for (int i = 0; i < _batch.Count; i++)
        {
            if (_batch[i].Length <= most) continue;
            if (_batch[i] is { Group: { } group, Count: > 0 and var count, IsRepeated: false })
                (dropped ??= []).Add((group, count));
            _outbox.Discard(_batch[i]);
            _batch.RemoveAt(i--);
        }

        if (dropped is not null) TellDropped(dropped);
    }

    private void JudgeOccupied(GroupState state)
    {
        if (_isDisposed) return;
        if (state.Count == 0)
        {
            if (state.IsSubscribed && state.UnsubscribeAtMs == long.MaxValue)
                state.UnsubscribeAtMs = _loop.TimeMs + (long)_options.UnsubscribeAfter.TotalMilliseconds;
            return;
        }

        state.UnsubscribeAtMs = long.MaxValue;
        if (state.IsSubscribed) return;
        state.IsSubscribed = true;
        if (_isConnected) Subscribe(state);
    }

    /// <summary>
    /// Subscribes to a group and asks what was published before. The answers arrive after the subscription.
    /// </summary>
    private void Subscribe(GroupState state)
    {
        _bus.Subscribe(state.Subject);
        _unasked.Enqueue(state);
        AskAndMark();
    }

    /// <summary>
    /// Queues as many questions and marks as the limit allows. The others stay in their lists, which take no room.
    /// </summary>
    private void AskAndMark()
    {
        while (_unasked.TryPeek(out GroupState? state))
        {
            if (state.IsSubscribed)
            {
                if (!TryControl(_form.Control(EnvelopeKind.Query, state, _nodesSubject, default))) return;
                state.Asked(_loop.TimeMs, (long)_options.MarkInterval.TotalMilliseconds);
            }

            _unasked.Dequeue();
        }

        while (_outbox.TryTakeUnmarked(out GroupState? group, out ulong sequence))
        {
            AddMark(group, sequence, default);
            group.TryUse(_runningMs); // so that the group is kept while marks may be in transit
        }
    }

    private bool TryControl(Outgoing item)
    {
        bool isTaken = _outbox.TryAddControl(item, out bool mustSchedule);
        if (mustSchedule) Schedule();
        return isTaken;
    }

    private void StartTicking()
    {
        if (_isDisposed) return;
        _tickedAtMs = _beatAtMs = _loop.TimeMs;
        _timer = _loop.StartTimer(_options.MarkInterval, static c => ((Cluster)c!).Tick(), this, _options.MarkInterval);
        _announceTimer = _loop.StartTimer(_options.AnnounceInterval, static c => ((Cluster)c!).Watch(), this,
            _options.AnnounceInterval);
        if (_presence is not null)
            _presenceTimer = _loop.StartTimer(_options.PresenceInterval, static c => ((Cluster)c!).TellPresence(), this,
                _options.PresenceInterval);
    }

    private void Tick()
    {
        long nowMs = _loop.TimeMs, intervalMs = (long)_options.MarkInterval.TotalMilliseconds;
        // Because no group can be used while the process is suspended, that time does not count as unused.
        Volatile.Write(ref _runningMs, _runningMs + Math.Min(nowMs - _tickedAtMs, 2 * intervalMs));
        _tickedAtMs = nowMs;
        if (_isConnected) _outbox.TrimSent(nowMs);
        if (_isConnected && !_isHeld) _outbox.BeginMarks();
        else if (!_isConnected && State == ClusterState.Degraded
            && nowMs - _lostAtMs >= (long)_options.IsolatedAfter.TotalMilliseconds)
        {
            SetState(ClusterState.Isolated, $"{_bus.Description} has been away for {(nowMs - _lostAtMs) / 1000} s; "
                + $"this node still serves its own members, and other nodes get no broadcasts.");
        }

        long unusedSinceMs = _runningMs - Math.Max(ForgetAfterMs, 2 * intervalMs);
        foreach ((string name, GroupState state) in _groups)
        {
            if (state.UnsubscribeAtMs <= nowMs && state.Count == 0)
            {
                state.UnsubscribeAtMs = long.MaxValue;
                state.IsSubscribed = false;
                state.EndSubscription();
                if (_isConnected) _bus.Unsubscribe(state.Subject);
            }

            if (!state.IsUsedSince(unusedSinceMs) && MayForget(state) && state.TryForget(unusedSinceMs))
                _groups.TryRemove(new KeyValuePair<string, GroupState>(name, state));
        }

        if (!_isConnected) return;
        Flush();
        Look();
    }

    /// <summary>
    /// Returns whether the group may be forgotten: only after the other nodes know its last sequence. A new state has a
    /// new epoch, with which losses of the old one are no longer detected.
    /// </summary>
    private bool MayForget(GroupState state) =>
        !state.IsSubscribed && state.Count == 0 && state.ToldCount == 0
        && (_outbox.IsSettled(state, _isConnected) || _groups.Count > MostKeptWhileAway);

    /// <summary>
    /// Publishes changed member counts. If the queue is more than half full, they wait for the next interval.
    /// </summary>
    private void TellPresence()
    {
        TimeSpan lease = _options.PresenceLease ?? (3 * _options.PresenceInterval);
        _presence!.Forget(_loop.TimeMs - (long)lease.TotalMilliseconds);
        if (!_isConnected || _outbox.Bytes > _options.QueueLimitBytes / 2) return;
        foreach ((ulong revision, byte[] payload) in _presence.Tell(_groups.Values))
            AddPresence(EnvelopeKind.Presence, revision, payload);
    }

    private void AddPresence(EnvelopeKind kind, ulong revision, ReadOnlySpan<byte> payload)
    {
        Outgoing report = _form.Control(kind, (ReadOnlySpan<byte>)[], _nodesSubject, payload);
        report.Sequence = revision;
        if (_outbox.AddControl(report)) Schedule();
    }

    /// <summary>
    /// Requests a full presence report from one node, or from all nodes if <paramref name="instance"/> is 0.
    /// </summary>
    private void AskPresence(ulong instance)
    {
        Span<byte> payload = stackalloc byte[sizeof(ulong)];
        BinaryPrimitives.WriteUInt64LittleEndian(payload, instance);
        // If the question is not queued it is repeated, because the next report does not match either.
        TryControl(_form.Control(EnvelopeKind.PresenceQuery, (ReadOnlySpan<byte>)[], _nodesSubject, payload));
    }

    private void HearPresence(Presence presence, in Envelope envelope)
    {
        if (envelope.Kind == EnvelopeKind.PresenceQuery)
        {
            if (envelope.Payload.Length == sizeof(ulong)
                && BinaryPrimitives.ReadUInt64LittleEndian(envelope.Payload) is var asked
                && (asked == 0 || asked == _instance))
                presence.SayAll();
            return;
        }

        switch (presence.Hear(envelope, _loop.TimeMs, (long)_options.PresenceInterval.TotalMilliseconds / 2))
        {
            case PresenceHeard.Ask: AskPresence(envelope.Instance); break;
            case PresenceHeard.Refused: Interlocked.Increment(ref _refused); break;
        }
    }

    /// <summary>
    /// Queues a mark, with the instance that asked or empty. Without room an answer is dropped; the node that asked
    /// then counts too many losses.
    /// </summary>
    private void AddMark(GroupState group, ulong sequence, ReadOnlySpan<byte> asker)
    {
        Outgoing mark = _form.Control(EnvelopeKind.Mark, group, group.Subject, asker);
        mark.Sequence = sequence;
        TryControl(mark);
    }

    private void TellDropped(List<(GroupState Group, int Count)> dropped)
    {
        foreach (IGrouping<GroupState, int> group in dropped.GroupBy(static d => d.Group, static d => d.Count))
        {
            int count = group.Sum();
            Interlocked.Add(ref _dropped, count);
            TellGap(NodeId, group.Key.Name, count);
        }
    }

    private void TellGap(string node, string group, long missed) =>
        Guard(() => _options.OnGap?.Invoke(new ClusterGap(node, group, missed)));

    private void SetState(ClusterState state, string message)
    {
        if (State == state && StateReason == message) return;
        Volatile.Write(ref _stateReason, message);
        Volatile.Write(ref _state, (int)state);
        Guard(() => _options.OnStateChanged?.Invoke(state, Escaped.Of(message)));
    }

    /// <summary>Calls user code. Its exceptions are reported by the engine, in a loop action of their own.</summary>
    internal void Guard(Action action)
    {
        try
        {
            HookNet.Call(action, Report);
        }
        catch (Exception e)
        {
            Report(e);
        }
    }

    /// <summary>Reports an exception of user code: the loop logs a diagnostic event.</summary>
    internal void Report(Exception exception) =>
        _loop.Post(static e => System.Runtime.ExceptionServices.ExceptionDispatchInfo.Throw((Exception)e!), exception);

    private void Leave()
    {
        _isHeld = false;
        Flush();
        if (_isConnected)
        {
            Outgoing goodbye = _form.Control(EnvelopeKind.Goodbye, (ReadOnlySpan<byte>)[], _nodesSubject, default);
            goodbye.Sequence = 1;
            if (_outbox.AddControl(goodbye)) Schedule();
            Flush();
        }

        _isDisposed = true;
        _isConnected = false;
        _timer?.Cancel();
        _presenceTimer?.Cancel();
        _announceTimer?.Cancel();
        _answerTimer?.Cancel();
        _grace?.Cancel();
        CloseArrears();
        foreach (RecoverableGroup group in _recoverable.Values) group.Close();
    }

    void IGroupBusListener.OnConnected()
    {
        if (_isDisposed) return;
        _isConnected = true;
        _outbox.SetMostEnvelopeBytes(_bus.MaxEnvelopeBytes);
        _bus.Subscribe(_nodesSubject);
        foreach (GroupState state in _groups.Values)
        {
            if (state.IsSubscribed) Subscribe(state);
            _outbox.MarkAgain(state);
        }

        if (_presence is not null)
        {
            _presence.SayAll();
            AskPresence(0);
        }

        foreach (RecoverableGroup group in _recoverable.Values) _bus.Subscribe(group.Subject);
        Announce(asks: true);
        if (_wasLost) _outbox.Repeat();
        if (_wasLost) _nodes.Await();
        _isHeld = _options.RejoinGrace > TimeSpan.Zero && _nodes.IsAwaiting;
        if (_isHeld) _grace = _loop.StartTimer(_options.RejoinGrace, static c => ((Cluster)c!).Release(), this);
        else JudgeNodes();
        Flush();
        Look();
    }

    void IGroupBusListener.OnLost(string reason)
    {
        if (_isDisposed || !_isConnected) return;
        _isConnected = false;
        (_isHeld, _wasLost) = (false, true);
        _grace?.Cancel();
        _unasked.Clear(); // all are subscribed and queried again after the reconnect
        _lostAtMs = _loop.TimeMs;
        SetState(ClusterState.Degraded,
            $"{_bus.Description} lost: {reason} Broadcasts to other nodes wait, local delivery continues.");
    }

    void IGroupBusListener.OnRoom()
    {
        if (_isDisposed) return;
        Flush();
        Look();
    }

    void IGroupBusListener.OnEnvelope(ReadOnlySpan<byte> envelope)
    {
        if (_isDisposed) return;
        if (envelope.Length > Math.Max(_options.MaxPayloadBytes, Envelope.MostJoinedBytes) + Envelope.MostOverheadBytes)
        {
            Interlocked.Increment(ref _refused);
            return;
        }

        switch (Envelope.TryRead(envelope, _key, out Envelope read))
        {
            case EnvelopeResult.Refused: Interlocked.Increment(ref _refused); break;
            case EnvelopeResult.NotSigned:
                Interlocked.Increment(ref _refused);
                NoteNotSigned();
                break;
            case EnvelopeResult.UnknownVersion: Interlocked.Increment(ref _unknownVersions); break;
            default: Hear(read); break;
        }
    }

    private void NoteNotSigned()
    {
        if (!_keyNotices.TryTake(_loop.TimeMs)) return;
        _server.Report(new DiagnosticEvent(
            DiagnosticEventKind.Cluster,
            $"Node '{NodeId}' of '{Application}' refused an envelope that is not signed with "
            + $"its Key: broadcasts of that process do not arrive here. Give all nodes the same "
            + $"{nameof(ClusterOptions)}.{nameof(ClusterOptions.Key)}; "
            + $"if all have it, another program publishes on {_bus.Reached}. All are counted "
            + $"(ClusterCounters.Refused).",
            "cluster-nodes.md"));
    }

    private void Hear(in Envelope envelope)
    {
        if (envelope.Instance == _instance)
        {
            if (envelope.Kind == EnvelopeKind.Announcement) return; // not counted, because it is sent periodically
            Interlocked.Increment(ref _echoes);
            // The query was sent after the subscription.
            if (envelope.Kind == EnvelopeKind.Query && FindGroup(envelope.Group) is { IsSubscribed: true } asked)
                asked.IsConfirmed = true;
            return;
        }

        if (envelope.Node.SequenceEqual(_nodeBytes) && _twins.Count < MostTwins && _twins.Add(envelope.Instance))
        {
            string twin = $"Another process is node '{NodeId}' of '{Application}', too. Each needs an id of its own.";
            if (_options.OnTwin is { } hook) Guard(() => hook(twin));
            else if (_twinNotices.TryTake(_loop.TimeMs))
                _server.Report(new DiagnosticEvent(DiagnosticEventKind.Cluster, $"{twin} Set another "
                    + $"{nameof(ClusterOptions)}.{nameof(ClusterOptions.NodeId)} on one of them, or leave it null.",
                    "cluster-nodes.md"));
        }

        if (_nodes.Hear(envelope.Instance, _watchMs, out bool isNew)) NodesChanged();
        else if (isNew && envelope.Kind != EnvelopeKind.Goodbye)
            _nodes.Add(envelope.Instance, NameOf(envelope), _watchMs);
        if (envelope.Kind is EnvelopeKind.Announcement or EnvelopeKind.Goodbye)
        {
            HearNode(envelope);
            return;
        }

        if (envelope.Kind is EnvelopeKind.Presence or EnvelopeKind.PresenceQuery)
        {
            if (_presence is not null) HearPresence(_presence, envelope);
            return;
        }

        if (envelope.Kind is EnvelopeKind.News or EnvelopeKind.Entry)
        {
            // Entries are read from their stream only.
            if (envelope.Kind == EnvelopeKind.News
                && _recoverable.TryGetValue(Encoding.UTF8.GetString(envelope.Group), out RecoverableGroup? recoverable))
                recoverable.Look();
        }
        else if (FindGroup(envelope.Group) is not { } state)
        {
            // This node has no such group.
        }
        else if (envelope.Kind == EnvelopeKind.Query)
        {
            if (_outbox.SequenceOf(state) is > 0 and ulong sequence) AnswerQuery(state, sequence, envelope.Instance);
        }
        else if (state.IsSubscribed)
        {
            HearGroup(state, envelope);
        }
    }

    private void AnswerQuery(GroupState state, ulong sequence, ulong asker)
    {
        Span<byte> payload = stackalloc byte[sizeof(ulong)];
        BinaryPrimitives.WriteUInt64LittleEndian(payload, asker);
        AddMark(state, sequence, payload);
    }

    private GroupState? FindGroup(ReadOnlySpan<byte> utf8)
    {
        // Because consecutive envelopes are often of one group, its name is compared first.
        if (_lastFound is { } last && last.NameBytes.AsSpan().SequenceEqual(utf8) && !last.IsForgotten) return last;
        Span<char> name = stackalloc char[Envelope.MostGroupBytes];
        return _lastFound =
            _groupsBySpan.TryGetValue(name[..Encoding.UTF8.GetChars(utf8, name)], out GroupState? state) ? state : null;
    }

    private void HearGroup(GroupState state, in Envelope envelope)
    {
        bool isAnswer = envelope.Kind == EnvelopeKind.Mark && envelope.Payload.Length == sizeof(ulong)
            && BinaryPrimitives.ReadUInt64LittleEndian(envelope.Payload) == _instance;
        int fresh = state.Hear(envelope, isAnswer, _loop.TimeMs, out string node, out long missed);
        if (missed > 0)
        {
            Interlocked.Add(ref _missed, missed);
            TellGap(node, state.Name, missed);
        }

        if (fresh < envelope.Count) Interlocked.Add(ref _duplicates, envelope.Count - fresh);
        ReadOnlySpan<byte> rest = envelope.Payload, all = rest;
        for (int left = envelope.Count; left > 0 && Envelope.TryTakeMessage(ref rest, out ReadOnlySpan<byte> message);
            left--, all = rest)
        {
            if (left > fresh || (_arrears.Count == 0 && TryReceive(state, node, message))) continue;
            KeepArrears(state, node, all, left);
            return;
        }
    }
}
