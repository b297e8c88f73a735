using System.Net;
using System.Net.Sockets;
using Whimbrel.Compat.Links;

namespace Whimbrel.Compat.Datagrams;

/// <summary>
/// Connects a UDP server or client of an original API with a <see cref="DatagramSocket"/> (a new one each time it
/// opens), and runs its callbacks in order.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>Callbacks run on the thread pool, where they may block, or on the socket's loop, where they must not (<see
/// cref="CompatOptions.Callbacks"/> when the socket was opened). They run one at a time, never nested and never inside
/// a call of the user, at most <see cref="MostInTurn"/> per turn of the loop or work item. A datagram that is available
/// when a pool thread calls <see cref="Arm"/> is delivered on the pool in both cases, because a change of thread costs
/// several times the callback.</item>
/// <item><see cref="Arm"/> fetches one datagram. While a fetch is pending, further calls do nothing. A fetch requested
/// in a callback starts when the callback has returned, so that its buffer is not overwritten.</item>
/// <item>Each queued datagram is reported as sent, in order, after the callback that sent it. A datagram that the queue
/// rejects is reported as an error.</item>
/// <item>An exception in a callback is reported as an error. If it came from a received datagram, the next one is
/// fetched, because the callback did not do so.</item>
/// <item>While <see cref="MostTold"/> reports are pending, further sends have no room. Owners without WantsSent get no
/// reports.</item>
/// <item>When <see cref="Close"/> has returned no callback begins any more. It waits for a running one, but at most
/// <see cref="StallMs"/>, because that one may be waiting for a lock of the caller. On a loop and in a callback of its
/// own it does not wait.</item>
/// <item><see cref="Open"/>, <see cref="Join"/>, <see cref="Leave"/> and <see cref="Close"/> need no pool thread but
/// the caller's, because all others may be busy with received datagrams.</item>
/// </list>
/// Any thread may use it. One owner.
/// </remarks>
internal sealed class UdpLink(IDatagramOwner owner) : IThreadPoolWorkItem
{
    private const int LongestDatagram = 65_535;
    private const int MostTold = 65_536;
    private const int MostInTurn = 64;
    private const int DefaultQueue = 4 * 1024 * 1024, LargestQueue = 1 << 30;
    private const int StallMs = 200, LoopMs = 500; // waits for a callback, which may wait for a lock of the caller
    private const int MostMs = 5000;
    private static readonly TimeSpan s_grace = TimeSpan.FromSeconds(2); // a stop ends a second after its deadline

    [ThreadStatic]
    private static UdpLink? t_running;

    private readonly Lock _gate = new();
    private readonly Queue<Told> _told = new();
    private readonly byte[] _buffer = new byte[LongestDatagram];
    private DatagramSocket? _socket;
    private Loop? _loop; // loop of the callbacks; null: the pool
    private Fetcher? _fetcher;
    private DatagramPeer _lastPeer;
    private EndPoint? _lastEndPoint;
    private bool _isRunning; // a turn runs, or waits for its thread
    private bool _isCalling; // a callback runs, and may use the buffer
    private bool _isArmed;
    private bool _armsLater; // fetch when the running callback has returned
    private bool _isOpen;
    private bool _wantsSent; // read once per opening, because looking for an override allocates
    private TaskCompletionSource? _idle, _caughtUp;
    private Task _closing = Task.CompletedTask; // end of the previous socket
    private long _bytesReceived;
    private long _datagramsReceived;

    private enum Kind
    {
        Received,
        Sent,
        Failed,
        Called,
    }

    internal int ReceiveLimit { get; set; }

    internal int SendLimit { get; set; }

    /// <summary>Native queue limit. <see cref="SendLimit"/> is checked here in addition.</summary>
    internal int QueueLimit => Math.Clamp(SendLimit, DefaultQueue, LargestQueue);

    /// <summary>False after its engine was stopped, too.</summary>
    internal bool IsOpen => _isOpen && _socket is { Engine.IsStarted: true };

    /// <summary>True if a callback of this link runs on the calling thread.</summary>
    internal bool IsTelling => ReferenceEquals(t_running, this);

    internal Socket? Socket => _socket?.Socket;

    internal EndPoint? EndPoint => _socket?.EndPoint;

    internal long BytesPending => _socket?.BytesPending ?? 0;

    internal long BytesSent => _socket?.ReadCounters().BytesSent ?? 0;

    internal long DatagramsSent => _socket?.ReadCounters().DatagramsSent ?? 0;

