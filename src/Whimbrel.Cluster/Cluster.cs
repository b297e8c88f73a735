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
/// One node of a cluster: its groups have members here and on other nodes, and a bus brings broadcasts from one to the other.
/// </summary>
/// <remarks>
/// The contract, by number; each number has a test:
/// <list type="number">
/// <item>Members here get a broadcast before anything goes to the bus, in call order, and whatever the bus does.</item>
/// <item>Members elsewhere get it at most once, in order for each publishing node and group. Between groups and nodes there is no order.</item>
/// <item>Every loss is told: on the nodes whose members did not get it by <see cref="ClusterOptions.OnGap"/>, and here when it did not get as far as the bus.
/// The number is never too small. What a group missed before its subscription, and the question that goes with it, reached the publisher was never
/// its own; and where a last broadcast and all marks behind it are lost, the loss is known with the next broadcast.</item>
/// <item>A lost broker ends no connection. The state says so, what is published waits within a limit, and goes out when the broker is back.</item>
/// <item>What the broker sends back of this node's own is dropped.</item>
/// <item>A group is subscribed with its first member here, and unsubscribed a while after its last.</item>
/// <item>Broadcasts of one turn go to the bus in one call.</item>
/// <item>Whatever comes from the broker, the process lives: what is too large, cut, foreign, unsigned or of another version is left out and counted.</item>
/// <item>Presence, where it is wanted: three intervals after the last loss and the last change the counts are right, and a node without a word for a lease has no members.</item>
/// <item>A broker that is restarted loses nothing that fits the queue, where the nodes are back within the grace: see <see cref="ClusterOptions.RejoinGrace"/> and <see cref="ClusterOptions.RepeatLimitBytes"/>.</item>
/// <item>A known node that vanishes without a goodbye makes the state <see cref="ClusterState.Degraded"/> and is named.</item>
/// </list>
/// Everything about the bus happens on one loop, the first of the server's engine; an <see cref="Outbox"/> is the way there for other threads.
/// </remarks>
public sealed partial class Cluster : IGroupBusListener, IAsyncDisposable
{
    private const int MostInBatch = 256;
    private const int MostPresenceBytes = 16 * 1024; // of an envelope
    private const int AnnouncementBytes = 5; // its interval, and whether the others are asked to announce themselves
    private const long LeastBetweenAnnouncementsMs = 100;
    private const int MostTwins = 256; // that are told of
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
    private readonly Queue<GroupState> _unasked = []; // subscribed, and the question what was before waits for room
    private readonly HashSet<ulong> _twins = [];
    private readonly Dictionary<ulong, string> _names = []; // of the other nodes, by their instance: one text for all groups
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
    private long _watchMs; // the clock of the table of nodes: stands while the loop does
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
        if (options.PresenceInterval > TimeSpan.Zero) _presence = new Presence(Math.Min(MostPresenceBytes, options.MaxPayloadBytes));
    }

    /// <summary>This node's name.</summary>
    public string NodeId { get; }

    /// <summary>How it stands with the others. Any thread; a moment old.</summary>
    public ClusterState State => (ClusterState)Volatile.Read(ref _state);

    /// <summary>What made the state what it is, for people: what happened, why, and what now; names the nodes that are missing. Any thread; a moment old.</summary>
    public string StateReason => Volatile.Read(ref _stateReason);

    internal string Application => _options.Application;

    /// <summary>Makes a node of a server.</summary>
    /// <param name="server">It gives the engine, which has to run: the server is started, or its engine is.</param>
    /// <param name="bus">The broker, from now on this node's. Disposed with it.</param>
    /// <param name="options">At least the application.</param>
    /// <param name="cancellationToken">Gives up the first attempt to reach the broker.</param>
    /// <exception cref="ArgumentException">An option is out of its range.</exception>
    /// <exception cref="NetworkException">The broker could not be reached.</exception>
    public static async ValueTask<Cluster> JoinAsync(Server server, IGroupBus bus, ClusterOptions options, CancellationToken cancellationToken = default)
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

    /// <summary>Makes a node of a server, over the broker at an address.</summary>
    /// <param name="server">It gives the engine, which has to run: the server is started, or its engine is.</param>
    /// <param name="address">For example <c>nats://127.0.0.1:4222</c>. Its scheme says which bus it is: <see cref="GroupBus.Register"/>.</param>
    /// <param name="options">At least the application.</param>
    /// <param name="cancellationToken">Gives up the first attempt to reach the broker.</param>
    /// <exception cref="ArgumentException">The address is wrong, no bus is registered for its scheme, or an option is out of its range.</exception>
    /// <exception cref="NetworkException">The broker could not be reached.</exception>
    public static ValueTask<Cluster> JoinAsync(Server server, string address, ClusterOptions options, CancellationToken cancellationToken = default) =>
        JoinAsync(server, GroupBus.Make(address), options, cancellationToken);

    /// <summary>Makes a node without others: the same groups in one process, and nothing to install.</summary>
    /// <param name="server">It gives the engine, which has to run: the server is started, or its engine is.</param>
    /// <param name="options">At least the application.</param>
    public static ValueTask<Cluster> JoinAsync(Server server, ClusterOptions options) => JoinAsync(server, new MemoryBus().Connect(), options);

    /// <summary>The group of that name. Costs nothing that lasts until somebody joins or broadcasts.</summary>
    /// <param name="name">At most 256 bytes of UTF-8; any characters.</param>
    /// <exception cref="ArgumentException">Too long.</exception>
    public ClusterGroup Group(string name)
    {
        CheckName(name);
        return new ClusterGroup(this, name);
    }

    /// <summary>Reads the counts. Any thread.</summary>
    public ClusterCounters ReadCounters() => new(
        Volatile.Read(ref _published), Volatile.Read(ref _received), Volatile.Read(ref _missed), Volatile.Read(ref _dropped), Volatile.Read(ref _duplicates),
        Volatile.Read(ref _echoes), Volatile.Read(ref _refused), Volatile.Read(ref _unknownVersions), _outbox.Bytes);

    /// <summary>Leaves the cluster: what waits is offered to the bus once more, and the bus is disposed. Sessions stay connected, and get no more broadcasts: <see cref="ClusterGroup.Broadcast(ReadOnlySpan{byte}, Session)"/> returns <see cref="SendResult.Closed"/>. A second call does nothing.</summary>
    public async ValueTask DisposeAsync()
    {
        // Its owner and a container perhaps, which disposes whatever it gave.
        if (Interlocked.Exchange(ref _hasLeft, 1) != 0) return;
        ClusterMetrics.Left(this);
        try
        {
            await _loop.PostAsync(Leave).ConfigureAwait(false);
        }
        catch (InvalidOperationException)
        {
            // The engine has ended, and with it all that runs on the loop.
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
            GroupState state = _groups.GetOrAdd(name, static (n, cluster) => new GroupState(cluster, n, Interlocked.Increment(ref cluster._epochs), Volatile.Read(ref cluster._runningMs)), this);
            if (state.TryUse(Volatile.Read(ref _runningMs))) return state;
            // The loop forgets it this moment. Whoever joined it would hear nothing.
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
        if (data.Length > _options.MaxPayloadBytes) throw new ArgumentException($"{data.Length} bytes are more than {nameof(ClusterOptions)}.{nameof(ClusterOptions.MaxPayloadBytes)} ({_options.MaxPayloadBytes}).", nameof(data));
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
        if (Encoding.UTF8.GetByteCount(name) > Envelope.MostGroupBytes) throw new ArgumentException($"A group's name has at most {Envelope.MostGroupBytes} bytes of UTF-8.", nameof(name));
    }

    private static string MakeNodeId()
    {
        string machine = Environment.MachineName.Length > 40 ? Environment.MachineName[..40] : Environment.MachineName;
        return $"{(Ascii.IsValid(machine) ? machine : "node")}-{RandomNumberGenerator.GetHexString(8, lowercase: true)}";
    }

    // Not in the caller, where the closure would be made for each broadcast.
    private void PostDropped(List<(GroupState Group, int Count)> dropped) => _loop.Post(d => TellDropped((List<(GroupState Group, int Count)>)d!), dropped);

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
                if (item.IsRepeated) continue; // counted when it was published first
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
        messages.Clear(); // their buffers are the pool's again
        return taken;
    }

    /// <summary>The broker would end the connection for it, and others would lose what is behind it.</summary>
    private void LeaveOutTooLarge()
    {
        List<(GroupState Group, int Count)>? dropped = null;
        int most = _bus.MaxEnvelopeBytes;
        for (int i = 0; i < _batch.Count; i++)
        {
            if (_batch[i].Length <= most) continue;
            if (_batch[i] is { Group: { } group, Count: > 0 and var count, IsRepeated: false }) (dropped ??= []).Add((group, count));
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
            if (state.IsSubscribed && state.UnsubscribeAtMs == long.MaxValue) state.UnsubscribeAtMs = _loop.TimeMs + (long)_options.UnsubscribeAfter.TotalMilliseconds;
            return;
        }

        state.UnsubscribeAtMs = long.MaxValue;
        if (state.IsSubscribed) return;
        state.IsSubscribed = true;
        if (_isConnected) Subscribe(state);
    }

    /// <summary>With the question what was published before: its answers come behind the subscription.</summary>
    private void Subscribe(GroupState state)
    {
        _bus.Subscribe(state.Subject);
        _unasked.Enqueue(state);
        AskAndMark();
    }

    /// <summary>As many questions and marks as may wait. The others stay where they are, and take no room.</summary>
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
            group.TryUse(_runningMs); // so that it is known for as long as the marks may still be on their way
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
        _announceTimer = _loop.StartTimer(_options.AnnounceInterval, static c => ((Cluster)c!).Watch(), this, _options.AnnounceInterval);
        if (_presence is not null) _presenceTimer = _loop.StartTimer(_options.PresenceInterval, static c => ((Cluster)c!).TellPresence(), this, _options.PresenceInterval);
    }

    private void Tick()
    {
        long nowMs = _loop.TimeMs, intervalMs = (long)_options.MarkInterval.TotalMilliseconds;
        // While the process stands still nobody could use anything, and who is about to must not find it forgotten.
        Volatile.Write(ref _runningMs, _runningMs + Math.Min(nowMs - _tickedAtMs, 2 * intervalMs));
        _tickedAtMs = nowMs;
        if (_isConnected) _outbox.TrimSent(nowMs);
        if (_isConnected && !_isHeld) _outbox.BeginMarks();
        else if (!_isConnected && State == ClusterState.Degraded && nowMs - _lostAtMs >= (long)_options.IsolatedAfter.TotalMilliseconds)
        {
            SetState(ClusterState.Isolated, $"{_bus.Description} has been away for {(nowMs - _lostAtMs) / 1000} s; members here are served, other nodes hear nothing.");
        }

        long unusedSinceMs = _runningMs - Math.Max(ForgetAfterMs, 2 * intervalMs);
        foreach ((string name, GroupState state) in _groups)
        {
            if (state.UnsubscribeAtMs <= nowMs && state.Count == 0)
            {
                state.UnsubscribeAtMs = long.MaxValue;
                state.IsSubscribed = false;
                state.ForgetPublishers();
                if (_isConnected) _bus.Unsubscribe(state.Subject);
            }

            if (!state.IsUsedSince(unusedSinceMs) && MayForget(state) && state.TryForget(unusedSinceMs)) _groups.TryRemove(new KeyValuePair<string, GroupState>(name, state));
        }

        if (!_isConnected) return;
        Flush();
        Look();
    }

    /// <summary>Not before the others know how far it was published to: its next life begins with another epoch, and then nobody looks for what was lost before.</summary>
    private bool MayForget(GroupState state) =>
        !state.IsSubscribed && state.Count == 0 && state.ToldCount == 0 && (_outbox.IsSettled(state, _isConnected) || _groups.Count > MostKeptWhileAway);

    /// <summary>Where the bus is behind, nothing is added to what waits: what has changed is said with the next beat.</summary>
    private void TellPresence()
    {
        TimeSpan lease = _options.PresenceLease ?? (3 * _options.PresenceInterval);
        _presence!.Forget(_loop.TimeMs - (long)lease.TotalMilliseconds);
        if (!_isConnected || _outbox.Bytes > _options.QueueLimitBytes / 2) return;
        foreach ((ulong revision, byte[] payload) in _presence.Tell(_groups.Values)) AddPresence(EnvelopeKind.Presence, revision, payload);
    }

    private void AddPresence(EnvelopeKind kind, ulong revision, ReadOnlySpan<byte> payload)
    {
        Outgoing report = _form.Control(kind, (ReadOnlySpan<byte>)[], _nodesSubject, payload);
        report.Sequence = revision;
        if (_outbox.AddControl(report)) Schedule();
    }

    /// <summary>Each node, when the instance is 0, or one of them has to say all.</summary>
    private void AskPresence(ulong instance)
    {
        Span<byte> payload = stackalloc byte[sizeof(ulong)];
        BinaryPrimitives.WriteUInt64LittleEndian(payload, instance);
        // One that is not taken is asked again: what was heard does not fit then, either.
        TryControl(_form.Control(EnvelopeKind.PresenceQuery, (ReadOnlySpan<byte>)[], _nodesSubject, payload));
    }

    private void HearPresence(Presence presence, in Envelope envelope)
    {
        if (envelope.Kind == EnvelopeKind.PresenceQuery)
        {
            if (envelope.Payload.Length == sizeof(ulong) && BinaryPrimitives.ReadUInt64LittleEndian(envelope.Payload) is var asked && (asked == 0 || asked == _instance)) presence.SayAll();
            return;
        }

        switch (presence.Hear(envelope, _loop.TimeMs, (long)_options.PresenceInterval.TotalMilliseconds / 2))
        {
            case PresenceHeard.Ask: AskPresence(envelope.Instance); break;
            case PresenceHeard.Refused: Interlocked.Increment(ref _refused); break;
        }
    }

    /// <summary>With the instance that asked, or nothing. An answer for which there is no room is none: who asked counts too many.</summary>
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

    private void TellGap(string node, string group, long missed) => Guard(() => _options.OnGap?.Invoke(new ClusterGap(node, group, missed)));

    private void SetState(ClusterState state, string message)
    {
        if (State == state && StateReason == message) return;
        Volatile.Write(ref _stateReason, message);
        Volatile.Write(ref _state, (int)state);
        Guard(() => _options.OnStateChanged?.Invoke(state, Escaped.Of(message)));
    }

    /// <summary>What user code throws is the engine's to tell, in an action of its own.</summary>
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

    /// <summary>Code of the program's threw: the loop gives a notice.</summary>
    internal void Report(Exception exception) => _loop.Post(static e => System.Runtime.ExceptionServices.ExceptionDispatchInfo.Throw((Exception)e!), exception);

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
        _unasked.Clear(); // all are subscribed and asked about anew
        _lostAtMs = _loop.TimeMs;
        SetState(ClusterState.Degraded, $"{_bus.Description} lost: {reason} Broadcasts to other nodes wait, local delivery continues.");
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
        _server.Note(new Notice(
            NoticeKind.Cluster,
            $"Node '{NodeId}' of '{Application}' refused an envelope that is not signed with its Key: broadcasts of that process do not arrive here. Give all nodes the same {nameof(ClusterOptions)}.{nameof(ClusterOptions.Key)}; "
            + $"if all have it, another program publishes on {_bus.Reached}. All are counted (ClusterCounters.Refused).",
            "cluster-nodes.md"));
    }

    private void Hear(in Envelope envelope)
    {
        if (envelope.Instance == _instance)
        {
            if (envelope.Kind == EnvelopeKind.Announcement) return; // not counted: it comes with the clock, and not for something that was said
            Interlocked.Increment(ref _echoes);
            // It went behind the subscription.
            if (envelope.Kind == EnvelopeKind.Query && FindGroup(envelope.Group) is { IsSubscribed: true } asked) asked.IsConfirmed = true;
            return;
        }

        if (envelope.Node.SequenceEqual(_nodeBytes) && _twins.Count < MostTwins && _twins.Add(envelope.Instance))
        {
            string twin = $"Another process is node '{NodeId}' of '{Application}', too. Each needs an id of its own.";
            if (_options.OnTwin is { } hook) Guard(() => hook(twin));
            else if (_twinNotices.TryTake(_loop.TimeMs)) _server.Note(new Notice(NoticeKind.Cluster, $"{twin} Set another {nameof(ClusterOptions)}.{nameof(ClusterOptions.NodeId)} on one of them, or leave it null.", "cluster-nodes.md"));
        }

        if (_nodes.Hear(envelope.Instance, _watchMs, out bool isNew)) NodesChanged();
        else if (isNew && envelope.Kind != EnvelopeKind.Goodbye) _nodes.Add(envelope.Instance, NameOf(envelope), _watchMs);
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
            // An entry is heard out of its stream alone.
            if (envelope.Kind == EnvelopeKind.News && _recoverable.TryGetValue(Encoding.UTF8.GetString(envelope.Group), out RecoverableGroup? recoverable)) recoverable.Look();
        }
        else if (FindGroup(envelope.Group) is not { } state)
        {
            // Nothing of this node.
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
        // What comes next is often of the same group, and its bytes are quickly compared.
        if (_lastFound is { } last && last.NameBytes.AsSpan().SequenceEqual(utf8) && !last.IsForgotten) return last;
        Span<char> name = stackalloc char[Envelope.MostGroupBytes];
        return _lastFound = _groupsBySpan.TryGetValue(name[..Encoding.UTF8.GetChars(utf8, name)], out GroupState? state) ? state : null;
    }

    private void HearGroup(GroupState state, in Envelope envelope)
    {
        bool isAnswer = envelope.Kind == EnvelopeKind.Mark && envelope.Payload.Length == sizeof(ulong) && BinaryPrimitives.ReadUInt64LittleEndian(envelope.Payload) == _instance;
        int fresh = state.Hear(envelope, isAnswer, _loop.TimeMs, out string node, out long missed);
        if (missed > 0)
        {
            Interlocked.Add(ref _missed, missed);
            TellGap(node, state.Name, missed);
        }

        if (fresh < envelope.Count) Interlocked.Add(ref _duplicates, envelope.Count - fresh);
        ReadOnlySpan<byte> rest = envelope.Payload, all = rest;
        for (int left = envelope.Count; left > 0 && Envelope.TryTakeMessage(ref rest, out ReadOnlySpan<byte> message); left--, all = rest)
        {
            if (left > fresh || (_arrears.Count == 0 && TryReceive(state, node, message))) continue;
            KeepArrears(state, node, all, left);
            return;
        }
    }
}
