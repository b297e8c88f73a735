using System.Text;

namespace Whimbrel.Conformance;

public delegate void ReceivedHook(RecordingSession session, ReadOnlySpan<byte> data);

public delegate int UnreadHook(RecordingSession session, ReadOnlySpan<byte> unread);

/// <summary>
/// Records every callback as text, in order, and reports to the rig when one begins inside another, at the same time as
/// another, on a foreign thread, or after the last. The hooks run inside the callback, after it was recorded. Bytes
/// that arrive in several pieces without anything between are one entry, "received N".
/// </summary>
public sealed class RecordingSession : Session
{
    [ThreadStatic]
    private static RecordingSession? t_running;

    private readonly Rig _rig;
    private readonly Lock _gate = new();
    private readonly List<string> _events = [];
    private readonly List<byte> _received = [];
    private readonly List<int> _offers = [];
    private int _inside;
    private int _receivedInARow;
    private bool _isOver;
    private bool _hasBegun;
    private int _disconnectings;

    public RecordingSession(Rig rig)
    {
        ArgumentNullException.ThrowIfNull(rig);
        _rig = rig;
        rig.Add(this);
    }

    /// <summary>Whether the session considers the current thread its own.</summary>
    public bool IsHere => IsOnSessionThread;

    /// <summary>The session's own memory for large receives.</summary>
    public byte[]? Own
    {
        get => ReceiveBuffer;
        set => ReceiveBuffer = value;
    }

    public void CloseNow() => base.BeginClose(isBlocking: false);

    protected override void BeginClose(bool isBlocking)
    {
        if (AtClose is { } hook) hook(this, isBlocking);
        else base.BeginClose(isBlocking);
    }

    protected override void BeginShutdownSend()
    {
        if (AtFinishing is { } hook) hook(this);
        else base.BeginShutdownSend();
    }

    // ------------------------------------------------------------------ hooks

    /// <summary>Takes a connection over from another session, so it gets no OnConnecting (contract 15).</summary>
    public bool IsSuccessor { get; init; }

    /// <summary>Replaces the base class's close, which <see cref="CloseNow"/> runs; the argument is true if the caller
    /// blocks. No event.</summary>
    public Action<RecordingSession, bool>? AtClose { get; set; }

    /// <summary>Replaces the end of this half.</summary>
    public Action<RecordingSession>? AtFinishing { get; set; }

    public Action<RecordingSession>? AtConnecting { get; set; }

    public Action<RecordingSession>? AtConnected { get; set; }

    /// <summary>Also records an event, "handshaking".</summary>
    public Action<RecordingSession>? AtTlsHandshakeStarting { get; set; }

    /// <summary>Also records an event, "handshaked".</summary>
    public Action<RecordingSession, TlsInfo>? AtTlsHandshakeCompleted { get; set; }

    /// <summary>Number of calls of OnTlsHandshakeCompleted.</summary>
    public int Handshakes { get; private set; }

    public Action<RecordingSession, CloseReason>? AtConnectFailed { get; set; }

    public ReceivedHook? AtReceived { get; set; }

    /// <summary>Called with the bytes as well, in the async form.</summary>
    public Func<RecordingSession, ReadOnlyMemory<byte>, ValueTask>? AtReceivedAsync { get; set; }

    /// <summary>Decides how many bytes are consumed. Without it all are.</summary>
    public UnreadHook? AtData { get; set; }

    /// <summary>Replaces the default, which closes.</summary>
    public Action<RecordingSession>? AtEndOfStream { get; set; }

    /// <summary>Also records an event, "disconnecting CAUSE". Checked without it as well.</summary>
    public Action<RecordingSession, CloseReason>? AtDisconnecting { get; set; }

    public Action<RecordingSession, CloseReason>? AtDisconnected { get; set; }

    /// <summary>Replaces the default, which closes.</summary>
    public Action<RecordingSession>? AtServerStopping { get; set; }

