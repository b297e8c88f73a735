using System.Buffers;
using System.Net.Sockets;
using System.Numerics;
using System.Runtime.CompilerServices;
using System.Runtime.ExceptionServices;

namespace Whimbrel.Compat.Links;

/// <summary>
/// Stands between an object of an old API and its connections, one after the other: keeps what the old members say, and tells the object what happens.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>Any thread may call it. What it tells about one connection it tells in order and one at a time
/// (<see cref="BridgeEnd"/>), on the pool or on the loop, but for the end: a thread that disconnects tells it where no
/// callback of the connection runs.</item>
/// <item>A connection is told as Connecting, Connected, Handshaking, Handshaked, ..., Disconnecting, Disconnected; a dial that failed as Connecting, its error, Disconnected.
/// Each at most once.</item>
/// <item>Connected is true from before Connected is told until after Disconnecting is told, and false when Disconnected is.</item>
/// <item>What is called in the wrong state says 0 or false and does nothing.</item>
/// <item>No call waits on a loop or for a callback, because the caller may hold a lock that the callback takes.</item>
/// </list>
/// </remarks>
internal sealed class Link
{
    internal const int LargestSendLimit = 1024 * 1024 * 1024; // natively: a limit that the user set is kept here, exactly
    internal const int MostPending = LargestSendLimit / 2;
    internal const int DefaultBuffer = 8192;

    private const int SoonBytes = 512 * 1024; // a send that waits returns at once up to here
    private const int LeastArray = 256;
    private const int LeastMuch = 16 * 1024, MostMuch = 256 * 1024; // more is not received at a time

    private const int NoticePaceMs = 60_000;
    private const int StallMs = 200; // a wait for queued bytes ends when none of them left meanwhile

    // Per engine, because each engine has its own OnDiagnosticEvent.
    private static readonly ConditionalWeakTable<Engine, StrongBox<long>> s_notedAt = [];

    [ThreadStatic] private static Link? t_telling;
    [ThreadStatic] private static bool t_onlyBegins;

    private readonly ILinked _owner;
    private readonly ServerLink? _server;
    private readonly Lock _gate = new();
    private volatile Session? _bridge;
    private volatile bool _isConnected, _isHandshaked, _isHandshaking, _isConnecting;
    private bool _wantsEmpty; // asked once for each connection: to look for an override allocates
    private bool _isTls, _hasFailed;
    private bool _isSync; // the connect attempt is a call of Connect
    private bool _wasUp, _toldDisconnecting; // of this connection; written where its callbacks run
    private Session? _last; // the last connection: keeps its counters and end points
    private string? _failure; // why this connection has ended
    private LinkedSocket? _socket; // under the gate
    private byte[] _buffer = [];
    private long _unlooked; // sent since the budget was asked
    private int _chunk; // most bytes of one TellReceived
    private Client? _client;
    private Action? _connectAfterEnd;
    private int _ends; // that are being told
    private int _connects; // a dial that failed may be told so by its session before its call is, and another be under way by then
    private int _givenUp; // the last dial that was, by its number
    private TaskCompletionSource<bool>? _ready; // of a sync Connect

    // Bytes for a caller of Receive, who came first.
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

    /// <summary>Where the last Multicast has listed this session.</summary>
    internal int MulticastIndex { get; set; }

    /// <summary>Bytes that the budget has counted for this connection. Under its gate.</summary>
    internal long Charge { get; set; }

    internal Session? Bridge => _bridge;

    /// <summary>
    /// The Socket of the connection, made by the first call. Remains after the end: its end points can be read, other
    /// calls throw. Null before the first connection.
    /// </summary>
    internal Socket? Socket
    {
        get
        {
            Session? bridge = _bridge;
            Socket? native = bridge?.Socket;
            // The object that the user's CreateSocket has made.
            if (native is not null && bridge!.Client is { Options.CreateSocket: not null }) return native;
            lock (_gate)
            {
                if (native is not null && _socket?.IsOf(native) != true) _socket = LinkedSocket.Over(native, this, bridge!);
                Session? ended = bridge ?? _last;
                if (native is null && _socket is null && (ended is not null || _connects > 0))
                    _socket = LinkedSocket.Ended(ended);
                return _socket;
            }
        }
    }

