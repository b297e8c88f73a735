using System.Buffers;
using System.Net.Sockets;
using System.Numerics;
using System.Runtime.CompilerServices;
using System.Runtime.ExceptionServices;

namespace Whimbrel.Compat.Links;

/// <summary>
/// Connects an object of an original API with its connections, one after the other. Holds the state of the object and
/// calls its callbacks.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>Any thread may call it. Callbacks of one connection are in order and one at a time (<see cref="BridgeEnd"/>),
/// on the pool or on the loop. Exception: a thread that disconnects runs the callbacks of the end itself if no callback
/// of the connection is running.</item>
/// <item>Order: Connecting, Connected, Handshaking, Handshaked, ..., Disconnecting, Disconnected; for a failed connect
/// Connecting, the error, Disconnected. Each at most once.</item>
/// <item>IsConnected is true from before Connected is called until after Disconnecting was called; it is false during
/// Disconnected.</item>
/// <item>A call in the wrong state returns 0 or false and does nothing.</item>
/// <item>No call waits on a loop or for a callback, because the caller may hold a lock that the callback takes.</item>
/// </list>
/// </remarks>
internal sealed class Link
{
    // native limit; a smaller limit of the user is checked here exactly
    internal const int LargestSendLimit = 1024 * 1024 * 1024;
    internal const int MostPending = LargestSendLimit / 2;
    internal const int DefaultBuffer = 8192;

    private const int SoonBytes = 512 * 1024; // below this pending size a synchronous send only queues
    private const int LeastArray = 256;
    private const int LeastMuch = 16 * 1024, MostMuch = 256 * 1024; // smallest and largest direct receive

    private const int NoticePaceMs = 60_000;
    private const int StallMs = 200; // a wait for queued data ends after this time without progress

    // Per engine, because each engine has its own event handler.
    private static readonly ConditionalWeakTable<Engine, StrongBox<long>> s_notedAt = [];

    [ThreadStatic] private static Link? t_telling;
    [ThreadStatic] private static bool t_onlyBegins;

    private readonly ILinked _owner;
    private readonly ServerLink? _server;
    private readonly Lock _gate = new();
    private volatile Session? _bridge;
    private volatile bool _isConnected, _isHandshaked, _isHandshaking, _isConnecting;
    private bool _wantsEmpty; // read once per connection, because looking for an override allocates
    private bool _isTls, _hasFailed;
    private bool _isSync; // the connect attempt is a call of Connect
    private bool _wasUp, _toldDisconnecting; // of this connection; written on the thread of its callbacks
    private bool _isLeaving; // a callback of the end calls the user's Disconnect
    private int _isUsed; // a connection of the server has it
    private Session? _last; // the last connection: keeps its counters and end points
    private string? _failure; // why this connection has ended
    private LinkedSocket? _socket; // under the gate
    private byte[] _buffer = [];
    private long _unlooked; // bytes sent since the last check of the budget
    private int _chunk; // largest size of one TellReceived
    private Client? _client;
    private Action? _connectAfterEnd;
    private int _ends; // callbacks of the end in progress
    private int _connects; // number of the current connect attempt; a late failure of an earlier one is ignored
    private int _givenUp; // number of the last attempt that was cancelled
    private TaskCompletionSource<bool>? _ready; // completes a synchronous Connect

    // Data for callers of Receive, which have priority over callbacks.
    private readonly Inbox _inbox = new();

    internal Link(ILinked owner, ServerLink? server = null)
    {
        _owner = owner;
        _server = server;
    }

    internal ILinked Owner => _owner;

    internal bool IsConnected => _isConnected;

    internal bool IsConnecting => _isConnecting;

    internal bool IsHandshaked => _isHandshaked;

    internal bool IsHandshaking => _isHandshaking;

    internal long BytesSent => (_bridge ?? Volatile.Read(ref _last))?.BytesSent ?? 0;

    internal long BytesReceived => (_bridge ?? Volatile.Read(ref _last))?.BytesReceived ?? 0;