    public Action<RecordingSession, LoopTimer>? AtTimer { get; set; }

    /// <summary>Replaces the default, which closes. Also records an event, "timeout CAUSE".</summary>
    public Action<RecordingSession, CloseReason>? AtTimeout { get; set; }

    public Action<RecordingSession, Exception>? AtError { get; set; }

    // ------------------------------------------------------------------ recorded state

    public IReadOnlyList<string> Events
    {
        get
        {
            lock (_gate) return [.. _events];
        }
    }

    /// <summary>All events in one text, for comparison.</summary>
    public string Life => string.Join(", ", Events);

    public byte[] Received
    {
        get
        {
            lock (_gate) return [.. _received];
        }
    }

    public int ReceivedCount
    {
        get
        {
            lock (_gate) return _received.Count;
        }
    }

    public string ReceivedText => Encoding.ASCII.GetString(Received);

    /// <summary>Number of bytes passed to each call of OnData.</summary>
    public IReadOnlyList<int> Offers
    {
        get
        {
            lock (_gate) return [.. _offers];
        }
    }

    public bool Saw(string name)
    {
        lock (_gate) return _events.Exists(e => e == name || e.StartsWith(name + " ", StringComparison.Ordinal));
    }

    public int Count(string name)
    {
        lock (_gate) return _events.Count(e => e == name || e.StartsWith(name + " ", StringComparison.Ordinal));
    }

    /// <summary>True after the last callback.</summary>
    public bool IsOver
    {
        get
        {
            lock (_gate) return _isOver;
        }
    }

    /// <summary>True between the first and the last callback.</summary>
    public bool IsAlive
    {
        get
        {
            lock (_gate) return _hasBegun && !_isOver;
        }
    }

    /// <summary>Argument of OnDisconnected or OnConnectFailed.</summary>
    public CloseReason Reason { get; private set; }

    /// <summary>Last exception passed to OnError.</summary>
    public Exception? Error { get; private set; }

    /// <summary>Waits for the last callback and returns its cause.</summary>
    public CloseCause End()
    {
        _rig.Until(() => IsOver, $"{this} to end");
        return Reason.Cause;
    }

    public void UntilReceived(int count) => _rig.Until(() => ReceivedCount >= count, $"{count} bytes at {this}");

    public void Until(string name) => _rig.Until(() => Saw(name), $"'{name}' at {this}");

    /// <summary>Checks contract 1, for a session that has ended or never began.</summary>
    public void CheckLife()
    {
        IReadOnlyList<string> events = Events;
        if (events.Count == 0) return;
        // A successor that took over before OnConnected starts with the remaining callbacks.
        bool beginsWell = IsSuccessor ? events[0] is "connected" or "handshaking" or "handshaked"
            || events[0].StartsWith("connect failed", StringComparison.Ordinal) : events[0] == "connecting";
        Assert.True(beginsWell, $"the first callback was {events[0]}: {Life}");
        int ends = events.Count(static e => e.StartsWith("disconnected", StringComparison.Ordinal)
            || e.StartsWith("connect failed", StringComparison.Ordinal));
        Assert.True(ends == 1, $"{ends} last callbacks: {Life}");
        bool wasConnected = events.Contains("connected");
        bool saidSo = events.Any(static e => e.StartsWith("disconnected", StringComparison.Ordinal));
        Assert.True(wasConnected == saidSo, $"connected and disconnected do not fit: {Life}");
        Assert.True(_disconnectings == (wasConnected ? 1 : 0), $"{_disconnectings} times disconnecting: {Life}");
    }

    // ------------------------------------------------------------------ protected members of Session, for tests

    public Span<byte> CallReserve(int count) => Reserve(count);

    public void CallCommit(int count) => Commit(count);

    public void CallSetMinimumBytes(int count) => SetMinimumBytes(count);

    public int CallUnreadCount => UnreadCount;

    public Span<byte> CallWritable(ReadOnlySpan<byte> received) => Writable(received);