    internal long BytesReceived => Interlocked.Read(ref _bytesReceived);

    internal long DatagramsReceived => Interlocked.Read(ref _datagramsReceived);

    // ------------------------------------------------------------------ open and close

    /// <summary>Opens the socket. Throws <see cref="SocketException"/> if it cannot be bound.</summary>
    internal void Open(DatagramOptions options)
    {
        // The first opening starts the engine; its loops accept no posts before that.
        Engine engine = options.Engine ?? Engine.Default;
        Task opening = Begin(engine.IsStarted ? engine.GetLoop(0) : null, () => OpenAsync(options));
        try
        {
            End(opening, "Start or Connect");
        }
        catch (SocketException) when (!opening.IsCompleted)
        {
            _ = CloseLateAsync(opening);
            throw;
        }
    }

    // The caller got an exception, so a socket that opens later is closed.
    private async Task CloseLateAsync(Task opening)
    {
        try
        {
            await opening.ConfigureAwait(false);
        }
        catch (NetworkException)
        {
            return;
        }

        await CloseAsync().ConfigureAwait(false);
    }

    /// <summary>Opens the socket. Throws <see cref="NetworkException"/>.</summary>
    internal async ValueTask OpenAsync(DatagramOptions options)
    {
        await Task.WhenAny(_closing).ConfigureAwait(false); // opening does not depend on the result
        DatagramSocket socket = new(options);
        await ClosingSockets.StartAsync(socket).ConfigureAwait(false);
        bool wantsSent = owner.WantsSent;
        lock (_gate)
        {
            _wantsSent = wantsSent;
            _socket = socket;
            _fetcher = new Fetcher(this, socket);
            _loop = CompatOptions.Callbacks == Scheduling.Inline ? socket.Loop : null;
            _isOpen = true;
            _isArmed = _armsLater = false;
            Interlocked.Exchange(ref _bytesReceived, 0);
            Interlocked.Exchange(ref _datagramsReceived, 0);
        }
    }

    /// <summary>Closes the socket after its queue is sent or the time limit has passed. If nothing is queued and the
    /// port is free or shared, the socket may close after the return (<see cref="ClosingSockets"/>).</summary>
    internal void Close()
    {
        if (TakeOpen() is not { } socket) return;
        // The limit holds also if the loop is blocked, and the stop does not begin.
        _closing = Loop.Current is not null ? socket.StopAsync().AsTask()
            : Begin(socket.Loop, () => socket.StopAsync()).WaitAsync(socket.Options.DrainTimeout + s_grace);
        ClosingSockets.Add(_closing);
        if (Loop.Current is not null) return;
        // The socket closes on its loop, which a callback may block.
        if (ClosingSockets.IsAwaited(socket))
            Wait.For(Task.WhenAny(_closing), _loop is null ? Timeout.Infinite : LoopMs);
        if (IsTelling) return;
        Task idle;
        lock (_gate)
        {
            // A turn that only waits for its thread begins no callback of a closed link. To wait for it would mean to
            // wait for received datagrams of other links: 100 clients in a flood needed a second to disconnect.
            if (!_isCalling) return;
            idle = (_idle ??= new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously)).Task;
        }