    internal long BytesPending
    {
        get
        {
            if (_bridge is not { } bridge) return 0;
            if (_server is not { } server) return bridge.BytesPending;
            return server.Multicasts.PendingOf(this, bridge) + (Multicast?.PendingOf(this) ?? 0);
        }
    }

    /// <summary>Index of this session in the list of the last Multicast.</summary>
    internal int MulticastIndex { get; set; }

    /// <summary>Bytes of this connection in the send budget. Protected by the budget's lock.</summary>
    internal long Charge { get; set; }

    internal Session? Bridge => _bridge;

    /// <summary>
    /// The Socket of the connection, created by the first call. It remains after the end: its end points can be read,
    /// other calls throw. Null before the first connection.
    /// </summary>
    internal Socket? Socket
    {
        get
        {
            Session? bridge = _bridge;
            Socket? native = bridge?.Socket;
            // The object that the user's CreateSocket has created.
            if (native is not null && bridge!.Client is { Options.Socket.Create: not null }) return native;
            lock (_gate)
            {
                if (native is not null && _socket?.IsOf(native) != true)
                    _socket = LinkedSocket.Over(native, this, bridge!);
                Session? ended = bridge ?? _last;
                if (native is null && _socket is null && (ended is not null || _connects > 0))
                    _socket = LinkedSocket.Ended(ended);
                return _socket;
            }
        }
    }

    /// <summary>Reason for the end of the last connection or connect attempt.</summary>
    internal string Failure => Volatile.Read(ref _failure) ?? "this side has ended the connection";

    private bool CanSend => _isTls ? _isHandshaked : _isConnected;

    /// <summary>True if a callback of this link runs on the calling thread.</summary>
    private bool IsTelling => ReferenceEquals(t_telling, this);

    // ------------------------------------------------------------------ callbacks, called by the bridge

    /// <summary>Takes the session of a server for a new connection. False while another connection has it.</summary>
    internal bool TryUse()
    {
        if (Interlocked.Exchange(ref _isUsed, 1) != 0) return false;
        Reset(isManual: false); // programs may return the object of an ended connection again
        return true;
    }

    private void Reset(bool isManual)
    {
        _wasUp = _toldDisconnecting = _hasFailed = _isTls = false;
        _failure = null;
        Volatile.Write(ref _last, null);
        lock (_gate) _socket = null;
        _inbox.Begin(isManual);
    }

    internal void Accepted(Session bridge)
    {
        _bridge = bridge;
        _isConnecting = true;
        Tell(LinkEvent.Connecting);
    }

    /// <summary>Called when the socket is connected.</summary>
    internal void Up(Session bridge, bool isTls)
    {
        _isTls = isTls;
        _wantsEmpty = _owner.WantsEmpty;
        lock (_gate)
        {
            if (_server is not null || _givenUp != _connects)
            {
                _bridge = bridge;
                _isConnecting = false;
                _isConnected = _wasUp = true;
            }
        }

        if (!_wasUp)
        {
            bridge.Abort(); // disconnected while it connected
            return;
        }

        Tell(LinkEvent.Connected);
        if (isTls || !_isConnected) return;
        Ready();
    }

    internal void Handshaking(Session bridge)
    {
        if (!ReferenceEquals(_bridge, bridge) || !_isConnected) return;
        _isHandshaking = true;
        Tell(LinkEvent.Handshaking);
    }

    internal void Handshaked(Session bridge)
    {
        if (!ReferenceEquals(_bridge, bridge) || !_isConnected) return;
        _isHandshaking = false;
        _isHandshaked = true;
        Tell(LinkEvent.Handshaked);
        if (_isConnected) Ready();
    }

    private void Ready()
    {
        if (_wantsEmpty && BytesPending == 0) Tell(LinkEvent.Empty);
        Interlocked.Exchange(ref _ready, null)?.TrySetResult(true);
    }

    internal void Received(Session bridge, ReadOnlySpan<byte> data)
    {
        if (_inbox.Take(bridge, data)) return;
        int count = data.Length;
        while (data.Length > 0 && _isConnected)
        {
            if (_chunk == 0) _chunk = Math.Max(_owner.ReceiveSize, 16);
            int size = Math.Min(data.Length, _chunk);
            _owner.TellReceived(ArrayOf(data[..size]), size);
            data = data[size..];
            if (size == _chunk) Grow();
        }

        if (count >= LeastMuch && _isConnected && !_owner.KeepsArrays) LendArray(bridge, count);
    }