    public void CallHandOver(Session next, bool holdsSends = false) => HandOver(next, holdsSends);

    public void CallReplaceEndPoints(System.Net.EndPoint? remote, System.Net.EndPoint? local) =>
        ReplaceEndPoints(remote, local);

    public void CallBeginPhase(SessionPhase phase) => BeginPhase(phase);

    public void CallEndPhase() => EndPhase();

    /// <summary>Default behaviour of OnTimeout.</summary>
    public void CallTimedOut(CloseReason reason) => base.OnTimeout(reason);

    public LoopTimer CallStartTimer(TimeSpan due, TimeSpan period = default) => StartTimer(due, period);

    public void CallUpgrade(TlsOptions options, UnreadBytes unread = UnreadBytes.Refuse) =>
        UpgradeToTls(options, unread);

    public ValueTask<TlsInfo> CallUpgradeAsync(TlsOptions options, UnreadBytes unread = UnreadBytes.Refuse) =>
        UpgradeToTlsAsync(options, unread);

    public BodyStream CallStartBody(long skipLimitBytes = 256 * 1024) => StartBody(skipLimitBytes);

    public int CallDeliverBody(ReadOnlySpan<byte> data) => DeliverBody(data);

    public ValueTask<PipeResult> CallPipeTo(Session target, CancellationToken token = default) => PipeTo(target, token);

    public void CallEndBody(Exception? failure = null) => EndBody(failure);

    /// <summary>For posts: records an event, "posted NAME", and checks as for a callback.</summary>
    public void RunPosted(string name, Action? action = null)
    {
        using Callback callback = new(this, $"posted {name}");
        action?.Invoke();
    }

    public int Limit
    {
        get => SendLimitBytes;
        set => SendLimitBytes = value;
    }

    public bool TakesLarge
    {
        get => AllowLargeMessages;
        set => AllowLargeMessages = value;
    }

    public BroadcastGate Gate
    {
        get => BroadcastGate;
        set => BroadcastGate = value;
    }

    // ------------------------------------------------------------------ overrides

    protected override void OnConnecting()
    {
        using Callback callback = new(this, "connecting");
        AtConnecting?.Invoke(this);
    }

    protected override void OnTlsHandshakeStarting()
    {
        if (Tls is not null) _rig.Violation($"handshaking came after the handshake: {Life}");
        using Callback callback = new(this, AtTlsHandshakeStarting is null ? null : "handshaking");
        AtTlsHandshakeStarting?.Invoke(this);
    }

    protected override void OnTlsHandshakeCompleted(TlsInfo info)
    {
        ArgumentNullException.ThrowIfNull(info);
        if (!ReferenceEquals(info, Tls)) _rig.Violation("Session.Tls is not the argument of OnTlsHandshakeCompleted");
        Handshakes++;
        using Callback callback = new(this, AtTlsHandshakeCompleted is null ? null : "handshaked");
        AtTlsHandshakeCompleted?.Invoke(this, info);
    }

    protected override void OnConnected()
    {
        using Callback callback = new(this, "connected");
        AtConnected?.Invoke(this);
    }

    protected override void OnConnectFailed(CloseReason reason)
    {
        Reason = reason;
        using Callback callback = new(this, $"connect failed {reason.Cause}", isLast: true);
        AtConnectFailed?.Invoke(this, reason);
    }

    protected override void OnReceived(ReadOnlySpan<byte> data)
    {
        RecordReceived(data);
        AtReceived?.Invoke(this, data);
        if (AtReceivedAsync is not null) base.OnReceived(data);
    }

    protected override ValueTask OnReceivedAsync(ReadOnlyMemory<byte> data) => AtReceivedAsync!(this, data);

    protected override int OnData(ReadOnlySpan<byte> unread)
    {
        using Callback callback = new(this, null);
        lock (_gate) _offers.Add(unread.Length);
        if (AtData is null) return base.OnData(unread);
        int taken = AtData(this, unread);
        if (taken > 0 && taken <= unread.Length) RecordReceived(unread[..taken]);
        return taken;
    }

