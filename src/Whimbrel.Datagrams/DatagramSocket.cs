using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using Whimbrel.Connections;
using Whimbrel.Datagrams;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel;

/// <summary>
/// A socket for datagrams: UDP over IPv4, IPv6 or both, multicast, and Unix datagram sockets; bound or connected.
/// Datagrams are passed to a <see cref="DatagramHandler"/>, or fetched with <see cref="ReceiveAsync"/>. All methods may
/// be called from any thread.
/// </summary>
/// <remarks>
/// <para>Datagrams are never combined, and truncation is always reported. ICMP errors, a full queue or exceptions of a
/// handler do not end the socket; only the start can fail.</para>
/// <para>The socket may be started with <see cref="StartAsync"/> and stopped any number of times, until it is disposed.
/// A stop of the engine also closes it.</para>
/// </remarks>
public sealed partial class DatagramSocket : IAsyncDisposable
{
    private readonly Func<DatagramHandler>? _factory;
    private readonly Lock _gate = new(); // guards the phase and the per-loop sockets
    private LoopSocket[] _residents = [];
    private DatagramInbox? _inbox;
    private Phase _phase;
    private bool _isDisposed;
    private bool _isOverdue; // the last stop has passed its deadline, and something still runs

    /// <summary>Creates a socket with handlers. Opens nothing before <see cref="StartAsync"/>.</summary>
    /// <param name="options">Options, copied now and validated at start.</param>
    /// <param name="factory">Function that creates the handler of one loop, on that loop, at each start. If it throws,
    /// the start fails with its exception.</param>
    public DatagramSocket(DatagramOptions options, Func<DatagramHandler> factory)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(factory);
        Options = options.Clone();
        _factory = factory;
    }

    /// <summary>
    /// Creates a socket without a handler, on one loop: <see cref="ReceiveAsync"/> and <see cref="TryReceive"/> return
    /// received datagrams.
    /// </summary>
    /// <param name="options">Options, copied now and validated at start.</param>
    public DatagramSocket(DatagramOptions options)
    {
        ArgumentNullException.ThrowIfNull(options);
        Options = options.Clone();
    }

    private enum Phase
    {
        Stopped,
        Starting,
        Started,
        Stopping,
    }

    /// <summary>The options of the socket.</summary>
    public DatagramOptions Options { get; }

    /// <summary>The engine that the socket uses.</summary>
    public Engine Engine => Options.Engine ?? Engine.Default;

    /// <summary>Address that the socket is bound to, with the actual port. Null before the first start.</summary>
    public EndPoint? EndPoint { get; private set; }

    /// <summary>
    /// A <see cref="System.Net.Sockets.Socket"/> for the descriptor of its first loop, for options without a member
    /// here. Created by the first call (or by <see cref="DatagramOptions.CreateSocket"/>) on a duplicate, and disposed
    /// when the socket is closed. Receiving with it takes datagrams away from this socket. Null if the socket is not
    /// open, and on the memory engine.
    /// </summary>
    /// <exception cref="NetworkException">Category Limit: no file descriptor is left for the duplicate.</exception>
    public Socket? Socket => Volatile.Read(ref _residents) is [{ } first, ..] ? first.ShareSocket() : null;

    /// <summary>
    /// The loop of its callbacks; with several loops, the first of them. Null before the first start. Any thread.
    /// </summary>
    public Loop? Loop => Volatile.Read(ref _residents) is [{ } first, ..] ? first.Loop : null;

    /// <summary>True from the end of a start to the begin of a stop.</summary>
    public bool IsStarted => _phase == Phase.Started;

    /// <summary>Groups that the socket is a member of.</summary>
    public IReadOnlyList<MulticastGroup> Groups => Volatile.Read(ref _residents) is [{ } first, ..] ? first.Groups : [];

    /// <summary>Number of datagrams waiting to be sent, over all loops.</summary>
    public long PendingDatagrams
    {
        get
        {
            long sum = 0;
            foreach (LoopSocket resident in Volatile.Read(ref _residents)) sum += resident.PendingDatagrams;
            return sum;
        }
    }

    /// <summary>
    /// Number of bytes of datagrams waiting to be sent, over all loops, including sends in progress on other threads.
    /// </summary>
    public long BytesPending
    {
        get
        {
            long sum = 0;
            foreach (LoopSocket resident in Volatile.Read(ref _residents)) sum += resident.PendingBytes;
            return sum;
        }
    }

    /// <summary>
    /// Returns all counters since the last start. Cheap: each loop counts on its own, and this call adds the counts up.
    /// </summary>
    public DatagramCounters ReadCounters()
    {
        DatagramCounters sum = default;
        foreach (LoopSocket r in Volatile.Read(ref _residents))
        {
            sum = new DatagramCounters(
                sum.DatagramsReceived + Volatile.Read(ref r.DatagramsReceived),
                sum.BytesReceived + Volatile.Read(ref r.BytesReceived),
                sum.DatagramsSent + Volatile.Read(ref r.DatagramsSent),
                sum.BytesSent + Volatile.Read(ref r.BytesSent),
                sum.Queued + r.PendingDatagrams,
                sum.Truncated + Volatile.Read(ref r.Truncated),
                sum.Overflowed + Volatile.Read(ref r.Overflowed),
                sum.Refused + r.Refused,
                sum.Displaced + Volatile.Read(ref r.Displaced),
                sum.Failed + Volatile.Read(ref r.Failed),
                sum.Abandoned + Volatile.Read(ref r.Abandoned),
                sum.PeerErrors + Volatile.Read(ref r.PeerErrors),
                sum.HandlerErrors + Volatile.Read(ref r.HandlerErrors),
                sum.SendCalls + Volatile.Read(ref r.SendCalls),
                sum.ReceiveCalls + Volatile.Read(ref r.ReceiveCalls),
                sum.Withheld + Volatile.Read(ref r.Withheld));
        }

        return sum;
    }

    internal DatagramHandler? MakeHandler() =>
        _factory is null
            ? null
            : _factory() ?? throw new InvalidOperationException("The factory of the datagram socket gave no handler.");

    // ------------------------------------------------------------------ start

    /// <summary>
    /// Binds, joins the groups of the options, starts the handlers, and receives. An exception of the factory is thrown
    /// to the caller. After a failure nothing is open.
    /// </summary>
    /// <exception cref="NetworkException">The address cannot be bound or a group not joined.</exception>
    /// <exception cref="ArgumentException">The options have mistakes; the message lists all of them.</exception>
    /// <exception cref="InvalidOperationException">The socket is started or stopping.</exception>
    /// <exception cref="ObjectDisposedException">The socket was disposed.</exception>
    /// <param name="cancellationToken">Checked before anything is opened.</param>
    public ValueTask StartAsync(CancellationToken cancellationToken = default) =>
        SessionOrder.Keep(SessionOrder.Leave(), StartCoreAsync(cancellationToken));

    private async ValueTask StartCoreAsync(CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        Engine engine = Engine;
        EndPoint endPoint = DatagramRules.Validate(Options, engine, _factory is null);
        lock (_gate)
        {
            ObjectDisposedException.ThrowIf(_isDisposed, typeof(DatagramSocket));
            if (_phase == Phase.Stopping) Throw.State(_isOverdue
                ? "The datagram socket cannot be started: it is stopping, and a handler that still ran at the deadline "
                    + "has not returned."
                : "The datagram socket is stopping: await StopAsync before it is started again.");
            if (_phase != Phase.Stopped) Throw.State("The datagram socket is started already.");
            _phase = Phase.Starting;
        }

        List<LoopSocket> bound = [];
        try
        {
            engine.Start();
            int interfaceIndex = await InterfaceLookup.FindAsync(engine, Options.MulticastInterface)
                .ConfigureAwait(false);
            List<InheritedSocket> claimed = await ClaimAsync(endPoint).ConfigureAwait(false);
            Task binding = BindAsync(engine, endPoint, interfaceIndex, claimed, bound);
            await (Options.Upgrade?.ExplainAsync(binding) ?? binding).ConfigureAwait(false);
            LoopSocket[] residents = [.. bound];
            foreach (MulticastGroup group in Options.Groups)
                await ChangeAsync(residents[0], group, joins: true).ConfigureAwait(false);
            lock (_gate)
            {
                if (_phase != Phase.Starting) Throw.State("The datagram socket was stopped while it started.");
                EndPoint = residents[0].EndPoint;
                Volatile.Write(ref _residents, residents);
                _phase = Phase.Started;
            }

            foreach (LoopSocket resident in residents) await OpenAsync(resident).ConfigureAwait(false);
            Options.Upgrade?.Add(this);
        }
        catch
        {
            await CloseAsync(bound, TimeSpan.Zero).ConfigureAwait(false);
            lock (_gate)
            {
                if (_phase is Phase.Starting) _phase = Phase.Stopped;
            }

            throw;
        }
    }

    private async Task BindAsync(Engine engine, EndPoint endPoint, int interfaceIndex,
        List<InheritedSocket> claimed, List<LoopSocket> bound)
    {
        // All of the old process's sockets, because each has a queue.
        int count = Math.Max(claimed.Count, Options.Loops == 0 ? engine.LoopCount : Options.Loops);
        Loop first = engine.NextLoop();
        DatagramInbox? inbox = _inbox = _factory is null ? new DatagramInbox(engine, Options.UnreadLimitBytes) : null;
        for (int i = 0; i < count; i++)
        {
            Loop loop = engine.Loops[(first.Index + i) % engine.Loops.Length];
            // The other sockets bind the port that the first one got.
            InheritedSocket? inherited = i < claimed.Count ? claimed[i] : Options.EndPoint as InheritedSocket;
            EndPoint here = inherited?.LocalEndPoint ?? (i == 0 ? endPoint : bound[0].EndPoint);
            PortSharing sharing = count == 1 ? PortSharing.None : i == 0 ? PortSharing.Opens : PortSharing.Joins;
            LoopSocket resident =
                new(loop, this, here, sharing, count, inbox)
                {
                    MulticastInterfaceIndex = interfaceIndex,
                    Inherited = inherited,
                };
            inbox?.BelongTo(resident);
            if (!loop.PostControl(static (_, r, _, _) => ((LoopSocket)r!).Bind(), resident)) throw engine.EndedError();
            await resident.Bound.ConfigureAwait(false);
            bound.Add(resident);
        }
    }

    private static async ValueTask OpenAsync(LoopSocket resident)
    {
        Completion<bool> opened = new(resident.Loop.Engine);
        ValueTask<bool> task = opened.Task;
        bool isPosted = resident.Loop.PostControl(
            static (_, r, o, _) =>
            {
                ((LoopSocket)r!).Open();
                ((Completion<bool>)o!).SetResult(true);
            },
            resident,
            opened);
        if (isPosted) await task.ConfigureAwait(false);
    }

    // ------------------------------------------------------------------ stop

    /// <summary>
    /// Stops receiving, sends queued datagrams, leaves all groups and closes. Completes after the last OnStopped. Has
    /// no effect if the socket is not started.
    /// </summary>
    /// <param name="deadline">Maximum time for queued datagrams; the rest is dropped and counted
    /// (<see cref="DatagramCounters.Abandoned"/>). Null takes <see cref="DatagramOptions.DrainTimeout"/>; zero sends
    /// nothing more.</param>
    /// <exception cref="NetworkException">Thrown to the awaiting code, with category Timeout: one second after the
    /// deadline a handler has not returned, or another callback blocks its loop. The message names it. The socket is
    /// closed when that returns, and can then be started again.</exception>
    public ValueTask StopAsync(TimeSpan? deadline = null)
    {
        if (deadline < TimeSpan.Zero) Throw.OutOfRange(nameof(deadline), deadline, "zero or positive");
        LoopSocket[] residents;
        lock (_gate)
        {
            if (_phase == Phase.Starting)
            {
                // The start detects this, and closes what it has opened.
                _phase = Phase.Stopped;
                return default;
            }

            if (_phase == Phase.Stopped) return default;
            _phase = Phase.Stopping;
            residents = _residents;
        }

        TimeSpan most = deadline ?? Options.DrainTimeout;
        StopWait<bool> done = new(Engine, most + Engine.StopGrace, wait => StopIsOverdue(residents, wait));
        ValueTask task = done.PlainTask;
        SessionOrder.Begin(FinishAsync);
        return task;

        async Task FinishAsync()
        {
            try
            {
                await CloseAsync(residents, most).ConfigureAwait(false);
                lock (_gate)
                {
                    if (_phase == Phase.Stopping) _phase = Phase.Stopped;
                    _isOverdue = false;
                }

                Options.Upgrade?.Remove(this);

                // No caller waits for it any more.
                if (!done.TryEnd(true) && _isDisposed) _inbox?.Free();
            }
            catch (Exception e)
            {
                done.TryFail(e);
            }
        }
    }

    /// <summary>Called on a thread of its own when the stop has passed its deadline.</summary>
    private void StopIsOverdue(LoopSocket[] residents, StopWait<bool> wait)
    {
        List<UnfinishedCall> found = [];
        foreach (LoopSocket resident in residents) resident.Loop.AddUnfinishedTurn(found);
        lock (_gate) _isOverdue = _phase == Phase.Stopping;
        wait.TryFail(Engine.OverdueError($"The datagram socket at {EndPoint} has not ended", found));
    }

    private static async ValueTask CloseAsync(IReadOnlyList<LoopSocket> residents, TimeSpan deadline)
    {
        List<ValueTask<bool>> waits = [];
        foreach (LoopSocket resident in residents)
        {
            StopWait<bool> stopped = new(resident.Loop.Engine);
            ValueTask<bool> wait = stopped.Task;
            bool isPosted = resident.Loop.PostControl(
                static (_, r, s, ms) => ((LoopSocket)r!).Stop((Completion<bool>)s!, ms),
                resident,
                stopped,
                Loop.WholeMs(deadline));
            if (isPosted) waits.Add(wait);
        }

        foreach (ValueTask<bool> wait in waits) await wait.ConfigureAwait(false);
    }

    /// <summary>
    /// Stops with <see cref="DatagramOptions.DrainTimeout"/>; the socket cannot be started again. After a stop that has
    /// passed its deadline it waits for one second only.
    /// </summary>
    /// <exception cref="NetworkException">Same as in <see cref="StopAsync"/>.</exception>
    public ValueTask DisposeAsync() => SessionOrder.Keep(SessionOrder.Leave(), EndAsync());

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    private async ValueTask EndAsync()
    {
        bool isOverdue;
        lock (_gate)
        {
            _isDisposed = true;
            isOverdue = _isOverdue;
        }

        await StopAsync(isOverdue ? TimeSpan.Zero : null).ConfigureAwait(false);
        _inbox?.Free();
    }

    // ------------------------------------------------------------------ send

    /// <summary>
    /// The per-loop socket for sends of the current thread: that of its own loop, otherwise always the first, so that
    /// the order of one caller is kept.
    /// </summary>
    private LoopSocket? Outlet
    {
        get
        {
            LoopSocket[] residents = Volatile.Read(ref _residents);
            if (residents.Length == 0) return null;
            if (residents.Length == 1 || Loop.Current is not { } current) return residents[0];
            foreach (LoopSocket resident in residents)
            {
                if (ReferenceEquals(resident.Loop, current)) return resident;
            }

            return residents[0];
        }
    }

    /// <summary>
    /// Queues one datagram. See <see cref="DatagramHandler.Send(ReadOnlySpan{byte}, in DatagramPeer)"/>. With several
    /// loops, threads that are none of them always use the same one.
    /// </summary>
    /// <param name="data">Bytes of the datagram, at most <see cref="DatagramOptions.MaxDatagramBytes"/>;
    /// copied.</param>
    /// <param name="peer">Destination; <c>default</c> for the peer of a connected socket.</param>
    public SendResult Send(ReadOnlySpan<byte> data, in DatagramPeer peer) =>
        Outlet is { } outlet ? outlet.Send(data, in peer) : SendResult.Closed;

    /// <summary>
    /// Queues one datagram for the peer of a connected socket. Throws <see cref="InvalidOperationException"/> if the
    /// socket is not connected.
    /// </summary>
    /// <param name="data">Bytes of the datagram, at most <see cref="DatagramOptions.MaxDatagramBytes"/>;
    /// copied.</param>
    public SendResult Send(ReadOnlySpan<byte> data) => Outlet is { } outlet ? outlet.Send(data) : SendResult.Closed;

    /// <summary>
    /// Queues a run of datagrams of one size for one peer, all or none. See <see cref="DatagramHandler.SendRun"/>.
    /// </summary>
    /// <param name="run">Bytes of the datagrams, one after the other; the last may be shorter.</param>
    /// <param name="datagramBytes">Length of each datagram.</param>
    /// <param name="peer">Destination; <c>default</c> for the peer of a connected socket.</param>
    public SendResult SendRun(ReadOnlySpan<byte> run, int datagramBytes, in DatagramPeer peer) =>
        Outlet is { } outlet ? outlet.SendRun(run, datagramBytes, in peer) : SendResult.Closed;

    /// <summary>Queues several datagrams. See <see cref="DatagramHandler.SendMany"/>.</summary>
    /// <param name="datagrams">Datagrams in sending order.</param>
    /// <returns>Number of queued datagrams, from the start.</returns>
    public int SendMany(ReadOnlySpan<OutgoingDatagram> datagrams) =>
        Outlet is { } outlet ? outlet.SendMany(datagrams) : 0;

    /// <summary>Waits for queue space in FIFO order, then queues one datagram.</summary>
    /// <param name="data">Bytes of the datagram; the memory may be reused when the task has completed.</param>
    /// <param name="peer">Destination; <c>default</c> for the peer of a connected socket.</param>
    /// <param name="cancellationToken">Cancels the wait; nothing is sent then.</param>
    /// <returns>Queued, Closed, or Refused by <see cref="DatagramOptions.AnswerLimit"/>.</returns>
    public ValueTask<SendResult> SendAsync(ReadOnlyMemory<byte> data, DatagramPeer peer,
        CancellationToken cancellationToken = default) =>
        Outlet is { } outlet
            ? outlet.SendAsync(data, peer, cancellationToken)
            : new ValueTask<SendResult>(SendResult.Closed);

    /// <summary>
    /// Queues like <see cref="SendAsync"/> and blocks for space. Throws <see cref="InvalidOperationException"/> on a
    /// loop's thread.
    /// </summary>
    /// <param name="data">Bytes of the datagram; copied.</param>
    /// <param name="peer">Destination; <c>default</c> for the peer of a connected socket.</param>
    /// <param name="timeout">Maximum time to wait for space; <see cref="Timeout.InfiniteTimeSpan"/> has no
    /// limit.</param>
    /// <returns>Queued, Closed, or Full if the time passed; nothing was sent then.</returns>
    public SendResult Send(ReadOnlySpan<byte> data, in DatagramPeer peer, TimeSpan timeout)
    {
        if (timeout < TimeSpan.Zero && timeout != Timeout.InfiniteTimeSpan)
            Throw.OutOfRange(nameof(timeout), timeout, "zero, positive, or Timeout.InfiniteTimeSpan");
        if (Loop.Current is not null) Throw.BlocksLoop(nameof(Send));
        if (Outlet is not { } outlet) return SendResult.Closed;
        if (timeout == TimeSpan.Zero) return outlet.Send(data, in peer);
        SendResult result = outlet.TrySend(data, in peer);
        if (result != SendResult.Full) return result;
        DatagramSendOperation operation = new(outlet, data.ToArray(), in peer);
        short version = operation.Version;
        outlet.Begin(operation);
        if (operation.SignalWhenCompleted() is { } signal && !Engine.Block(signal, timeout))
        {
            operation.CancelRequested();
            Engine.Block(signal, Timeout.InfiniteTimeSpan);
        }

        try
        {
            return operation.GetResult(version);
        }
        catch (OperationCanceledException)
        {
            outlet.CountRefused();
            return SendResult.Full;
        }
    }

    /// <summary>
    /// Starts a scope of batched wake-ups for a pool thread that answers datagrams one by one. Until the returned value
    /// is disposed, its sends wake a sleeping loop only after the work that the pool has queued, and after the work
    /// queued by that, as long as each item sends. Many datagrams then leave together. See <see cref="WakeUpBatch"/>.
    /// Any thread; outside of the pool it has no effect.
    /// </summary>
    public WakeUpBatch BatchWakeUps() => new(Engine, mayLinger: true);

    // ------------------------------------------------------------------ receive, without a handler

    /// <summary>
    /// Receives the next datagram, in FIFO order; for sockets without a handler. Throws <see cref="NetworkException"/>
    /// to the awaiting code if the connected peer refuses (the socket continues: receive again), and with category
    /// Cancelled if the socket was stopped and none is left.
    /// </summary>
    /// <param name="target">Memory for the bytes; must stay valid until the task has completed. Bytes that do not fit
    /// are lost, and <see cref="ReceivedDatagram.IsTruncated"/> is true.</param>
    /// <param name="cancellationToken">Cancels the wait; no datagram is lost.</param>
    public ValueTask<ReceivedDatagram> ReceiveAsync(Memory<byte> target,
        CancellationToken cancellationToken = default) => RequireInbox().ReceiveAsync(target, cancellationToken);

    /// <summary>
    /// Waits for the next datagram and blocks; for sockets without a handler. Throws as <see cref="ReceiveAsync"/>
    /// does, and <see cref="InvalidOperationException"/> on a loop's thread.
    /// </summary>
    /// <param name="target">Memory for the bytes.</param>
    /// <param name="timeout">Maximum time to wait; zero does not wait, <see cref="Timeout.InfiniteTimeSpan"/> has no
    /// limit.</param>
    /// <param name="datagram">The received datagram.</param>
    /// <returns>False if the time passed.</returns>
    public bool TryReceive(Span<byte> target, TimeSpan timeout, out ReceivedDatagram datagram)
    {
        if (timeout < TimeSpan.Zero && timeout != Timeout.InfiniteTimeSpan)
            Throw.OutOfRange(nameof(timeout), timeout, "zero, positive, or Timeout.InfiniteTimeSpan");
        return RequireInbox().TryReceive(target, timeout, out datagram);
    }

    private DatagramInbox RequireInbox()
    {
        if (_factory is not null)
            Throw.State("This socket has a handler, which gets its datagrams: make it without a factory to receive "
                + "in pull style.");
        if (_inbox is null) Throw.State("The datagram socket was never started.");
        return _inbox;
    }

    // ------------------------------------------------------------------ multicast

    /// <summary>
    /// Joins a group while the socket runs; OnJoined is called before this completes. With several loops only the first
    /// one receives it, because every member gets a copy.
    /// </summary>
    /// <exception cref="ArgumentException">The address is not a multicast group.</exception>
    /// <exception cref="InvalidOperationException">The socket is a member already, or not started.</exception>
    /// <exception cref="NetworkException">The system rejects it; at its limit of groups the message names the
    /// sysctl.</exception>
    /// <param name="group">Group, interface and source.</param>
    public ValueTask JoinAsync(MulticastGroup group)
    {
        ArgumentNullException.ThrowIfNull(group);
        group.Check(nameof(group));
        return Change(group, joins: true);
    }

    /// <summary>
    /// Joins a group on the interface chosen by the system's routes, from any source. See
    /// <see cref="JoinAsync(MulticastGroup)"/>.
    /// </summary>
    /// <param name="group">Address of the group.</param>
    public ValueTask JoinAsync(IPAddress group) =>
        JoinAsync(new MulticastGroup(group ?? throw new ArgumentNullException(nameof(group))));

    /// <summary>
    /// Leaves a group, as it was joined; OnLeft is called before this completes. Throws
    /// <see cref="InvalidOperationException"/> if the socket is not a member of it.
    /// </summary>
    /// <param name="group">Group, equal to the one that was joined.</param>
    public ValueTask LeaveAsync(MulticastGroup group)
    {
        ArgumentNullException.ThrowIfNull(group);
        group.Check(nameof(group));
        return Change(group, joins: false);
    }

    /// <summary>Leaves a group that was joined with <see cref="JoinAsync(IPAddress)"/>.</summary>
    /// <param name="group">Address of the group.</param>
    public ValueTask LeaveAsync(IPAddress group) =>
        LeaveAsync(new MulticastGroup(group ?? throw new ArgumentNullException(nameof(group))));

    // Programs of the original APIs may join on a socket of their own address: a notice, because the call itself works.
    private NoticePace _deafNotices;

    private ValueTask Change(MulticastGroup group, bool joins)
    {
        if (_phase != Phase.Started || Volatile.Read(ref _residents) is not [{ } first, ..])
            throw new InvalidOperationException(
                $"The datagram socket is not started: it cannot {(joins ? "join" : "leave")} {group}.");
        if (joins && DatagramRules.WhyDeaf(first.EndPoint, group) is { } why && _deafNotices.TryTake(Engine.NowMs))
        {
            Engine.Report(new DiagnosticEvent(
                DiagnosticEventKind.System,
                $"A datagram socket joins {group} and will receive nothing of it: {why}.",
                "multicast.md"));
        }

        return SessionOrder.Begin(new StopWait<bool>(Engine), () => ChangeAsync(first, group, joins)).PlainTask;
    }

    private static async ValueTask<bool> ChangeAsync(LoopSocket resident, MulticastGroup group, bool joins)
    {
        int index = await InterfaceLookup.FindAsync(resident.Loop.Engine, group.Interface).ConfigureAwait(false);
        Completion<bool> changed = new(resident.Loop.Engine);
        ValueTask<bool> task = changed.Task;
        ControlAction action = joins
            ? static (_, r, a, i) => ((GroupChange)a!).Join((LoopSocket)r!, (int)i)
            : static (_, r, a, i) => ((GroupChange)a!).Leave((LoopSocket)r!, (int)i);
        if (!resident.Loop.PostControl(action, resident, new GroupChange(group, changed), index))
            throw resident.Loop.Engine.EndedError();
        return await task.ConfigureAwait(false);
    }

    private sealed record GroupChange(MulticastGroup Group, Completion<bool> Done)
    {
        internal void Join(LoopSocket resident, int interfaceIndex) => resident.Join(Group, interfaceIndex, Done);

        internal void Leave(LoopSocket resident, int interfaceIndex) =>
            resident.LeaveGroup(Group, interfaceIndex, Done);
    }
}