    // The next bulk data is received directly into the array that the user sees.
    private void LendArray(Session bridge, int count)
    {
        int most = Math.Min(_chunk, MostMuch);
        // The array was full, so more data may be waiting.
        if (count == _buffer.Length && count < most) _buffer = new byte[Math.Min(count * 2, most)];
        ((IBridge)bridge).SetReceiveBuffer(_buffer);
    }

    private byte[] ArrayOf(ReadOnlySpan<byte> data)
    {
        if (_owner.KeepsArrays) return data.ToArray();
        // The data was received into it.
        if (data.Overlaps(_buffer, out int at) && at == 0) return _buffer;
        // Not larger than the largest receive so far: the array lives as long as the session, and most sessions are
        // idle with small messages.
        if (_buffer.Length < data.Length)
            _buffer = new byte[Math.Min((int)BitOperations.RoundUpToPowerOf2((uint)Math.Max(data.Length, LeastArray)),
                _chunk)];
        data.CopyTo(_buffer);
        return _buffer;
    }

    // As in the original, an exactly filled buffer is doubled, and the limit applies to the buffer.
    private void Grow()
    {
        int limit = _owner.ReceiveLimit;
        int next = _chunk * 2;
        if (limit > 0 && next > limit)
        {
            _owner.TellError(SocketError.NoBufferSpaceAvailable);
            _owner.CallDisconnect();
            Disconnect(waits: false);
            return;
        }

        if (next <= 1024 * 1024) _chunk = next;
    }

    internal void Sent(long sent, long pending) => _owner.TellSent(sent, pending);

    internal void Drained()
    {
        if (CanSend && _wantsEmpty) Tell(LinkEvent.Empty);
    }

    internal void Threw() => _owner.TellError(SocketError.SocketError);

    /// <summary>Ends this connection, in order with its callbacks, after user code threw on another thread.</summary>
    internal void Rethrow(ExceptionDispatchInfo thrown)
    {
        if (_bridge is { } bridge) bridge.Post(static state => ((ExceptionDispatchInfo)state!).Throw(), thrown);
    }

    internal void Leaving(Session bridge, CloseReason reason)
    {
        if (!ReferenceEquals(_bridge, bridge)) return;
        TellFailure(reason);
        CallDisconnect();
        BeginEnd();
    }

    // Programs override Disconnect to notice each end. Here it only calls Disconnecting: the connection is ending.
    private void CallDisconnect()
    {
        if (!_isConnected) return;
        _isLeaving = true;
        try
        {
            _owner.CallDisconnect();
        }
        finally
        {
            _isLeaving = false;
        }
    }

    internal void Down(Session bridge, CloseReason reason)
    {
        // A server's link has one connection, which one bridge may have handed to another.
        if (_server is null && _bridge is { } current && !ReferenceEquals(current, bridge)) return;
        try
        {
            TellFailure(reason);
        }
        finally
        {
            // Runs whatever the callbacks before it throw; otherwise the session stays in its server's list.
            try
            {
                if (_wasUp || _server is not null || _isSync) BeginEnd();
            }
            finally
            {
                End(bridge);
            }
        }
    }

    /// <summary>Called when a connect attempt ended before it had a session.</summary>
    private void ConnectFailed(int attempt, SocketError error)
    {
        if (!_isConnecting || attempt != _connects) return;
        _hasFailed = true;
        _failure = $"cannot connect: {new SocketException((int)error).Message}";
        if (ErrorMap.IsTold(error)) _owner.TellError(error);
        // The original calls OnDisconnecting where Connect fails, but not where ConnectAsync does.
        if (_isSync) BeginEnd();
        End(null);
    }

    private void TellFailure(CloseReason reason)
    {
        if (_hasFailed) return;
        _hasFailed = true;
        if (_server is null) NoteFailure(reason);
        _owner.TellCause(reason);
    }

