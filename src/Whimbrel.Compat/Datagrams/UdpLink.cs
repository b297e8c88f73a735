using System.Net;
using System.Net.Sockets;
using Whimbrel.Compat.Links;

namespace Whimbrel.Compat.Datagrams;

/// <summary>
/// What a server or client of UDP of an old API stands on: a <see cref="DatagramSocket"/> for each time that it is open, and the order of its callbacks.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>Callbacks run on the thread pool, where they may block, or on the socket's loop (<see cref="CompatOptions.Callbacks"/>, as it was when it was opened), where
/// nothing may: one at a time, never one inside another or inside a call of the user's, and <see cref="MostInTurn"/> in a turn of the loop or of a pool thread. A
/// datagram that waits already when a thread of the pool calls <see cref="Arm"/> is delivered on the pool in both cases, because changes of threads cost several times the
/// callback.</item>
/// <item>A call of <see cref="Arm"/> fetches one datagram. While one is on its way, further calls do nothing. A call in a callback does so when that has returned, so
/// that the bytes it was given stay.</item>
/// <item>Each datagram that was queued is told as sent, in order, behind the callback that sent it. What the queue does not take is told as an error.</item>
/// <item>What a callback throws is told as an error; after one for a received datagram the next one is fetched, since nobody else would.</item>
/// <item>While callbacks are <see cref="MostTold"/> sends behind, further ones have no room. Who does not want to be told of them is not.</item>
/// <item>When <see cref="Close"/> has returned no callback begins any more. It waits for a running one, but only <see cref="StallMs"/>, because
/// that may wait for a lock of the caller, and not at all on a loop or in a callback of its own.</item>
/// <item><see cref="Open"/>, <see cref="Join"/> and <see cref="Leave"/> need no thread of the pool but the caller's: those may all be busy with received datagrams.</item>
/// </list>
/// Any thread. One owner.
/// </remarks>
internal sealed class UdpLink(IDatagramOwner owner) : IThreadPoolWorkItem
{
    private const int LongestDatagram = 65_535;
    private const int MostTold = 65_536;
    private const int MostInTurn = 64;
    private const int DefaultQueue = 4 * 1024 * 1024, LargestQueue = 1 << 30;
    private const int StallMs = 200, LoopMs = 500; // waits for a callback, which may wait for a lock of the caller
    private const int MostMs = 5000;

    [ThreadStatic]
    private static UdpLink? t_running;

    private readonly Lock _gate = new();
    private readonly Queue<Told> _told = new();
    private readonly byte[] _buffer = new byte[LongestDatagram];
    private DatagramSocket? _socket;
    private Loop? _loop; // of callbacks, unless they are the pool's
    private Fetcher? _fetcher;
    private DatagramPeer _lastPeer;
    private EndPoint? _lastEndPoint;
    private bool _isRunning;
    private bool _isArmed;
    private bool _isDelivering; // a callback has what lies in the buffer
    private bool _armsLater; // at the end of the running callback
    private bool _isOpen;
    private bool _wantsSent; // asked once for each time that it is open: to look for an override allocates
    private TaskCompletionSource? _idle, _caughtUp;
    private Task _closing = Task.CompletedTask; // of the socket before
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

    /// <summary>The native limit behind <see cref="SendLimit"/>, which is kept here.</summary>
    internal int QueueLimit => Math.Clamp(SendLimit, DefaultQueue, LargestQueue);

    /// <summary>Not any more when its engine was stopped.</summary>
    internal bool IsOpen => _isOpen && _socket is { Engine.IsStarted: true };

    /// <summary>A callback of it runs on this thread.</summary>
    internal bool IsTelling => ReferenceEquals(t_running, this);

    internal Socket? Socket => _socket?.Socket;

    internal EndPoint? EndPoint => _socket?.EndPoint;

    internal long BytesPending => _socket?.BytesPending ?? 0;

    internal long BytesSent => _socket?.ReadCounters().BytesSent ?? 0;

    internal long DatagramsSent => _socket?.ReadCounters().DatagramsSent ?? 0;

    internal long BytesReceived => Interlocked.Read(ref _bytesReceived);

    internal long DatagramsReceived => Interlocked.Read(ref _datagramsReceived);

    // ------------------------------------------------------------------ open and close