    protected override void OnEndOfStream()
    {
        using Callback callback = new(this, "peer finished");
        if (AtEndOfStream is null) base.OnEndOfStream();
        else AtEndOfStream(this);
    }

    protected override void OnDisconnecting(CloseReason reason)
    {
        using Callback callback = new(this, AtDisconnecting is null ? null : $"disconnecting {reason.Cause}");
        _disconnectings++;
        AtDisconnecting?.Invoke(this, reason);
    }

    protected override void OnServerStopping()
    {
        if (AtServerStopping is null)
        {
            base.OnServerStopping();
            return;
        }

        using Callback callback = new(this, "server stopping");
        AtServerStopping(this);
    }

    protected override void OnDisconnected(CloseReason reason)
    {
        if (_disconnectings != 1) _rig.Violation($"disconnected after {_disconnectings} times disconnecting: {Life}");
        Reason = reason;
        using Callback callback = new(this, $"disconnected {reason.Cause}", isLast: true);
        AtDisconnected?.Invoke(this, reason);
    }

    protected override void OnTimeout(CloseReason reason)
    {
        using Callback callback = new(this, AtTimeout is null ? null : $"timeout {reason.Cause}");
        if (AtTimeout is null) base.OnTimeout(reason);
        else AtTimeout(this, reason);
    }

    protected override void OnTimer(LoopTimer timer)
    {
        using Callback callback = new(this, "timer");
        AtTimer?.Invoke(this, timer);
    }

    protected override void OnError(Exception exception)
    {
        ArgumentNullException.ThrowIfNull(exception);
        Error = exception;
        using Callback callback = new(this, $"error {exception.GetType().Name}");
        AtError?.Invoke(this, exception);
    }

    private void RecordReceived(ReadOnlySpan<byte> data)
    {
        lock (_gate)
        {
            _received.AddRange(data);
            if (_receivedInARow > 0) _events.RemoveAt(_events.Count - 1);
            _receivedInARow += data.Length;
            _events.Add($"received {_receivedInARow}");
        }
    }

    private void Begin(string? name)
    {
        if (Interlocked.Exchange(ref _inside, 1) == 1)
            _rig.Violation($"{name ?? "received"} began inside or beside another callback: {Life}");
        if (t_running is not null) _rig.Violation($"{name ?? "received"} began inside a callback of {t_running}");
        t_running = this;
        if (_rig.IsPool ? Connections.PoolSession.Current is null : !Loop.IsCurrent)
            _rig.Violation($"{name ?? "received"} came on a foreign thread");
        lock (_gate)
        {
            // An exception of OnDisconnected is passed to OnError: the only callback after the end (contract 4). Posts
            // run (contract 18).
            if (_disconnectings > 0 && name?.StartsWith("posted", StringComparison.Ordinal) == false
                && !name.StartsWith("disconnect", StringComparison.Ordinal)
                && !name.StartsWith("error", StringComparison.Ordinal))
                _rig.Violation($"{name} came after disconnecting: {Life}");
            if (_isOver && name?.StartsWith("error", StringComparison.Ordinal) != true)
                _rig.Violation($"{name ?? "received"} came after the last callback: {Life}");
            _hasBegun = true;
            if (name is null) return;
            _receivedInARow = 0;
            _events.Add(name);
        }
    }

    private void Leave(bool isLast)
    {
        t_running = null;
        Volatile.Write(ref _inside, 0);
        if (!isLast) return;
        lock (_gate) _isOver = true;
    }

    private readonly ref struct Callback
    {
        private readonly RecordingSession _session;
        private readonly bool _isLast;

        internal Callback(RecordingSession session, string? name, bool isLast = false)
        {
            _session = session;
            _isLast = isLast;
            session.Begin(name);
        }

        public void Dispose() => _session.Leave(_isLast);
    }
}