    // OnError of NetCoreServer has no text: NotConnected does not name the refused certificate or the reason.
    private void NoteFailure(CloseReason reason)
    {
        string why = reason.ToString();
        _failure = _wasUp ? why : $"cannot connect: {why}";
        if (reason.Cause != CloseCause.TlsHandshake || _owner is not NetCoreServer.SslClient) return;
        if (_bridge is not { Client: { } client } bridge) return;
        ref long last = ref s_notedAt.GetOrAdd(client.Engine, static _ => new StrongBox<long>()).Value;
        long now = Environment.TickCount64;
        if (Interlocked.Read(ref last) is var notedAt && notedAt != 0 && now - notedAt < NoticePaceMs) return;
        if (Interlocked.CompareExchange(ref last, now, notedAt) != notedAt) return;
        string text = $"{_owner.GetType().Name} cannot connect to {bridge.RemoteEndPoint}: {why}. OnError gets "
            + $"NotConnected. "
            + "The certificateValidationCallback of SslContext decides which certificates are taken.";
        client.Report(new DiagnosticEvent(DiagnosticEventKind.TlsHandshake, text, "tls-handshake.md"));
    }

    /// <summary>Calls Disconnecting once; afterwards the link is not connected.</summary>
    private void BeginEnd()
    {
        if (_toldDisconnecting) return;
        _toldDisconnecting = true;
        try
        {
            Tell(LinkEvent.Disconnecting);
        }
        finally
        {
            _isConnected = _isHandshaked = _isHandshaking = false;
        }
    }

    private void End(Session? bridge)
    {
        Interlocked.Increment(ref _ends);
        lock (_gate)
        {
            _isConnected = _isHandshaked = _isHandshaking = _isConnecting = false;
            Volatile.Write(ref _last, bridge);
            _bridge = null;
        }

        _inbox.End();
        if (Charge != 0) SendBudget.Charge(this, 0);
        try
        {
            Tell(LinkEvent.Disconnected);
        }
        finally
        {
            _server?.Forget(this);
            Volatile.Write(ref _isUsed, 0);
            Interlocked.Decrement(ref _ends);
            Interlocked.Exchange(ref _ready, null)?.TrySetResult(false);
            Interlocked.Exchange(ref _connectAfterEnd, null)?.Invoke();
        }
    }

    /// <summary>Stores the link whose callback runs on this thread.</summary>
    /// <param name="link">The link; null for none.</param>
    /// <returns>The previous link.</returns>
    internal static Link? Enter(Link? link)
    {
        Link? before = t_telling;
        t_telling = link;
        return before;
    }

    private void Tell(LinkEvent what)
    {
        Link? before = Enter(this);
        bool isTold = false;
        try
        {
            _owner.Tell(what);
            isTold = true;
            _server?.Tell(what, this);
        }
        finally
        {
            // A session that threw has ended too, and its server expects the call.
            if (!isTold && what == LinkEvent.Disconnected) _server?.Tell(what, this);
            Enter(before);
        }
    }

    // ------------------------------------------------------------------ sending

    internal bool SendAsync(ReadOnlySpan<byte> data) => SendAsync(data, data.Length);

    /// <param name="data">Bytes to send.</param>
    /// <param name="unlooked">Bytes since the last check of the budget: these, and possibly others of the same
    /// sender.</param>
    internal bool SendAsync(ReadOnlySpan<byte> data, int unlooked)
    {
        if (data.IsEmpty) return CanSend && _bridge is not null;
        if (Admit(data.Length) is not { } bridge) return false;
        if (IsOverBudget(bridge, unlooked)) return SendOverBudget(bridge, data, default);
        if (Multicast?.TryTake(this, bridge, data) == true) return true;
        _server?.Multicasts.Flush();
        SendResult result = bridge.Send(data);
        return result == SendResult.Queued || (result == SendResult.Full && SendOverBudget(bridge, data, default));
    }

    /// <summary>Sends two pieces as one message.</summary>
    internal bool SendAsync(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body)
    {
        if (Admit((long)head.Length + body.Length) is not { } bridge) return false;
        if (IsOverBudget(bridge, head.Length + body.Length)) return SendOverBudget(bridge, head, body);
        FlushMulticasts();
        SendResult result = bridge.Send(Outgoing.Pieces(head, body));
        return result == SendResult.Queued || (result == SendResult.Full && SendOverBudget(bridge, head, body));
    }