    /// <summary>Why the last connection or dial has ended.</summary>
    internal string Failure => Volatile.Read(ref _failure) ?? "this side has ended the connection";

    private bool CanSend => _isTls ? _isHandshaked : _isConnected;

    /// <summary>A callback of this link runs on this thread.</summary>
    private bool IsTelling => ReferenceEquals(t_telling, this);

    // ------------------------------------------------------------------ what happens, told by the bridge

    internal void Accepted(Session bridge)
    {
        _bridge = bridge;
        _isConnecting = true;
        Tell(LinkEvent.Connecting);
    }

    /// <summary>The socket is connected.</summary>
    internal void Up(Session bridge, bool isTls)
    {
        _isTls = isTls;
        _wantsEmpty = _owner.WantsEmpty;
        lock (_gate)
        {
            _bridge = bridge;
            _isConnecting = false;
            _isConnected = _wasUp = true;
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

    // The next that comes much at a time is received where the user looks at it.
    private void LendArray(Session bridge, int count)
    {
        int most = Math.Min(_chunk, MostMuch);
        // It was full: there may have been more.
        if (count == _buffer.Length && count < most) _buffer = new byte[Math.Min(count * 2, most)];
        ((IBridge)bridge).SetReceiveBuffer(_buffer);
    }

    private byte[] ArrayOf(ReadOnlySpan<byte> data)
    {
        if (_owner.KeepsArrays) return data.ToArray();
        // It was received there.
        if (data.Overlaps(_buffer, out int at) && at == 0) return _buffer;
        // No larger than what came so far: it lives as long as the session, and most sessions have small messages and are idle.
        if (_buffer.Length < data.Length) _buffer = new byte[Math.Min((int)BitOperations.RoundUpToPowerOf2((uint)Math.Max(data.Length, LeastArray)), _chunk)];
        data.CopyTo(_buffer);
        return _buffer;
    }

    // As the old ones do: a buffer that was filled exactly is doubled, and the limit is one of the buffer.
    private void Grow()
    {
        int limit = _owner.ReceiveLimit;
        int next = _chunk * 2;
        if (limit > 0 && next > limit)
        {
            _owner.TellError(SocketError.NoBufferSpaceAvailable);
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

    /// <summary>User code threw on another thread: it ends this connection, in its own order.</summary>
    internal void Rethrow(ExceptionDispatchInfo thrown)
    {
        if (_bridge is { } bridge) bridge.Post(static state => ((ExceptionDispatchInfo)state!).Throw(), thrown);
    }

    internal void Leaving(Session bridge, CloseReason reason)
    {
        if (!ReferenceEquals(_bridge, bridge)) return;
        TellFailure(reason);
        BeginEnd();
    }

    internal void Down(Session bridge, CloseReason reason)
    {
        // Of a server it has one connection, which one bridge may have handed to another.
        if (_server is null && _bridge is { } current && !ReferenceEquals(current, bridge)) return;
        try
        {
            TellFailure(reason);
        }
        finally
        {
            // Whatever the callbacks before throw: otherwise the session stays in its server's list.
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

    /// <summary>The dial ended before it had a session.</summary>
    private void ConnectFailed(int dial, SocketError error)
    {
        if (!_isConnecting || dial != _connects) return;
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

    // OnError of NetCoreServer has no text: NotConnected does not say which certificate was refused, and why.
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
        string text = $"{_owner.GetType().Name} cannot connect to {bridge.RemoteEndPoint}: {why}. OnError gets NotConnected. "
            + "The certificateValidationCallback of SslContext decides which certificates are taken.";
        client.Report(new DiagnosticEvent(DiagnosticEventKind.TlsHandshake, text, "tls-handshake.md"));
    }

    /// <summary>Tells Disconnecting, once, and then the link is not connected any more.</summary>
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
            Interlocked.Decrement(ref _ends);
            Interlocked.Exchange(ref _ready, null)?.TrySetResult(false);
            Interlocked.Exchange(ref _connectAfterEnd, null)?.Invoke();
        }
    }

    /// <summary>Stores the link of the callback that this thread runs.</summary>
    /// <param name="link">Null: none.</param>
    /// <returns>The one before.</returns>
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
            // A session that threw has ended all the same, and its server counts on the call.
            if (!isTold && what == LinkEvent.Disconnected) _server?.Tell(what, this);
            Enter(before);
        }
    }

    // ------------------------------------------------------------------ sending

    internal bool SendAsync(ReadOnlySpan<byte> data) => SendAsync(data, data.Length);

    /// <param name="data">The bytes.</param>
    /// <param name="unlooked">Number of bytes since the budget was asked: these, and perhaps others of the same sender.</param>
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

    /// <summary>Two pieces as one.</summary>
    internal bool SendAsync(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body)
    {
        if (Admit((long)head.Length + body.Length) is not { } bridge) return false;
        if (IsOverBudget(bridge, head.Length + body.Length)) return SendOverBudget(bridge, head, body);
        FlushMulticasts();
        SendResult result = bridge.Send(head, body);
        return result == SendResult.Queued || (result == SendResult.Full && SendOverBudget(bridge, head, body));
    }

    /// <summary>A send by this connection would find neither a limit nor the budget in its way.</summary>
    internal bool IsFreeToSend(Session bridge) => CanSend && ReferenceEquals(_bridge, bridge) && _server is { IsLimited: false, IsOverBudget: false };

    // Several threads may add at once: a lost addition makes the look late by as much.
    private bool IsOverBudget(Session bridge, int length)
    {
        if ((_unlooked += length) < SendBudget.LookBytes && _server is not { IsOverBudget: true }) return false;
        _unlooked = 0;
        return SendBudget.IsOver(this, bridge.BytesPending);
    }

    // There is no room in the process: this peer's queue has to get shorter first. A loop sends for all of its connections and must not wait.
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

    /// <summary>Returns when little is queued, or the connection has ended. Elsewhere than on a loop.</summary>
    private static bool SendWaiting(Session bridge, ReadOnlySpan<byte> head, ReadOnlySpan<byte> body, CancellationToken cancellation)
    {
        byte[] copy = ArrayPool<byte>.Shared.Rent(head.Length + body.Length);
        head.CopyTo(copy);
        body.CopyTo(copy.AsSpan(head.Length));
        try
        {
            bool isTaken = Wait.For(bridge.SendAsync(copy.AsMemory(0, head.Length + body.Length), cancellation)) == SendResult.Queued;
            ArrayPool<byte>.Shared.Return(copy);
            return isTaken;
        }
        catch (OperationCanceledException)
        {
            return false; // the array is not given back: the loop may look at it still
        }
    }

    /// <summary>What it is sent by, when the limit that the user set has room for it. Null: it has not, and that was told, or there is no connection.</summary>
    private Session? Admit(long length)
    {
        if (!CanSend || _bridge is not { } bridge) return null;
        int limit = _owner.SendLimit;
        if (limit <= 0 || BytesPending + length <= limit) return bridge;
        _owner.TellError(SocketError.NoBufferSpaceAvailable);
        return null;
    }

    /// <summary>Of this server's sessions, on this thread.</summary>
    private Multicasting? Multicast => _server is { IsMulticasting: true } server ? Multicasting.Of(server) : null;

    /// <summary>What was multicast before leaves, so that what follows comes after it.</summary>
    private void FlushMulticasts()
    {
        if (_server is not { } server) return;
        Multicast?.Flush();
        server.Multicasts.Flush();
    }

    /// <summary>Behind what was sent before. Nothing, when there is no connection.</summary>
    internal void Join(SessionGroup group)
    {
        if (_bridge is not { } bridge) return;
        FlushMulticasts();
        bridge.Flush(); // a callback on the pool gathers what it sends
        group.Join(bridge);
    }

    /// <summary>
    /// Joins before what is sent next, and what the group is sent waits behind that until <see cref="OpenGate"/>. By itself neither would do: joined later it misses what is sent when
    /// the peer has its answer, joined earlier it gets some before the answer. Elsewhere than in a callback of the connection OpenGate joins.
    /// </summary>
    internal void JoinHeld(SessionGroup group)
    {
        if (_bridge is not { } bridge) return;
        FlushMulticasts();
        if (((IBridge)bridge).TryHoldBroadcasts(true)) group.Join(bridge);
    }

    /// <summary>What <see cref="JoinHeld"/> holds goes on, behind what was sent since.</summary>
    internal void OpenGate(SessionGroup group)
    {
        if (_bridge is not { } bridge) return;
        FlushMulticasts();
        if (!((IBridge)bridge).TryHoldBroadcasts(false)) Join(group);
    }

    /// <summary>Before what is sent from now on.</summary>
    internal void Leave(SessionGroup group)
    {
        FlushMulticasts();
        if (_bridge is { } bridge) group.Leave(bridge);
    }

    /// <summary>Sends, and waits until the system has it or it is queued within the limit.</summary>
    internal long Send(ReadOnlySpan<byte> data) => Send(data, Timeout.InfiniteTimeSpan);

    /// <summary>The same within a time; 0 behind it, and the connection stays.</summary>
    internal long Send(ReadOnlySpan<byte> data, TimeSpan timeout)
    {
        if (!CanSend || _bridge is not { } bridge || data.IsEmpty) return 0;
        if (Loop.Current is not null || data.Length <= DefaultBuffer * 8 && bridge.BytesPending + data.Length <= SoonBytes)
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

    /// <summary>Waits for bytes, at most for the ReceiveTimeout that the user has set at the Socket. After that time the connection ends.</summary>
    internal long Receive(byte[] buffer, long offset, long size)
    {
        int timeout = _socket?.ReceiveTimeoutOrZero ?? 0;
        if (timeout <= 0) return Receive(buffer, offset, size, Timeout.InfiniteTimeSpan);
        Session? bridge = _bridge;
        long count = Receive(buffer, offset, size, TimeSpan.FromMilliseconds(timeout));
        if (count > 0 || size == 0 || !_isConnected || !ReferenceEquals(_bridge, bridge)) return count;
        _owner.TellError(SocketError.TimedOut);
        Disconnect();
        return 0;
    }

    internal long Receive(byte[] buffer, long offset, long size, TimeSpan timeout)
    {
        ArgumentNullException.ThrowIfNull(buffer);
        Span<byte> target = buffer.AsSpan(checked((int)offset), checked((int)size));
        if (!(_isTls ? _isHandshaked : _isConnected) || _bridge is not { } bridge || target.IsEmpty) return 0;
        if (Loop.Current is not null || IsTelling)
            throw new InvalidOperationException("Receive waits for bytes that come behind the running callback. Take them from OnReceived, or call Receive on a thread of your own.");
        int count = _inbox.Receive(bridge, target, timeout);
        if (count > 0) _owner.TellReceived(buffer[(int)offset..((int)offset + count)], count);
        return count;
    }

    // ------------------------------------------------------------------ the end

    /// <summary>Closes all at once, and waits once: for the calls of its own thread inside, Disconnect only begins.</summary>
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

    /// <summary>Ends all, and waits for what all have queued, once.</summary>
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
                    thrown ??= ExceptionDispatchInfo.Capture(e); // of the user's code; the other sessions end as well
                }
            }
        });
        if (sent.Count > 0) AwaitSent(Task.WhenAll(sent), bridges);
        thrown?.Throw();
    }

    internal bool Disconnect(bool waits = true)
    {
        if (!_isConnected || _bridge is not { } bridge)
        {
            if (_isConnecting && _server is null) GiveUpConnect();
            return false;
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
            // In the middle of a handshake nothing was sent that could be lost, and the peer's end would be waited for as long as it says nothing.
            if (isInHandshake) bridge.Abort();
            // What is queued leaves, and nobody waits for the peer's end: the old ones closed at once.
            else bridge.Close(peerFinished: true);
            if (isEnder) End(bridge);
        }

        if (sent is not null) AwaitSent(sent, [bridge]);
        return true;
    }

    /// <summary>The user has closed the Socket: the connection ends after what was sent and multicast before.</summary>
    internal void SocketClosed(Session bridge)
    {
        FlushMulticasts();
        bridge.Close(peerFinished: true);
    }

    /// <summary>A thread has disconnected while a callback ran, which has returned.</summary>
    internal void EndAfterCallback(Session bridge)
    {
        // A Connect in that callback has not waited for this.
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

    // A disconnect cancels the connect attempt, also one that has not begun.
    private void GiveUpConnect()
    {
        // ConnectAsync reads it before and after the attempt begins, so one of the two threads sees the other.
        Interlocked.Exchange(ref _givenUp, Volatile.Read(ref _connects));
        _ = Volatile.Read(ref _client)?.DisconnectAsync().AsTask();
    }

    private static bool MayWait => !t_onlyBegins && Loop.Current is null;

    /// <summary>A callback of a session of that server runs on this thread.</summary>
    internal static bool IsTellingOf(ServerLink server) => ReferenceEquals(t_telling?._server, server);

    /// <summary>
    /// Waits until the system has what was queued, at most for the drain timeout, and only while some of it leaves:
    /// nothing leaves when the loop or the peer waits for the caller. The connections send the rest later.
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

    // ------------------------------------------------------------------ dialling

    /// <param name="make">Makes the client, of options as they are now.</param>
    internal bool ConnectAsync(Func<Func<Session>, Client> make) => Connect(make, isSync: false) is not null;

    internal bool Connect(Func<Func<Session>, Client> make)
    {
        if (Loop.Current is not null) throw new InvalidOperationException("Connect waits, and a loop must not: call ConnectAsync, or leave CompatOptions.Callbacks on the pool.");
        if (Connect(make, isSync: true) is not { } ready) return false;
        // A callback of the old connection may be waiting for a lock that the caller holds.
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
        lock (_gate)
        {
            if (_isConnected || _isConnecting) return null;
            _isConnecting = true;
            _connects++;
            if (isSync) ready = new(TaskCreationOptions.RunContinuationsAsynchronously);
        }

        // The old connection is told to its end before a new one begins, but by a callback of its own that waits: also by asking again whether it is connected.
        if (HasToEnd())
        {
            Volatile.Write(ref _connectAfterEnd, () => Start(make, ready));
            if (!HasToEnd()) Interlocked.Exchange(ref _connectAfterEnd, null)?.Invoke();
        }
        else Start(make, ready);

        return ready?.Task ?? Task.FromResult(true);

        bool HasToEnd() => (_bridge is not null && !(isSync && IsTelling)) || (Volatile.Read(ref _ends) > 0 && !isSync && !IsTelling);
    }

    private void Start(Func<Func<Session>, Client> make, TaskCompletionSource<bool>? ready)
    {
        // Not before: the end of the connection before completes what it finds.
        Volatile.Write(ref _ready, ready);
        _isSync = ready is not null;
        _wasUp = _toldDisconnecting = _hasFailed = _isTls = false;
        _failure = null;
        _isConnecting = true;
        Volatile.Write(ref _last, null);
        lock (_gate) _socket = null;
        _inbox.Begin(isManual: ready is not null);
        try
        {
            Tell(LinkEvent.Connecting);
        }
        catch
        {
            // Otherwise an OnConnecting that throws leaves a client that connects for ever.
            _isConnecting = false;
            Interlocked.Exchange(ref _ready, null)?.TrySetResult(false);
            throw;
        }

        _ = ConnectAsync(make, _connects);
    }

    private async Task ConnectAsync(Func<Func<Session>, Client> make, int dial)
    {
        // On the pool, so that a callback that dials has its order, and what fails at once is told behind it.
        await Task.CompletedTask.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
        SocketError error;
        try
        {
            bool tells = _owner.WantsSent || _owner.WantsEmpty;
            Client client = make(() => tells ? new TellingBridge(new BridgeEnd(this)) : new Bridge(new BridgeEnd(this)));
            Interlocked.Exchange(ref _client, client);
            if (Volatile.Read(ref _givenUp) != dial)
            {
                ValueTask<Session> dialled = client.ConnectAsync();
                if (Volatile.Read(ref _givenUp) == dial) _ = client.DisconnectAsync().AsTask();
                await dialled.ConfigureAwait(false);
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
        catch (Exception e) when (e is ArgumentException or InvalidOperationException or IOException or OperationCanceledException)
        {
            error = SocketError.SocketError;
        }

        ConnectFailed(dial, error);
    }
}