        Wait.For(idle, StallMs);
    }

    /// <summary>Closes the socket asynchronously. Does not wait for the running callback. Throws <see
    /// cref="NetworkException"/>.</summary>
    internal ValueTask CloseAsync() => TakeOpen() is { } socket ? socket.StopAsync() : default;

    private DatagramSocket? TakeOpen()
    {
        lock (_gate)
        {
            bool wasOpen = _isOpen;
            _isOpen = false;
            return wasOpen ? _socket : null;
        }
    }

    internal void Join(IPAddress group) =>
        Change(() => JoinAsync(group), "JoinMulticastGroup", SocketError.AddressAlreadyInUse);

    internal ValueTask JoinAsync(IPAddress group) => RequireSocket().JoinAsync(group);

    internal void Leave(IPAddress group) =>
        Change(() => LeaveAsync(group), "LeaveMulticastGroup", SocketError.AddressNotAvailable);

    internal ValueTask LeaveAsync(IPAddress group) => RequireSocket().LeaveAsync(group);

    /// <summary>Changes a membership, and throws the exceptions of the original.</summary>
    /// <param name="change">Starts the change.</param>
    /// <param name="call">Name of the user's call, for messages.</param>
    /// <param name="state">Error of the system if the membership exists already, or does not exist.</param>
    private void Change(Func<ValueTask> change, string call, SocketError state)
    {
        Loop? loop = RequireSocket().Loop;
        try
        {
            End(Begin(loop, change), call);
        }
        catch (ArgumentException e)
        {
            throw new SocketException((int)SocketError.InvalidArgument, e.Message); // not a group address
        }
        catch (InvalidOperationException e) when (Loop.Current is null)
        {
            throw new SocketException((int)state, e.Message);
        }
    }

    private DatagramSocket RequireSocket() => _socket ?? throw new SocketException((int)SocketError.NotConnected);

    /// <summary>Starts an operation. Must not be called on a loop, because the operation may need that loop.</summary>
    /// <param name="loop">Loop on which it starts and continues, so that it needs no pool thread. Null: it starts here
    /// and continues on the pool.</param>
    /// <param name="begin">Starts the operation.</param>
    private static Task Begin(Loop? loop, Func<ValueTask> begin)
    {
        RefuseLoop();
        TaskCompletionSource done = new();
        // If the engine accepts no posts, the operation starts here and fails with the reason.
        return loop is not null && loop.Post(BeginAsync) ? done.Task : begin().AsTask();

        async Task BeginAsync()
        {
            try
            {
                await begin().ConfigureAwait(false);
            }
            catch (Exception e)
            {
                done.SetException(e);
                return;
            }

            done.SetResult();
        }
    }

    // If callbacks run on loops, a callback on the needed loop may be waiting for a lock that the caller holds.
    private static void End(Task task, string call)
    {
        if (CompatOptions.Callbacks == Scheduling.Inline && !Wait.For(Task.WhenAny(task), MostMs))
        {
            throw new SocketException((int)SocketError.TimedOut,
                $"{call} has waited {MostMs / 1000} s for a loop that runs a callback. "
                    + "Does that wait for a lock which the caller holds? Release it before the call, or leave "
                + "CompatOptions.Callbacks on the pool.");
        }

        try
        {
            Wait.For(new ValueTask(task));
        }
        catch (NetworkException e)
        {
            throw new SocketException((int)e.Error.SocketError, e.Message);
        }
    }

    internal static void RefuseLoop()
    {
        if (Loop.Current is not null)
            throw new InvalidOperationException(
                "The old API waits here, and the thread is a loop's: call it from another thread.");
    }

    // ------------------------------------------------------------------ send

    /// <summary>Queues a datagram.</summary>
    internal bool Queue(EndPoint peer, ReadOnlySpan<byte> data) =>
        data.IsEmpty ? _isOpen : Send(peer, data, TimeSpan.Zero);

    /// <summary>Queues a datagram, and waits for room if necessary.</summary>
    internal long SendNow(EndPoint peer, ReadOnlySpan<byte> data, TimeSpan timeout) =>
        Send(peer, data, timeout) ? data.Length : 0;

    private bool Send(EndPoint peer, ReadOnlySpan<byte> data, TimeSpan timeout)
    {
        if (!_isOpen || _socket is not { } socket || data.IsEmpty) return false;
        if (data.Length > DatagramOptions.MaxDatagramBytes) return Refuse(peer, SocketError.MessageSize);
        if (SendLimit > 0 && socket.BytesPending + data.Length > SendLimit)
            return Refuse(peer, SocketError.NoBufferSpaceAvailable);
        if (_wantsSent && !AwaitRoomToTell(timeout)) return false;
        DatagramPeer target = new(peer);
        SendResult result = timeout == TimeSpan.Zero || Loop.Current is not null
            ? socket.Send(data, target)
            : socket.Send(data, target, timeout);
        if (result == SendResult.Queued && _wantsSent) Tell(new Told(Kind.Sent, peer, data.Length));
        if (result == SendResult.Full && timeout == TimeSpan.Zero)
            return Refuse(peer, SocketError.NoBufferSpaceAvailable);
        return result == SendResult.Queued;
    }

    /// <summary>Bounds the queue of reports: callbacks may block, or send in each report.</summary>
    private bool AwaitRoomToTell(TimeSpan timeout)
    {
        Task caughtUp;
        lock (_gate)
        {
            if (_told.Count < MostTold) return true;
            if (timeout == TimeSpan.Zero || IsTelling || Loop.Current is not null) return false;
            caughtUp =
                (_caughtUp ??= new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously)).Task;
        }

        return caughtUp.Wait(timeout.TotalMilliseconds > int.MaxValue ? Timeout.InfiniteTimeSpan : timeout);
    }

    private bool Refuse(EndPoint peer, SocketError error)
    {
        bool hasRoom;
        lock (_gate) hasRoom = _told.Count < MostTold;
        if (hasRoom) Tell(new Told(Kind.Failed, peer, (int)error));
        return false;
    }

    // ------------------------------------------------------------------ receive

    /// <summary>Fetches the next datagram, unless a fetch is pending.</summary>
    internal void Arm()
    {
        lock (_gate)
        {
            if (!_isOpen || _isArmed) return;
            _isArmed = true;
            // On any thread, because the next datagram would overwrite the buffer of the running callback.
            if (IsTelling || _isCalling)
            {
                _armsLater = true;
                return;
            }
        }

        _fetcher!.Begin();
    }

    /// <summary>Waits for a datagram. The caller reports it as received.</summary>
    internal long ReceiveNow(ref EndPoint peer, Span<byte> target, TimeSpan timeout)
    {
        if (!_isOpen || target.IsEmpty || _socket is not { } socket) return 0;
        int ownMs = socket.Socket?.ReceiveTimeout ?? 0;
        if (ownMs > 0) timeout = TimeSpan.FromMilliseconds(ownMs);
        ReceivedDatagram datagram;
        try
        {
            if (!socket.TryReceive(target, timeout, out datagram))
            {
                if (ownMs > 0) owner.TellError(SocketError.TimedOut);
                return 0;
            }
        }
        catch (NetworkException e)
        {
            // Cancelled means that the socket was closed during the call.
            if (e.Error.Category != ErrorCategory.Cancelled) owner.TellError(e.Error.SocketError);
            return 0;
        }

        Count(datagram.Count);
        peer = datagram.Peer.ToEndPoint() ?? peer;
        return datagram.Count;
    }

    private void Count(int bytes)
    {
        Interlocked.Add(ref _bytesReceived, bytes);
        Interlocked.Increment(ref _datagramsReceived);
    }

    private void Deliver(Fetcher fetcher)
    {
        SocketError error = fetcher.End(out ReceivedDatagram datagram);
        lock (_gate)
        {
            // The socket was closed, and possibly opened again with another fetcher.
            if (!_isOpen || !ReferenceEquals(fetcher, _fetcher)) return;
            _isArmed = false;
        }

        // The engine was stopped: another fetch would fail the same way.
        if (error == SocketError.OperationAborted) return;
        if (error != SocketError.Success)
        {
            owner.TellError(error);
            Arm();
            return;
        }

        Count(datagram.Count);
        EndPoint peer = EndPointOf(datagram.Peer);
        if (ReceiveLimit > 0 && datagram.Count > ReceiveLimit)
        {
            owner.TellError(SocketError.NoBufferSpaceAvailable);
            owner.TellTooLong(peer, _buffer);
        }
        else owner.TellReceived(peer, _buffer, datagram.Count);
    }

    /// <summary>Returns the same object while datagrams come from one peer.</summary>
    private EndPoint EndPointOf(in DatagramPeer peer)
    {
        if (_lastEndPoint is { } last && _lastPeer == peer) return last;
        _lastPeer = peer;
        return _lastEndPoint = peer.ToEndPoint() ?? new IPEndPoint(IPAddress.None, 0);
    }

    // ------------------------------------------------------------------ the order of callbacks

    /// <summary>Runs an action as a callback, after those already queued, also while the socket is closed.</summary>
    internal void Call(Action action) => Tell(new Told(Kind.Called, action, 0));

    /// <param name="told">The report.</param>
    /// <param name="mayRunHere">True if the caller is not user code, so that the callback may run here if this is the
    /// callbacks' loop.</param>
    private void Tell(in Told told, bool mayRunHere = false)
    {
        lock (_gate)
        {
            _told.Enqueue(told);
            if (_isRunning) return;
            _isRunning = true;
        }

        if (mayRunHere && _loop is { IsCurrent: true }) RunTurn();
        else Schedule(prefersPool: told.Kind == Kind.Received && !mayRunHere);
    }

    /// <summary>Schedules a turn: on the loop while the socket is open, otherwise on the pool, because opening it
    /// again may take time.</summary>
    /// <param name="prefersPool">True: use the pool if this is a pool thread. Otherwise a program that re-arms on the
    /// pool would pay two changes of thread per datagram.</param>
    private void Schedule(bool prefersPool)
    {
        if (_isOpen && _loop is { } loop && !(prefersPool && Thread.CurrentThread.IsThreadPoolThread)
            && loop.Post(static state => ((UdpLink)state!).RunTurn(), this))
            return;
        ThreadPool.UnsafeQueueUserWorkItem(this, preferLocal: false);
    }

    void IThreadPoolWorkItem.Execute()
    {
        using WakeUpBatch answers = _socket is { } socket ? socket.BatchWakeUps() : default;
        RunTurn();
    }

    /// <summary>
    /// Runs callbacks for one turn. While a peer floods, or a program sends in each OnSent, there is always a next
    /// callback. The limit lets the loop do other work, and keeps two flooded sockets from occupying two pool threads.
    /// </summary>
    private void RunTurn()
    {
        if (!Run(MostInTurn)) Schedule(prefersPool: true);
    }

    /// <summary>Runs up to a number of callbacks. True if none is left.</summary>
    private bool Run(int most)
    {
        UdpLink? outer = t_running;
        t_running = this;
        bool isThere = true;
        for (int i = 0; i < most && (isThere = TryTake(out Told told)); i++) Run(told);
        t_running = outer;
        return !isThere;
    }

    private bool TryTake(out Told told)
    {
        TaskCompletionSource? caughtUp = null;
        bool isThere;
        lock (_gate)
        {
            _isRunning = _isCalling = isThere = _told.TryDequeue(out told);
            if (_told.Count < MostTold / 2) (caughtUp, _caughtUp) = (_caughtUp, null);
        }

        caughtUp?.SetResult();
        return isThere;
    }

    private void Run(in Told told)
    {
        try
        {
            CallBack(in told);
        }
        catch (Exception)
        {
            TellThrown();
            if (told.Kind == Kind.Received) Arm();
        }

        TaskCompletionSource? idle;
        bool arms;
        lock (_gate)
        {
            arms = _armsLater && _isOpen;
            _armsLater = _isCalling = false;
            (idle, _idle) = (_idle, null);
        }

        idle?.SetResult();
        if (arms) _fetcher!.Begin();
    }

    private void CallBack(in Told told)
    {
        if (told.Kind == Kind.Called) ((Action)told.Subject)();
        else if (told.Kind == Kind.Received) Deliver((Fetcher)told.Subject);
        else if (!_isOpen) return;
        else if (told.Kind == Kind.Sent) owner.TellSent((EndPoint)told.Subject, told.Number);
        else
        {
            owner.TellError((SocketError)told.Number);
            // So that programs that continue in OnSent continue.
            owner.TellSent((EndPoint)told.Subject, 0);
        }
    }

    private void TellThrown()
    {
        try
        {
            owner.TellError(SocketError.SocketError);
        }
        catch (Exception)
        {
            // The error callback itself threw: there is no other callback to call.
        }
    }

    /// <summary>A pending report. Subject: fetcher, peer or action. Number: bytes or error.</summary>
    private readonly record struct Told(Kind Kind, object Subject, int Number);

    /// <summary>Receives one datagram at a time, for one opening of the link.</summary>
    private sealed class Fetcher
    {
        private readonly UdpLink _link;
        private readonly DatagramSocket _socket;
        private readonly Action _cameLater;
        private ValueTask<ReceivedDatagram> _receiving;

        internal Fetcher(UdpLink link, DatagramSocket socket)
        {
            _link = link;
            _socket = socket;
            _cameLater = () => Fetched(mayRunHere: true);
        }

        internal void Begin()
        {
#pragma warning disable CA2012 // consumed once, in End, which follows each Fetched
            _receiving = _socket.ReceiveAsync(_link._buffer);
#pragma warning restore CA2012
            if (_receiving.IsCompleted) Fetched(mayRunHere: false);
            else _receiving.GetAwaiter().UnsafeOnCompleted(_cameLater);
        }

        internal SocketError End(out ReceivedDatagram datagram)
        {
            try
            {
                datagram = _receiving.GetAwaiter().GetResult();
                return SocketError.Success;
            }
            catch (NetworkException e)
            {
                datagram = default;
                return e.Error.Category == ErrorCategory.Cancelled ? SocketError.OperationAborted : e.Error.SocketError;
            }
        }

        private void Fetched(bool mayRunHere) => _link.Tell(new Told(Kind.Received, this, 0), mayRunHere);
    }
}