    /// <summary>True if a send of this connection would be stopped neither by a limit nor by the budget.</summary>
    internal bool IsFreeToSend(Session bridge) =>
        CanSend && ReferenceEquals(_bridge, bridge) && _server is { IsLimited: false, IsOverBudget: false };

    // Several threads may add at once. A lost addition delays the check by as much.
    private bool IsOverBudget(Session bridge, int length)
    {
        if ((_unlooked += length) < SendBudget.LookBytes && _server is not { IsOverBudget: true }) return false;
        _unlooked = 0;
        return SendBudget.IsOver(this, bridge.BytesPending);
    }

    // The process has no room: this peer's queue must become shorter first. A loop sends for all its connections and
    // must not wait.
    private bool SendOverBudget(Session bridge, ReadOnlySpan<byte> head, ReadOnlySpan<byte> body)
    {
        FlushMulticasts();
        if (Loop.Current is not null)
        {
            _unlooked = SendBudget.LookBytes;
            _owner.TellError(SocketError.NoBufferSpaceAvailable);
            return false;
        }

        return SendWaiting(bridge, head, body, CancellationToken.None);
    }

    /// <summary>Sends, and waits until little is queued or the connection has ended. Not for loops.</summary>
    private static bool SendWaiting(Session bridge, ReadOnlySpan<byte> head, ReadOnlySpan<byte> body,
        CancellationToken cancellation)
    {
        byte[] copy = ArrayPool<byte>.Shared.Rent(head.Length + body.Length);
        head.CopyTo(copy);
        body.CopyTo(copy.AsSpan(head.Length));
        try
        {
            bool isTaken = Wait.For(bridge.SendAsync(copy.AsMemory(0, head.Length + body.Length), cancellation))
                == SendResult.Queued;
            ArrayPool<byte>.Shared.Return(copy);
            return isTaken;
        }
        catch (OperationCanceledException)
        {
            return false; // the array is not returned, because the loop may still read it
        }
    }

    /// <summary>Returns the session if the user's limit has room. Null if there is no connection, or no room; the
    /// latter is reported.</summary>
    private Session? Admit(long length)
    {
        if (!CanSend || _bridge is not { } bridge) return null;
        int limit = _owner.SendLimit;
        if (limit <= 0 || BytesPending + length <= limit) return bridge;
        _owner.TellError(SocketError.NoBufferSpaceAvailable);
        return null;
    }

    /// <summary>The Multicast of this server that runs on this thread, or null.</summary>
    private Multicasting? Multicast => _server is { IsMulticasting: true } server ? Multicasting.Of(server) : null;

    /// <summary>Sends collected multicasts, so that later data follows them.</summary>
    private void FlushMulticasts()
    {
        if (_server is not { } server) return;
        Multicast?.Flush();
        server.Multicasts.Flush();
    }

    /// <summary>Joins a group after the data sent before. Does nothing without a connection.</summary>
    internal void Join(SessionGroup group)
    {
        if (_bridge is not { } bridge) return;
        FlushMulticasts();
        bridge.Flush(); // a callback on the pool collects what it sends
        group.Join(bridge);
    }

    /// <summary>
    /// Joins a group before the next send, and holds the group's messages until <see cref="OpenGate"/>. A later join
    /// would miss messages sent after the peer has its answer; an earlier one would deliver some before the answer.
    /// Outside the connection's callbacks, OpenGate joins.
    /// </summary>
    internal void JoinHeld(SessionGroup group)
    {
        if (_bridge is not { } bridge) return;
        FlushMulticasts();
        if (((IBridge)bridge).TryHoldBroadcasts(true)) group.Join(bridge);
    }

    /// <summary>Sends what <see cref="JoinHeld"/> holds, after data sent since.</summary>
    internal void OpenGate(SessionGroup group)
    {
        if (_bridge is not { } bridge) return;
        FlushMulticasts();
        if (!((IBridge)bridge).TryHoldBroadcasts(false)) Join(group);
    }