    /// <summary>Throws <see cref="SocketException"/> when it cannot be bound.</summary>
    internal void Open(DatagramOptions options)
    {
        // The first opening starts the engine, whose loops run nothing before.
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

    // The caller was told that it has not opened.
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

    /// <summary>The same; throws <see cref="NetworkException"/>.</summary>
    internal async ValueTask OpenAsync(DatagramOptions options)
    {
        await _closing.ConfigureAwait(false);
        DatagramSocket socket = new(options);
        await socket.StartAsync().ConfigureAwait(false);
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

    /// <summary>Sends what is queued, within its time, then closes.</summary>
    internal void Close()
    {
        if (TakeOpen() is not { } socket) return;
        _closing = StopAsync(socket);
        if (Loop.Current is not null) return;
        // On its loop, which a callback may hold.
        Wait.For(_closing, _loop is null ? Timeout.Infinite : LoopMs);
        if (IsTelling) return;
        Task idle;
        lock (_gate)
        {
            if (!_isRunning) return;
            idle = (_idle ??= new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously)).Task;
        }

        Wait.For(idle, StallMs);
    }

    private static async Task StopAsync(DatagramSocket socket)
    {
        try
        {
            await socket.StopAsync().ConfigureAwait(false);
        }
        catch (NetworkException)
        {
            // A callback blocks its loop: it closes when that returns.
        }
    }

    /// <summary>The same without a thread, at once; it does not wait for the running callback. Throws <see cref="NetworkException"/>.</summary>
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

    internal void Join(IPAddress group) => Change(() => JoinAsync(group), "JoinMulticastGroup", SocketError.AddressAlreadyInUse);

    internal ValueTask JoinAsync(IPAddress group) => RequireSocket().JoinAsync(group);

    internal void Leave(IPAddress group) => Change(() => LeaveAsync(group), "LeaveMulticastGroup", SocketError.AddressNotAvailable);

    internal ValueTask LeaveAsync(IPAddress group) => RequireSocket().LeaveAsync(group);

    /// <param name="change">Begins it.</param>
    /// <param name="call">The user's call, in messages.</param>
    /// <param name="state">What the system says where the membership is, or is not, there already.</param>
    private void Change(Func<ValueTask> change, string call, SocketError state)
    {
        Loop? loop = RequireSocket().Loop;
        try
        {
            End(Begin(loop, change), call);
        }
        catch (ArgumentException e)
        {
            throw new SocketException((int)SocketError.InvalidArgument, e.Message); // no group
        }
        catch (InvalidOperationException e) when (Loop.Current is null)
        {
            throw new SocketException((int)state, e.Message);
        }
    }

    private DatagramSocket RequireSocket() => _socket ?? throw new SocketException((int)SocketError.NotConnected);

    /// <summary>Not for loops: what is waited for may need this one.</summary>
    /// <param name="loop">Where it begins and continues after each await, so that it needs no thread of the pool. Null: here, and on the pool.</param>
    /// <param name="begin">Begins it.</param>
    private static Task Begin(Loop? loop, Func<ValueTask> begin)
    {
        RefuseLoop();
        TaskCompletionSource done = new();
        // Where the engine takes no posts, it is begun here, and says why that is so.
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

    // Where callbacks run on the loops, the one that is needed may wait for a lock that the caller holds.
    private static void End(Task task, string call)
    {
        if (CompatOptions.Callbacks == Scheduling.Inline && !Wait.For(Task.WhenAny(task), MostMs))
        {
            throw new SocketException((int)SocketError.TimedOut, $"{call} has waited {MostMs / 1000} s for a loop that runs a callback. "
                + "Does that wait for a lock which the caller holds? Release it before the call, or leave CompatOptions.Callbacks on the pool.");
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
        if (Loop.Current is not null) throw new InvalidOperationException("The old API waits here, and the thread is a loop's: call it from another thread.");
    }

    // ------------------------------------------------------------------ send

    /// <summary>Queues a datagram.</summary>
    internal bool Queue(EndPoint peer, ReadOnlySpan<byte> data) => data.IsEmpty ? _isOpen : Send(peer, data, TimeSpan.Zero);

    /// <summary>Queues a datagram when there is room for it, and waits for that.</summary>
    internal long SendNow(EndPoint peer, ReadOnlySpan<byte> data, TimeSpan timeout) => Send(peer, data, timeout) ? data.Length : 0;

    private bool Send(EndPoint peer, ReadOnlySpan<byte> data, TimeSpan timeout)
    {
        if (!_isOpen || _socket is not { } socket || data.IsEmpty) return false;
        if (data.Length > DatagramOptions.MaxDatagramBytes) return Refuse(peer, SocketError.MessageSize);
        if (SendLimit > 0 && socket.BytesPending + data.Length > SendLimit) return Refuse(peer, SocketError.NoBufferSpaceAvailable);
        if (_wantsSent && !AwaitRoomToTell(timeout)) return false;
        DatagramPeer target = new(peer);
        SendResult result = timeout == TimeSpan.Zero || Loop.Current is not null ? socket.Send(data, target) : socket.Send(data, target, timeout);
        if (result == SendResult.Queued && _wantsSent) Tell(new Told(Kind.Sent, peer, data.Length));
        if (result == SendResult.Full && timeout == TimeSpan.Zero) return Refuse(peer, SocketError.NoBufferSpaceAvailable);
        return result == SendResult.Queued;
    }

    /// <summary>A callback that blocks, or one that sends all the time, must not make the queue of what is told grow for ever.</summary>
    private bool AwaitRoomToTell(TimeSpan timeout)
    {
        Task caughtUp;
        lock (_gate)
        {
            if (_told.Count < MostTold) return true;
            if (timeout == TimeSpan.Zero || IsTelling || Loop.Current is not null) return false;
            caughtUp = (_caughtUp ??= new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously)).Task;
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

    /// <summary>Fetches the next datagram, unless one is on its way.</summary>
    internal void Arm()
    {
        lock (_gate)
        {
            if (!_isOpen || _isArmed) return;
            _isArmed = true;
            // Whoever asks: the next datagram would overwrite what the callback looks at.
            if (IsTelling || _isDelivering)
            {
                _armsLater = true;
                return;
            }
        }

        _fetcher!.Begin();
    }

    /// <summary>Waits for a datagram. It is told as received, too.</summary>
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
            // Cancelled: it was closed meanwhile.
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
            // It was closed, and perhaps opened again: that has a fetcher of its own.
            if (!_isOpen || !ReferenceEquals(fetcher, _fetcher)) return;
            _isArmed = false;
            _isDelivering = true;
        }

        // Its engine was stopped: to go on would find that again and again.
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

    /// <summary>One object as long as the same peer speaks.</summary>
    private EndPoint EndPointOf(in DatagramPeer peer)
    {
        if (_lastEndPoint is { } last && _lastPeer == peer) return last;
        _lastPeer = peer;
        return _lastEndPoint = peer.ToEndPoint() ?? new IPEndPoint(IPAddress.None, 0);
    }

    // ------------------------------------------------------------------ the order of callbacks

    /// <summary>Runs it as a callback, behind those that wait, also while it is closed.</summary>
    internal void Call(Action action) => Tell(new Told(Kind.Called, action, 0));

    /// <param name="told">What is told.</param>
    /// <param name="mayRunHere">The caller is no code of the user's: on the loop of the callbacks it need not be posted.</param>
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

    /// <summary>On the loop while it is open. What opens it again may take its time, and is the pool's.</summary>
    /// <param name="prefersPool">Here, if this is a thread of the pool: a program that re-arms there after each datagram would pay for two changes of threads.</param>
    private void Schedule(bool prefersPool)
    {
        if (_isOpen && _loop is { } loop && !(prefersPool && Thread.CurrentThread.IsThreadPoolThread) && loop.Post(static state => ((UdpLink)state!).RunTurn(), this)) return;
        ThreadPool.UnsafeQueueUserWorkItem(this, preferLocal: false);
    }

    void IThreadPoolWorkItem.Execute()
    {
        using WakeUpBatch answers = _socket is { } socket ? socket.BatchWakeUps() : default;
        RunTurn();
    }

    /// <summary>
    /// While a peer floods, or a program sends in each OnSent, there is always a next one. In between the loop has other things to do, and so have the threads of
    /// the pool: two sockets that are flooded would keep two of them from all others.
    /// </summary>
    private void RunTurn()
    {
        if (!Run(MostInTurn)) Schedule(prefersPool: true);
    }

    /// <summary>True when nothing was left to be told.</summary>
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
        TaskCompletionSource? idle = null, caughtUp = null;
        bool isThere;
        lock (_gate)
        {
            isThere = _told.TryDequeue(out told);
            if (_told.Count < MostTold / 2) (caughtUp, _caughtUp) = (_caughtUp, null);
            if (!isThere)
            {
                _isRunning = false;
                (idle, _idle) = (_idle, null);
            }
        }

        caughtUp?.SetResult();
        idle?.SetResult();
        return isThere;
    }

    private void Run(in Told told)
    {
        try
        {
            if (told.Kind == Kind.Called) ((Action)told.Subject)();
            else if (told.Kind == Kind.Received) Deliver((Fetcher)told.Subject);
            else if (!_isOpen) return;
            else if (told.Kind == Kind.Sent) owner.TellSent((EndPoint)told.Subject, told.Number);
            else
            {
                owner.TellError((SocketError)told.Number);
                // So that who goes on when something has left goes on.
                owner.TellSent((EndPoint)told.Subject, 0);
            }
        }
        catch (Exception)
        {
            TellThrown();
            if (told.Kind == Kind.Received) Arm();
        }

        bool arms;
        lock (_gate) (arms, _armsLater, _isDelivering) = (_armsLater && _isOpen, false, false);
        if (arms) _fetcher!.Begin();
    }

    private void TellThrown()
    {
        try
        {
            owner.TellError(SocketError.SocketError);
        }
        catch (Exception)
        {
            // It threw while it was told that it had thrown: there is nobody else to tell.
        }
    }

    /// <summary>What is told: the subject is a fetcher, a peer, or what is to be called; the number bytes, or an error.</summary>
    private readonly record struct Told(Kind Kind, object Subject, int Number);

    /// <summary>Receives one datagram at a time, for one time that the link is open.</summary>
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