    /// <summary>Leaves a group before data that is sent later.</summary>
    internal void Leave(SessionGroup group)
    {
        FlushMulticasts();
        if (_bridge is { } bridge) group.Leave(bridge);
    }

    /// <summary>Sends, and waits until the system has the data, or it is queued within the limit.</summary>
    internal long Send(ReadOnlySpan<byte> data) => Send(data, Timeout.InfiniteTimeSpan);

    /// <summary>Sends with a time limit. Returns 0 after it; the connection remains.</summary>
    internal long Send(ReadOnlySpan<byte> data, TimeSpan timeout)
    {
        if (!CanSend || _bridge is not { } bridge || data.IsEmpty) return 0;
        if (Loop.Current is not null
            || data.Length <= DefaultBuffer * 8 && bridge.BytesPending + data.Length <= SoonBytes)
        {
            if (!SendAsync(data)) return 0;
            bridge.Flush();
            return data.Length;
        }

        FlushMulticasts();
        using CancellationTokenSource? limit = timeout == Timeout.InfiniteTimeSpan ? null : new(timeout);
        return SendWaiting(bridge, data, default, limit?.Token ?? CancellationToken.None) ? data.Length : 0;
    }

    // ------------------------------------------------------------------ receiving by calls

    internal void ReceiveAsync()
    {
        if (!_isConnected || _bridge is not { } bridge || !_inbox.IsManual) return;
        bridge.Post(static state => ((IBridge)state!).End.StopManual((Session)state), bridge);
    }

    internal void StopManual(Session bridge)
    {
        byte[] rest = _inbox.Stop();
        bridge.ResumeReceiving();
        Received(bridge, rest);
    }

    /// <summary>
    /// Waits for bytes, at most for the ReceiveTimeout that the user has set at the Socket. After that time the
    /// connection ends.
    /// </summary>
    internal long Receive(byte[] buffer, long offset, long size)
    {
        int timeout = _socket?.ReceiveTimeoutOrZero ?? 0;
        if (timeout <= 0) return Receive(buffer, offset, size, Timeout.InfiniteTimeSpan);
        Session? bridge = _bridge;
        long count = Receive(buffer, offset, size, TimeSpan.FromMilliseconds(timeout));
        if (count > 0 || size == 0 || !_isConnected || !ReferenceEquals(_bridge, bridge)) return count;
        _owner.TellError(SocketError.TimedOut);
        _owner.CallDisconnect();
        Disconnect();
        return 0;
    }

    internal long Receive(byte[] buffer, long offset, long size, TimeSpan timeout)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        Span<byte> target = buffer.AsSpan(checked((int)offset), checked((int)size));
        if (!(_isTls ? _isHandshaked : _isConnected) || _bridge is not { } bridge || target.IsEmpty) return 0;
        if (Loop.Current is not null || IsTelling)
            throw new InvalidOperationException("Receive waits for data that arrives after the running callback "
                + "returns. Take them from OnReceived, or call Receive on a thread of your own.");
        int count = _inbox.Receive(bridge, target, timeout);
        if (count > 0) _owner.TellReceived(buffer[(int)offset..((int)offset + count)], count);
        return count;
    }

    // ------------------------------------------------------------------ the end

    /// <summary>Runs an action in which Disconnect, on this thread, does not wait; the caller waits once
    /// afterwards.</summary>
    internal static void BeginAll(Action action)
    {
        bool before = t_onlyBegins;
        t_onlyBegins = true;
        try
        {
            action();
        }
        finally
        {
            t_onlyBegins = before;
        }
    }

    /// <summary>Disconnects all links, and waits once for what they have queued.</summary>
    internal static void DisconnectAll(Link[] links, Action<int> disconnect)
    {
        List<Session> bridges = [];
        List<Task> sent = [];
        if (MayWait)
        {
            foreach (Link link in links)
            {
                link.FlushMulticasts();
                if (link.IsTelling || link._bridge is not { BytesPending: > 0 } bridge) continue;
                bridges.Add(bridge);
                sent.Add(bridge.SentAsync().AsTask());
            }
        }

        ExceptionDispatchInfo? thrown = null;
        BeginAll(() =>
        {
            for (int i = 0; i < links.Length; i++)
            {
                try
                {
                    disconnect(i);
                }
                catch (Exception e)
                {
                    thrown ??= ExceptionDispatchInfo.Capture(e); // user code threw; the other sessions must still end
                }
            }
        });
        if (sent.Count > 0) AwaitSent(Task.WhenAll(sent), bridges);
        thrown?.Throw();
    }

    internal bool Disconnect(bool waits = true)
    {
        if (!_isConnected && _server is null && TryGiveUpConnect()) return true;
        if (!_isConnected || _bridge is not { } bridge) return false;
        if (_isLeaving && IsTelling)
        {
            BeginEnd();
            return true;
        }

        FlushMulticasts();
        // Read before BeginEnd, which clears it.
        bool isInHandshake = _isTls && !_isHandshaked;
        // While a callback runs, the end is reported after it, and the caller does not wait.
        BridgeEnd end = ((IBridge)bridge).End;
        bool isOwnCallback = end.IsInsideHere;
        bool isEnder = end.TryTakeEnd(bridge);
        Task<bool>? sent = null;
        try
        {
            if (isEnder || isOwnCallback) BeginEnd();
        }
        finally
        {
            NoLongerConnected(bridge);
            if (waits && MayWait && !isOwnCallback && bridge.BytesPending > 0) sent = bridge.SentAsync().AsTask();
            // During a handshake nothing was sent that could be lost, and a close would wait for a silent peer.
            if (isInHandshake) bridge.Abort();
            // Queued data is sent, and the close does not wait for the peer's FIN, because the original closed at once.
            else bridge.CloseWithoutLingering();
            if (isEnder) End(bridge);
        }

        if (sent is not null) AwaitSent(sent, [bridge]);
        return true;
    }

    /// <summary>
    /// Ends the connection after everything sent and multicast before, because the user closed the Socket.
    /// </summary>
    internal void SocketClosed(Session bridge)
    {
        FlushMulticasts();
        bridge.CloseWithoutLingering();
    }

    /// <summary>Reports the end after a callback during which another thread disconnected.</summary>
    internal void EndAfterCallback(Session bridge)
    {
        // A Connect in that callback did not wait for this end.
        if (!ReferenceEquals(_bridge, bridge)) return;
        try
        {
            BeginEnd();
        }
        finally
        {
            End(bridge);
        }
    }

    // Also when the end is reported later, because the caller may read IsConnected at once.
    private void NoLongerConnected(Session bridge)
    {
        lock (_gate)
        {
            if (ReferenceEquals(_bridge, bridge)) _isConnected = _isHandshaked = _isHandshaking = false;
        }
    }

    // A disconnect cancels the connect attempt, also one that has not started. The attempt is then never reported as
    // connected.
    private bool TryGiveUpConnect()
    {
        lock (_gate)
        {
            if (!_isConnecting || _isConnected) return false;
            // ConnectAsync reads it before and after the attempt starts, so one of the two threads sees the other.
            Interlocked.Exchange(ref _givenUp, Volatile.Read(ref _connects));
        }

        _ = Volatile.Read(ref _client)?.DisconnectAsync().AsTask();
        return true;
    }

    private static bool MayWait => !t_onlyBegins && Loop.Current is null;

    /// <summary>True if a callback of a session of that server runs on the calling thread.</summary>
    internal static bool IsTellingOf(ServerLink server) => ReferenceEquals(t_telling?._server, server);

    /// <summary>
    /// Waits until the system has the queued data, at most for the drain timeout, and only while there is progress:
    /// without progress the loop or the peer may be waiting for the caller. The connections send the rest later.
    /// </summary>
    private static void AwaitSent(Task sent, List<Session> bridges)
    {
        long deadline = Environment.TickCount64 + (long)CompatOptions.DrainTimeout.TotalMilliseconds;
        long before = bridges.Sum(static b => b.BytesSent);
        while (!Wait.For(sent, StallMs) && Environment.TickCount64 < deadline)
        {
            long now = bridges.Sum(static b => b.BytesSent);
            if (now == before) return;
            before = now;
        }
    }

    // ------------------------------------------------------------------ connecting

    /// <param name="make">Creates the client, with the options of this moment.</param>
    internal bool ConnectAsync(Func<Func<Session>, Client> make) => Connect(make, isSync: false) is not null;

    internal bool Connect(Func<Func<Session>, Client> make)
    {
        if (Loop.Current is not null)
            throw new InvalidOperationException(
                "Connect waits, and a loop must not: call ConnectAsync, or leave CompatOptions.Callbacks on the pool.");
        if (Connect(make, isSync: true) is not { } ready) return false;
        // A callback of the previous connection may be waiting for a lock that the caller holds.
        int mostMs = (int)CompatOptions.DrainTimeout.TotalMilliseconds;
        if (!Wait.For(ready, mostMs) && Interlocked.Exchange(ref _connectAfterEnd, null) is not null)
        {
            _isConnecting = false;
            return false;
        }

        return Wait.For(ready);
    }

    private Task<bool>? Connect(Func<Func<Session>, Client> make, bool isSync)
    {
        TaskCompletionSource<bool>? ready = null;
        // The callback that connects has disconnected before. Its end, which would be reported after it, is reported
        // now, because this call waits.
        if (isSync && IsTelling && !_isConnected && _bridge is { } ended) EndAfterCallback(ended);
        lock (_gate)
        {
            if (_isConnected || _isConnecting) return null;
            _isConnecting = true;
            _connects++;
            if (isSync) ready = new(TaskCreationOptions.RunContinuationsAsynchronously);
        }

        // The end of the previous connection is reported before a new one starts. Exception: its own callback waits, or
        // connects again.
        if (HasToEnd())
        {
            Volatile.Write(ref _connectAfterEnd, () => Start(make, ready));
            if (!HasToEnd()) Interlocked.Exchange(ref _connectAfterEnd, null)?.Invoke();
        }
        else Start(make, ready);

        return ready?.Task ?? Task.FromResult(true);

        bool HasToEnd() =>
            (_bridge is not null && !(isSync && IsTelling)) || (Volatile.Read(ref _ends) > 0 && !isSync && !IsTelling);
    }

    private void Start(Func<Func<Session>, Client> make, TaskCompletionSource<bool>? ready)
    {
        // Not earlier, because the end of the previous connection completes the task that it finds.
        Volatile.Write(ref _ready, ready);
        _isSync = ready is not null;
        _isConnecting = true;
        Reset(isManual: ready is not null);
        try
        {
            Tell(LinkEvent.Connecting);
        }
        catch
        {
            // Otherwise an OnConnecting that throws leaves the client connecting for ever.
            _isConnecting = false;
            Interlocked.Exchange(ref _ready, null)?.TrySetResult(false);
            throw;
        }

        _ = ConnectAsync(make, _connects);
    }

    private async Task ConnectAsync(Func<Func<Session>, Client> make, int attempt)
    {
        // On the pool, so that a callback that connects keeps its order, and an immediate failure is reported after it.
        await Task.CompletedTask.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
        SocketError error;
        try
        {
            bool tells = _owner.WantsSent || _owner.WantsEmpty;
            Client client =
                make(() => tells ? new TellingBridge(new BridgeEnd(this)) : new Bridge(new BridgeEnd(this)));
            Interlocked.Exchange(ref _client, client);
            if (Volatile.Read(ref _givenUp) != attempt)
            {
                ValueTask<Session> connecting = client.ConnectAsync();
                if (Volatile.Read(ref _givenUp) == attempt) _ = client.DisconnectAsync().AsTask();
                await connecting.ConfigureAwait(false);
                return;
            }

            error = SocketError.OperationAborted;
        }
        catch (NetworkException e)
        {
            error = e.Error.SocketError;
        }
        catch (SocketException e)
        {
            error = e.SocketErrorCode;
        }
        catch (Exception e)
            when (e is ArgumentException or InvalidOperationException or IOException or OperationCanceledException)
        {
            error = SocketError.SocketError;
        }

        ConnectFailed(attempt, error);
    }
}
