using System.Buffers;
using System.ComponentModel;
using System.Diagnostics.CodeAnalysis;
using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using System.Text;
using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;
using Whimbrel.Tls;

namespace Whimbrel;

/// <summary>
/// Base class for the application's code on one connection: derive from it and override the callbacks you need.
/// The same class serves accepted and outgoing connections on every transport.
/// </summary>
/// <remarks>
/// The contract. Each number has tests on every engine (docs/guarantees.md).
/// <list type="number">
/// <item><b>Lifecycle.</b> A session serves one connection or one connect attempt. Order: <c>OnConnecting</c>,
/// <c>OnConnected</c>, any other callbacks, <c>OnDisconnecting</c>, <c>OnDisconnected</c>; or <c>OnConnecting</c>,
/// <c>OnConnectFailed</c>. <c>OnDisconnected</c> is called exactly once and last, with the first cause. With TLS,
/// <see cref="OnTlsHandshakeStarting"/> and <see cref="OnTlsHandshakeCompleted"/> come between <c>OnConnecting</c> and
/// <c>OnConnected</c>. If the server's factory receives the connection, the session is created after the handshake,
/// without <c>OnTlsHandshakeStarting</c>.</item>
/// <item><b>Serialized callbacks.</b> Callbacks of one session never overlap and never nest. While
/// <see cref="OnReceivedAsync"/> is incomplete no more data is delivered; other callbacks may run while it
/// awaits.</item>
/// <item><b>Unconsumed data.</b> Bytes that <see cref="OnData"/> does not consume are kept and passed again together
/// with new data. While a body stream (<see cref="StartBody"/>) has unread data, no further data or end of stream is
/// delivered.</item>
/// <item><b>Exceptions.</b> An exception from an override is passed to <see cref="OnError"/>, counted, and ends this
/// connection only. Without an <c>OnError</c> override a diagnostic event is reported. Memory that throws when it is
/// sent or disposed also ends its connection, without <c>OnError</c>.</item>
/// <item><b>Sending is atomic and thread-safe.</b> A message, of whatever form of <see cref="Outgoing"/>, is queued
/// completely or not at all. After the connection has ended, sends return <c>Closed</c>; they do not throw. Before
/// that, a send throws only for arguments that can never be sent.</item>
/// <item><b>SendAsync</b> waits for queue space in FIFO order. It completes when little is pending and the connection
/// has not used up its share of the loop's turn. Awaited on the loop, it resumes on the loop, never inline in the
/// completing call.</item>
/// <item><b>Ordering.</b> Sends, broadcasts and closes of one thread to one session take effect in call order. The same
/// holds for an async method that resumes on another thread, and for broadcasts and <see cref="Loop.Post(Action)"/>
/// after earlier sends of their caller. Joins, leaves, broadcasts and posts of other threads take effect when the loop
/// processes them. So do the sends of such a thread that follow a join of the session or a broadcast to it.</item>
/// <item><b>Send limit.</b> Each connection has a send limit and a policy (<see cref="SlowConsumer"/>).
/// <see cref="BytesPending"/> includes a message as soon as its send returns. All cross-thread sends together are
/// limited by <see cref="EngineOptions.MailboxLimitBytes"/>: at that limit sends return <c>Full</c>, <c>SendAsync</c>
/// waits, and <see cref="OnDrained"/> is called when space is available. <c>Send</c> throws for a message larger than
/// the send limit; <c>SendAsync</c> sends it in parts; a broadcast skips that member, with a diagnostic event.</item>
/// <item><b>Back-pressure.</b> While a session's own callbacks have queued more than the high-water mark, its
/// connection is not read. Data it left unconsumed is passed again when the queue has drained. The same applies to a
/// session that saw pending bytes (<see cref="IsAboveHighWaterMark"/>, <see cref="BytesPending"/>, a rejected send) and
/// left data unconsumed. If a message sent in a callback does not fit, queued data is first offered to the
/// kernel.</item>
/// <item><b>Pause.</b> After <see cref="PauseReceiving"/> on the session's thread no data is delivered until
/// <see cref="ResumeReceiving"/>. <see cref="IsReceivingPaused"/> is true until then. A hand-over keeps the
/// pause.</item>
/// <item><b>Half-close.</b> When the peer shuts down its sending side, the connection is closed unless
/// <see cref="OnEndOfStream"/> is overridden.</item>
/// <item><b>Closing.</b> <see cref="Close()"/> sends queued data, then FIN, and waits (with limits) for the peer's FIN.
/// <see cref="CloseWithoutLingering"/> skips that wait when the protocol says that no more data will come.
/// <see cref="Abort"/> discards queued data and resets. When its server stops with a deadline,
/// <see cref="OnServerStopping"/> is called once. A stop waits for callbacks and stream handlers, returns at most one
/// second after its deadline, and reports what is still running. <see cref="CloseReason.BytesLost"/> and
/// <see cref="CloseReason.WasReset"/> report what a reset by this side discarded.</item>
/// <item><b>Buffer lifetime.</b> A span passed to a callback is valid during the call; memory passed to
/// <c>OnReceivedAsync</c> is valid until its task completes. The session may change received bytes in place
/// (<see cref="Writable"/>); bytes it leaves unconsumed are passed again as changed.</item>
/// <item><b>Threads.</b> Callbacks run on the loop and must not block; a watchdog reports turns that take too long.
/// With <see cref="Scheduling.ThreadPool"/> they run serially on the thread pool and may block. Received data is copied
/// then, and at most 128 KiB of it is buffered before reading stops. Messages are sent when the callback returns, on
/// <see cref="Flush"/>, when it awaits <c>SendAsync</c> or blocks in this library, or earlier when another thread sends
/// to the session. A callback that awaits resumes in the session's order, also with <c>ConfigureAwait(false)</c>; code
/// that awaits <c>AsTask()</c> resumes anywhere on the pool.</item>
/// <item><b>Hand-over.</b> <see cref="HandOver"/> transfers the connection with its unconsumed data to another session
/// after the current callback returns. It may be called from every callback except those of the end. Before
/// <c>OnConnected</c>, the old session ends with <c>OnConnectFailed</c> and the new one receives the remaining
/// callbacks, without <c>OnConnecting</c>.</item>
/// <item><b>StartTLS.</b> <see cref="UpgradeToTls"/> sends queued data in the clear, holds later sends until the
/// handshake completes, and by default fails if unconsumed plaintext remains. It ends with
/// <see cref="OnTlsHandshakeCompleted"/> or a close. A close during the handshake takes effect after earlier sends; if
/// the handshake fails, that failure is the reason.</item>
/// <item><b>Groups.</b> Join, leave and broadcast are thread-safe (<see cref="SessionGroup"/>). A broadcast is accepted
/// by all loops or none. Each session that stays a member until its loop processes the broadcast receives it once. A
/// broadcast with an encoder is encoded by the caller, once for each class of members.</item>
/// <item><b>Posts</b> (<see cref="Post(Action)"/>) run on the session's thread between callbacks, after earlier sends
/// of their caller. An accepted post always runs, before the session's last callbacks.</item>
/// <item><b>Timeouts</b> (<see cref="ReceiveTimeout"/>, <see cref="SendTimeout"/>, <see cref="IdleTimeout"/>,
/// <see cref="BeginPhase"/>) never fire early. Receive timeouts and the minimum rate of a phase exclude time in which
/// the connection was not read. <see cref="OnTimeout"/> ends the connection unless overridden.</item>
/// <item><b>Files</b> (<see cref="FileSource"/>) are sent in order with other messages, count as 1 KiB per GiB against
/// the send limit, and stay open until sent. All bytes of a file are included in <c>BytesPending</c>. A file that
/// cannot be sent resets the connection (<see cref="CloseCause.FileFailed"/>).</item>
/// <item><b>Owned memory and MessageWriter.</b> Memory of <see cref="Outgoing.Owned(IMemoryOwner{byte}, int)"/> is
/// taken, and a message is removed from its <see cref="MessageWriter"/>, only if the send returns <c>Queued</c>. The
/// content of two writers never shares a buffer.</item>
/// <item><b>Pipes.</b> <see cref="PipeTo"/> forwards all data in order, applies the target's back-pressure to the
/// source, and forwards the end of stream. Any other end of one side ends the other. The result names the side that
/// ended and the reason.</item>
/// <item><b>SentAsync.</b> <see cref="SentAsync"/> completes exactly once: with true when the kernel has accepted
/// everything that its caller sent before the call, otherwise with false.</item>
/// </list>
/// Members may be used from any thread and callbacks run on the session's loop, unless the member's documentation says
/// otherwise.
/// </remarks>
public abstract partial class Session : IConnection, ITimerOwner
{
    // Weak, so that the table does not keep the classes of an unloadable plug-in alive.
    private static readonly ConditionalWeakTable<Type, object> s_hooks = [];

    // Thread statics, because a field of each session would cost memory for a rare event. Read within the same call.
    [ThreadStatic]
    private static string? t_threw;

    [ThreadStatic]
    private static bool t_isCaught; // set when a protocol caught the exception and continues

    [ThreadStatic]
    private static string? t_advice; // that protocol's advice, for the diagnostic event

    [ThreadStatic]
    private static string? t_outcome; // that protocol's outcome sentence, for the diagnostic event

    private Connection? _connection;
    private uint _generation;
    private PeerAddress _remote;
    private EndPoint? _remoteEndPoint;
    private EndPoint? _localEndPoint;
    private ConnectionHost? _host;
    private Loop? _loop;
    private long _finalReceived;
    private EndWait? _endWaits;
    private CloseReason _endReason;
    private long _finalSent;
    private long _connectedAtTicks;
    private TlsInfo? _tls;
    private int _drainMark;
    private bool _isEnding;

    /// <inheritdoc/>
    public long Id { get; private set; }

    /// <summary>
    /// The loop that this session runs on. Throws <see cref="InvalidOperationException"/> before the session has a
    /// connection.
    /// </summary>
    public Loop Loop => _loop ?? throw new InvalidOperationException("The session has no connection yet.");

    /// <summary>The server that accepted the connection, or null.</summary>
    public Server? Server => _host?.Owner as Server;

    /// <summary>The client that opened the connection, or null.</summary>
    public Client? Client => _host?.Owner as Client;

    /// <inheritdoc/>
    public EndPoint? LocalEndPoint => _localEndPoint;

    /// <inheritdoc/>
    public EndPoint? RemoteEndPoint => Volatile.Read(ref _remoteEndPoint) ?? MakeRemoteEndPoint();

    /// <inheritdoc/>
    public object? Tag { get; set; }

    /// <summary>
    /// Time at which the connection was established, in UTC; null before. A hand-over keeps it. Readable after the end.
    /// </summary>
    public DateTimeOffset? ConnectedAt =>
        _connectedAtTicks == 0 ? null : new DateTimeOffset(_connectedAtTicks, TimeSpan.Zero);

    /// <summary>
    /// A <see cref="System.Net.Sockets.Socket"/> for the connection, for options, addresses and control calls without a
    /// member here. Created by the first call (or by <see cref="ConnectionSocketOptions.Create"/>) on a duplicate of
    /// the descriptor, and disposed by the connection when it ends. Do not send, receive or shut down with it: that
    /// bypasses the session's buffers. Null without a connected socket, after the end, and on the memory engine. Any
    /// thread.
    /// </summary>
    /// <exception cref="NetworkException">Category Limit: no file descriptor is left for the duplicate.</exception>
    public Socket? Socket => _connection?.ShareSocket(_generation);

    /// <summary>True from OnConnected until the end begins. Any thread; may have changed when it returns.</summary>
    public bool IsConnected => _connection is { IsOpen: true };

    /// <summary>
    /// Result of the TLS handshake, available from <see cref="OnTlsHandshakeCompleted"/> on. Null on a connection
    /// without TLS. Readable after the end.
    /// </summary>
    public TlsInfo? Tls => Volatile.Read(ref _tls);

    /// <inheritdoc/>
    public long BytesPending
    {
        get
        {
            if (_connection is not { } connection) return 0;
            long pending = connection.BytesPending;
            if (pending > 0) KnowsOfQueue(connection);
            return pending;
        }
    }

    /// <summary>
    /// Same as <see cref="BytesPending"/>, but does not enable back-pressure tracking. For statistics.
    /// </summary>
    internal long PendingBytes =>
        _connection is { } connection && connection.Generation == _generation ? connection.BytesPending : 0;

    /// <summary>
    /// True while the session should not queue more: more than 256 KiB are pending (a quarter of a smaller
    /// <see cref="ConnectionLimits.SendBytes"/>), or the connection is not read because of its full queue
    /// (contract 9). A session that answers many requests in one callback leaves the rest unconsumed while this is
    /// true; they are passed again. Always false without <see cref="ConnectionLimits.BackPressure"/> and after the
    /// end. Any thread; exact on the session's thread.
    /// </summary>
    public bool IsAboveHighWaterMark
    {
        get
        {
            if (_connection is not { } connection || connection.Shard is not { } shard || !shard.Host.BackPressure)
                return false;
            bool isHeld = connection.IsAboveHighWaterMark || connection.Pool is { IsAboveHighWaterMark: true }
                || connection.BytesPending > connection.HoldMark;
            if (isHeld) KnowsOfQueue(connection);
            return isHeld;
        }
    }

    /// <summary>
    /// Maximum number of bytes in this connection's send queue. Initially
    /// <see cref="ConnectionLimits.SendBytes"/>. A new limit applies to later sends; bytes already pending stay
    /// queued. Belongs to the connection, so a hand-over keeps it. 0 without a connection. Set it on the session's
    /// thread only.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">The value is not between 4 KiB and 1 GiB.</exception>
    public int SendLimitBytes
    {
        get => _connection is { } connection ? connection.Outbound.SendLimit : 0;
        protected set
        {
            if (value is < ConnectionLimits.LeastSendBytes or > ConnectionLimits.MostSendBytes)
                Throw.OutOfRange(nameof(value), value, "between 4 KiB and 1 GiB");
            if (_connection is not { } connection) return;
            SetSendLimit(connection, value, connection.Outbound.AllowsLargeMessages, nameof(SendLimitBytes));
        }
    }

    /// <summary>
    /// True if a message larger than <see cref="SendLimitBytes"/> is accepted while nothing is pending. Initially
    /// <see cref="ConnectionLimits.AllowLargeMessages"/>. If false, <c>Send</c> throws for such a message, and
    /// <c>SendAsync</c> sends it in parts. Belongs to the connection. Set it on the session's thread only.
    /// </summary>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    public bool AllowLargeMessages
    {
        get => _connection is { Outbound.AllowsLargeMessages: true };
        protected set
        {
            if (_connection is not { } connection) return;
            SetSendLimit(connection, connection.Outbound.SendLimit, value, nameof(AllowLargeMessages));
        }
    }

    private void SetSendLimit(Connection connection, int bytes, bool allowsLarge, string member)
    {
        if (PoolHere(connection, member) is { } pool) pool.Sends.SetSendLimit(bytes, allowsLarge);
        else if (connection.Generation == _generation) connection.Outbound.SetSendLimit(bytes, allowsLarge);
    }

    /// <summary>
    /// Low-water mark: <see cref="OnDrained"/> is called when the pending bytes have fallen to this number. A session
    /// that produces data on demand sets it to the amount that should remain queued while it produces more. Default 0:
    /// called when nothing is pending.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">The value is negative.</exception>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    public int LowWaterMarkBytes
    {
        get => _drainMark;
        protected set
        {
            if (value < 0) Throw.OutOfRange(nameof(value), value, "0 or more");
            Volatile.Write(ref _drainMark, value);
        }
    }

    /// <summary>
    /// Records, inside a callback of this session, that data it leaves unconsumed waits for the queue to drain.
    /// </summary>
    private void KnowsOfQueue(Connection connection)
    {
        if (!connection.Loop.IsCurrent) PoolSession.CurrentOf(connection, _generation)?.KnowsOfQueue();
        else if (connection.Generation == _generation) connection.KnowsOfQueue();
    }

    /// <summary>Number of bytes received so far. Exact on the session's thread and after the end.</summary>
    public long BytesReceived => _connection?.BytesReceived ?? _finalReceived;

    /// <summary>Number of bytes passed to the kernel so far. Exact on the session's thread and after the end.</summary>
    public long BytesSent => _connection?.Outbound.BytesSent ?? _finalSent;

    /// <summary>
    /// Copy of the list of groups that the session is in, without <see cref="Server.Sessions"/>, in no particular
    /// order. On the session's loop only, also if its callbacks run on the pool: use a post to the loop there.
    /// </summary>
    public IReadOnlyList<SessionGroup> Groups
    {
        get
        {
            if (_connection is not { } connection) return [];
            if (!connection.Loop.IsCurrent) Throw.NotOnLoop(nameof(Groups));
            return connection.Generation == _generation ? connection.Groups : [];
        }
    }

    // ------------------------------------------------------------------ sending

    /// <summary>
    /// Queues a copy of the data, completely or not at all. All sends of one loop turn leave in one system call.
    /// </summary>
    /// <param name="data">Bytes to send. May be reused at once.</param>
    /// <exception cref="ArgumentException">The message is larger than <see cref="SendLimitBytes"/> and
    /// <see cref="AllowLargeMessages"/> is false. Nothing was queued and the connection continues. Applies to every
    /// form of <c>Send</c>.</exception>
    [OverloadResolutionPriority(1)]
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public SendResult Send(ReadOnlySpan<byte> data)
    {
        Connection? connection = _connection;
        return connection is null ? SendResult.Closed : connection.Outbound.Send(data, _generation);
    }

    /// <inheritdoc/>
    SendResult IConnection.Send(ReadOnlyMemory<byte> data) => Send(data.Span);

    /// <inheritdoc/>
    public SendResult Send(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return SendText(text);
    }

    /// <inheritdoc/>
    public ValueTask<SendResult> SendAsync(ReadOnlyMemory<byte> data, CancellationToken cancellationToken = default) =>
        _connection is { } connection
            ? connection.Outbound.SendAsync(data, default, default, default, _generation, cancellationToken)
            : new(SendResult.Closed);

    /// <summary>Waits for queue space, then queues the text as UTF-8. See the other <c>SendAsync</c>.</summary>
    /// <param name="text">Text to send.</param>
    /// <param name="cancellationToken">Cancels the wait.</param>
    public ValueTask<SendResult> SendAsync(string text, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(text);
        return SendTextAsync(text, cancellationToken);
    }

    /// <summary>
    /// Returns memory of the library in which a message can be written, without a buffer of the caller.
    /// <see cref="Commit"/> in the same callback queues it. Empty if nothing can be sent now. A second call ends the
    /// first reservation, also one of another session of the loop. The session's thread only.
    /// </summary>
    /// <param name="count">Maximum number of bytes to write, up to 32,768.</param>
    protected Span<byte> Reserve(int count)
    {
        if (_connection is not { } connection) return default;
        if (PoolSession.CurrentOf(connection, _generation) is not { } pool)
            return connection.Outbound.Reserve(count, _generation);
        OutboundQueue.CheckReserve(count);
        return pool.Sends.Reserve(count);
    }

    /// <summary>
    /// Queues the bytes written into the span of <see cref="Reserve"/>, after what the callback has sent before. Has no
    /// effect after the end. The session's thread only.
    /// </summary>
    /// <param name="count">Number of bytes written, from the start of the span. 0 releases the reservation.</param>
    /// <exception cref="ArgumentOutOfRangeException">The count is larger than the reservation. A reservation ends with
    /// its callback, with the next <see cref="Reserve"/> on the loop, and with a <c>SendAsync</c> of this session that
    /// waits for space. Nothing is sent.</exception>
    protected void Commit(int count)
    {
        if (_connection is not { } connection) return;
        if (PoolSession.CurrentOf(connection, _generation) is { } pool) pool.Sends.Commit(count);
        else connection.Outbound.Commit(count, _generation);
    }

    /// <summary>
    /// Sends now what the running callback has queued. For callbacks that continue to work: with
    /// <see cref="Scheduling.ThreadPool"/> messages are otherwise sent when the callback returns, and on the loop at
    /// the end of the turn. On the loop each call is a system call of its own, and has no effect while a reservation of
    /// <see cref="Reserve"/> is open. Has no effect outside of the session's callbacks, where messages are sent without
    /// it.
    /// </summary>
    public void Flush()
    {
        if (_connection is not { } connection) return;
        if (connection.Loop.IsCurrent) connection.Outbound.FlushNow(_generation);
        else PoolSession.CurrentOf(connection, _generation)?.Sends.FlushNow();
    }

    // ------------------------------------------------------------------ ending

    /// <inheritdoc/>
    public void Close() => BeginClose(isBlocking: false);

    /// <summary>
    /// Begins a graceful close. Every Close and CloseAsync of this session calls it. Override it for a protocol with a
    /// closing handshake: start the handshake, and call the base method when the peer has answered or a time limit has
    /// passed. The wait of CloseAsync and <see cref="CloseAndWait"/> continues until the connection has ended.
    /// Timeouts and the stop of a server without a deadline do not call it. Any thread, possibly several times, also
    /// after the end.
    /// </summary>
    /// <param name="isBlocking">True if called by <see cref="CloseAndWait"/>. If <see cref="IsOnSessionThread"/> is
    /// also true, a callback of this session blocks until the end: no other callback can run meanwhile, so the peer's
    /// answer cannot be processed.</param>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    protected virtual void BeginClose(bool isBlocking) => CloseWith(new CloseReason(CauseOfClose));

    /// <summary>
    /// Ends the connection after an override of this session, or an action posted to it, has thrown and
    /// <see cref="OnError"/> was called. The default resets the connection with <see cref="CloseCause.UserException"/>
    /// and drops what the callback has sent. Override it for a protocol that can report the failure to the peer: send
    /// the report and close; queued data is then sent first. Also called when the connection is already ending. An
    /// exception thrown here resets the connection. The session's thread.
    /// </summary>
    /// <param name="exception">Exception that was thrown.</param>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    protected virtual void EndAfterException(Exception exception) =>
        AbortWith(new CloseReason(CloseCause.UserException, 0, exception));

    /// <summary>
    /// True if the session's callbacks run on the current thread: on its loop, inside one of its callbacks on the pool,
    /// or in code after an await in such a callback. Members marked "session's thread only" may be used then. False
    /// without a connection, except inside a callback on the pool that is still running.
    /// </summary>
    protected bool IsOnSessionThread =>
        RunningPool is not null || _connection is { Pool: null, Loop.IsCurrent: true };

    /// <summary>
    /// Closes like <see cref="Close()"/>, but does not wait for the peer's FIN if the protocol says that the peer sends
    /// nothing more. The descriptor is closed as soon as the kernel has accepted the queued data; the peer receives all
    /// of it, then FIN. A peer that sends anyway may be reset and lose data that it has not read. If bytes arrive
    /// between this call and the close, it waits as <see cref="Close()"/> does. Over TLS it waits for at most one
    /// second.
    /// </summary>
    public void CloseWithoutLingering()
    {
        ReportEndOfStream();
        BeginClose(isBlocking: false);
    }

    /// <summary>
    /// For protocols: reports that the peer sends nothing more of interest, although its FIN has not arrived. A later
    /// close does not wait for the FIN, as in <see cref="CloseWithoutLingering"/>; over TLS it waits for at most one
    /// second.
    /// Bytes that arrive before the close cancel this. The session's thread only.
    /// </summary>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    protected void ReportEndOfStream() =>
        // Control items are processed before data items in the mailbox. If this one is late, the close only waits
        // longer.
        OnConnectionLoop(static c => c.NotePeerSaidAll());

    /// <summary>Cause of a close by the application.</summary>
    internal virtual CloseCause CauseOfClose => CloseCause.LocalClose;

    /// <summary>
    /// For protocols: reports that the peer violated the protocol. The connection does not end by this call. If this
    /// side then closes or aborts before another end has begun, the reason is <see cref="CloseCause.ProtocolError"/>
    /// with this exception instead of LocalClose or LocalAbort. Only the first of several reports counts. The session's
    /// thread only.
    /// </summary>
    /// <param name="error">Description of the violation. Its message follows the text "the peer broke the rules of the
    /// protocol: ".</param>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    protected void ReportProtocolError(Exception error)
    {
        ArgumentNullException.ThrowIfNull(error);
        // A connection that has not ended has no reason yet, so the field is free to carry this one.
        if (_endReason.Cause == CloseCause.None) _endReason = new CloseReason(CloseCause.ProtocolError, 0, error);
    }

    /// <summary>Reports a diagnostic event with the error passed to <see cref="ReportProtocolError"/>.</summary>
    internal void NoteMismatch()
    {
        if (_endReason is { Cause: CloseCause.ProtocolError, Exception: { } error }) _host?.NoteMismatch(this, error);
    }

    internal void NoteOpenCalls(int open, double seconds) => _host?.NoteOpenCalls(this, open, seconds);

    /// <summary>Replaces the reason of a local close or abort by the reported protocol error.</summary>
    private CloseReason ReasonFor(CloseReason reason) =>
        _endReason.Cause == CloseCause.ProtocolError && reason.Cause is CloseCause.LocalClose or CloseCause.LocalAbort
            ? _endReason
            : reason;

    internal void CloseWith(CloseReason reason)
    {
        reason = ReasonFor(reason);
        if (_connection is not { } connection)
        {
            RunningPool?.EndInput();
            return;
        }

        if (connection.Loop.IsCurrent)
        {
            if (connection.Generation == _generation) connection.CloseWith(reason);
            return;
        }

        if (PoolSession.CurrentOf(connection, _generation) is { } pool) pool.EndHere(reason);
        // Later sends of this caller are rejected from here on; the close itself is queued after earlier sends
        // (contract 7).
        connection.Outbound.CloseForeign(_generation);
        connection.Loop.Mailbox.PostInOrder(InboxKind.Close, connection, _generation,
            reason.Cause == CloseCause.LocalClose ? null : reason);
    }

    /// <summary>
    /// Closes gracefully, as <see cref="Close()"/> does, and completes with the reason when the connection has ended,
    /// after the last callback. Completes at once if the connection has ended or never existed. If a callback of the
    /// session itself blocks on it (on the pool: <c>CloseAsync().AsTask().Wait()</c>), it completes before the last
    /// callback, which runs when that callback has returned.
    /// </summary>
    /// <param name="cancellationToken">If cancelled, the connection is aborted, and the task is cancelled when the
    /// connection has ended.</param>
    public ValueTask<CloseReason> CloseAsync(CancellationToken cancellationToken = default)
    {
        if (_loop is null) return default;
        EndWait wait = new(this, cancellationToken);
        ValueTask<CloseReason> task = wait.Task;
        return TryClose(wait) ? task : new(_endReason);
    }

    /// <summary>
    /// Same as <see cref="CloseAsync"/> without the reason, for wrappers of a connection. Allocates one object.
    /// </summary>
    internal ValueTask CloseAndAwait()
    {
        EndWait wait = new(this, default);
        ValueTask task = wait.PlainTask;
        return TryClose(wait) ? task : default;
    }

    private bool TryClose(EndWait wait)
    {
        if (!TryAwaitEnd(wait)) return false;
        BeginClose(isBlocking: false);
        wait.Watch();
        return true;
    }

    /// <summary>
    /// Completes with the reason when this session has ended, after its last callback; does not end it. After a
    /// hand-over the reason is <see cref="CloseCause.HandedOver"/>, while the connection continues. Completes at once
    /// if the session has ended. Any thread.
    /// </summary>
    /// <exception cref="InvalidOperationException">The session has no connection yet.</exception>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    public ValueTask<CloseReason> EndedAsync()
    {
        EndWait wait = new(this, default);
        ValueTask<CloseReason> task = wait.Task;
        return TryAwaitEnd(wait) ? task : new(_endReason);
    }

    /// <summary>Returns false if the session has ended.</summary>
    private bool TryAwaitEnd(EndWait wait)
    {
        do
        {
            wait.Next = Volatile.Read(ref _endWaits);
            if (ReferenceEquals(wait.Next, EndWait.Over)) return false;
        }
        while (!ReferenceEquals(Interlocked.CompareExchange(ref _endWaits, wait, wait.Next), wait.Next));
        return true;
    }

    /// <summary>
    /// Closes like <see cref="CloseAsync"/> and blocks until the end: for callbacks of other sessions on the pool and
    /// for threads of the application. If the connection has not ended in time, it is aborted. Inside a callback of the
    /// session itself it returns before the last callback. Throws <see cref="InvalidOperationException"/> on a loop.
    /// </summary>
    /// <param name="timeout">Maximum time to wait. With <see cref="Timeout.InfiniteTimeSpan"/> only the limits of the
    /// options apply.</param>
    /// <returns>The reason of the end; cause None if there never was a connection.</returns>
    /// <exception cref="NetworkException">Category Timeout: the session has not ended one second after the abort. The
    /// message names the callback that is still running.</exception>
    public CloseReason CloseAndWait(TimeSpan timeout)
    {
        Engine.CheckWait(timeout);
        if (_loop is not { } loop) return default;
        EndWait wait = new(this, default);
        if (!TryAwaitEnd(wait)) return _endReason;
        BeginClose(isBlocking: true);
        if (wait.SignalWhenCompleted() is { } signal && !loop.Engine.Block(signal, timeout))
        {
            Abort();
            if (!loop.Engine.Block(signal, Engine.StopGrace))
            {
                List<UnfinishedCall> found = [];
                loop.AddUnfinishedTurn(found);
                if (_host is { } host) loop.AddUnfinishedOnPool(found, host);
                throw Engine.OverdueError("The session has not ended", found);
            }
        }

        return wait.GetResult(wait.Version);
    }

    /// <summary>
    /// Ends the connection at once: discards queued data and resets. On Unix sockets the peer usually reads an ordinary
    /// end of file, because Linux reports no reset there (docs/limits.md). Any thread.
    /// </summary>
    public void Abort() => AbortWith(new CloseReason(CloseCause.LocalAbort));

    internal void AbortWith(CloseReason reason)
    {
        reason = ReasonFor(reason);
        if (_connection is not { } connection)
        {
            RunningPool?.EndInput();
            return;
        }

        if (connection.Loop.IsCurrent)
        {
            if (connection.Generation == _generation) connection.AbortWith(reason);
            return;
        }

        connection.Outbound.AbortForeign(PoolSession.CurrentOf(connection, _generation)?.EndHere(reason) ?? reason,
            _generation);
    }

    /// <summary>
    /// Shuts down the sending side: sends queued data, then FIN. Receiving continues until the peer finishes. Later
    /// sends return <see cref="SendResult.Closed"/>.
    /// </summary>
    public void ShutdownSend() => BeginShutdownSend();

    /// <summary>
    /// Performs <see cref="ShutdownSend"/>. Override it, like <see cref="BeginClose"/>, in a protocol that sends a
    /// message at the end of its sending side. Any thread.
    /// </summary>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    protected virtual void BeginShutdownSend()
    {
        if (_connection is not { } connection) return;
        if (connection.Loop.IsCurrent)
        {
            if (connection.Generation == _generation) connection.ShutdownSend();
            return;
        }

        if (PoolSession.CurrentOf(connection, _generation) is { } pool) pool.FinishHere();
        connection.Outbound.CloseForeign(_generation);
        connection.Loop.Mailbox.PostInOrder(InboxKind.ShutdownSend, connection, _generation);
    }

    // ------------------------------------------------------------------ receiving

    /// <inheritdoc/>
    public void PauseReceiving()
    {
        PoolOfThis()?.Strand.Hold(ReceiveGate.User);
        OnConnectionLoop(static c => c.PauseReceiving());
    }

    /// <inheritdoc/>
    public void ResumeReceiving()
    {
        OnConnectionLoop(static c => c.ResumeReceiving());
        PoolOfThis()?.Strand.Release(ReceiveGate.User);
    }

    /// <summary>
    /// True between <see cref="PauseReceiving"/> and <see cref="ResumeReceiving"/>. A protocol that finds several
    /// messages in received data leaves the rest unconsumed while this is true; they are passed again. Any thread;
    /// exact on the session's thread.
    /// </summary>
    public bool IsReceivingPaused =>
        PoolOfThis() is { } pool
            ? pool.IsPaused
            : _connection is { } connection && connection.Generation == _generation && connection.IsPaused;

    /// <summary>
    /// Delays the next <see cref="OnData"/> until this many bytes are unread or the peer has finished. Applies once.
    /// Inside a callback only.
    /// </summary>
    /// <param name="count">Minimum number of bytes, 1 to <see cref="ConnectionLimits.UnreadBytes"/>.</param>
    protected void SetMinimumBytes(int count)
    {
        if (RunningPool is { } pool)
        {
            pool.SetMinimumBytes(count);
            return;
        }

        if (_connection is not { } connection) return;
        PoolHere(connection, nameof(SetMinimumBytes));
        connection.SetMinimumBytes(count);
    }

    /// <summary>
    /// Returns the data of the running <see cref="OnReceived"/> or <see cref="OnData"/>, or a part of it, as writable
    /// memory, for protocols that decode in place. Bytes left unconsumed are passed again as changed, also to the next
    /// session of a hand-over, so remember how far they are decoded. Valid during the call only.
    /// </summary>
    /// <param name="received">Span passed to the callback, or a slice of it.</param>
    /// <returns>The same bytes, writable.</returns>
    /// <exception cref="InvalidOperationException">The span is not data of the running callback, or no such callback of
    /// the session runs on this thread.</exception>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    protected Span<byte> Writable(ReadOnlySpan<byte> received)
    {
        if (RunningPool is { } pool) return pool.Writable(received);
        return _loop is { IsCurrent: true } loop
            ? loop.Offered.Writable(received)
            : default(OfferedBytes).Writable(received);
    }

    /// <summary>Number of bytes received and not consumed yet. The session's thread.</summary>
    protected int UnreadCount => _connection is not { } connection
        ? 0
        : PoolSession.CurrentOf(connection, _generation)?.UnreadCount ?? connection.UnreadCount;

    // ------------------------------------------------------------------ hand-over, timers, broadcasts

    [DoesNotReturn]
    private static void ThrowHandedOver() => Throw.State("The session has handed its connection over already: what was "
        + "posted to it still runs, and cannot give it to another one.");

    /// <summary>
    /// Transfers the connection to another session when the running callback has returned. This session gets
    /// <c>OnDisconnected(HandedOver)</c>, the next one OnConnected and then the unread bytes. Id, groups, send queue
    /// and counters stay. Before OnConnected, this session gets <c>OnConnectFailed(HandedOver)</c>, and the next one
    /// the remaining callbacks: OnTlsHandshakeCompleted, if TLS is used and it was not called yet, then OnConnected or
    /// OnConnectFailed. A close in the same callback has precedence. The session's thread only.
    /// </summary>
    /// <param name="next">Session that has no connection yet.</param>
    /// <param name="holdsSends">True to hold what this callback sends from here on, and all later sends, until the next
    /// session's OnConnected has returned. A peer that receives the answer that starts the next protocol is then
    /// already in the groups that OnConnected joins. The hold ends earlier if OnConnected calls <see cref="Flush"/>, or
    /// if code waits for queue space or for data to be sent.</param>
    /// <exception cref="InvalidOperationException">Called in a callback of the end (OnDisconnecting, OnDisconnected,
    /// OnConnectFailed, OnError), in a posted action that runs after the callback that has handed over, or twice in one
    /// callback.</exception>
    protected void HandOver(Session next, bool holdsSends = false)
    {
        ArgumentNullException.ThrowIfNull(next);
        if (next._connection is not null || next._host is not null)
            Throw.State("The next session has, or had, a connection of its own.");
        if (_isEnding)
            Throw.State("The session is ending, or has ended: its connection cannot be handed over any more.");
        // An earlier callback has handed over; posts to this session run before the next session gets the connection.
        if (PoolSession.Current is { IsSwitching: true } giving && giving.Runs(this)) ThrowHandedOver();
        if (_connection is not { } connection)
        {
            // The connection is gone and its last data waits for delivery; a session that gives it away must not
            // receive it.
            RunningPool?.EndInput();
            return;
        }

        PoolSession? pool = PoolHere(connection, nameof(HandOver));
        if (pool is null && connection.IsHandingOver) ThrowHandedOver();
        if (pool is not null) pool.HandOver(next, holdsSends);
        else connection.HandOver(next, holdsSends);
    }

    /// <summary>
    /// Replaces <see cref="RemoteEndPoint"/> and <see cref="LocalEndPoint"/> by the addresses that a trusted proxy
    /// reported, also for sessions that take the connection over. The server's limits and filters have already seen the
    /// connection's own address, and <see cref="Socket"/> still has it. The session's thread.
    /// </summary>
    /// <param name="remote">Address of the client; null keeps the current one.</param>
    /// <param name="local">Address that the client connected to; null keeps the current one.</param>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    protected void ReplaceEndPoints(EndPoint? remote, EndPoint? local)
    {
        if (remote is not null) Volatile.Write(ref _remoteEndPoint, remote);
        if (local is not null) Volatile.Write(ref _localEndPoint, local);
    }

    /// <summary>
    /// Starts TLS on this connection (STARTTLS): as the server if the connection was accepted, as the client otherwise.
    /// Queued data is sent in the clear first; later sends wait for the handshake. Takes effect when the running
    /// callback has returned: by default bytes that it left unread are refused, which ends the connection; later bytes
    /// are cipher text. Ends with <see cref="OnTlsHandshakeCompleted"/> or a close with
    /// <see cref="CloseCause.TlsHandshake"/>. The session's thread only.
    /// </summary>
    /// <remarks>
    /// With <see cref="Scheduling.ThreadPool"/> bytes may arrive while the callback runs; those that came before the
    /// call count as unread. So send the message that asks the peer to begin in the same callback, right before this
    /// call, with a plain Send of up to 32 KiB. It then leaves together with the upgrade. On <see cref="Close()"/>
    /// during the handshake, earlier sends still leave, encrypted, after the handshake; OnTlsHandshakeCompleted is not
    /// called then. A failed handshake is the reason of the end. With nothing to send, Close does not wait for the
    /// handshake.
    /// </remarks>
    /// <param name="options">TLS options. Checked at the first use of the object and cached with it, so pass the same
    /// object for each connection. Throws <see cref="ArgumentException"/> with all mistakes.</param>
    /// <param name="unread">Treatment of unread bytes.</param>
    protected void UpgradeToTls(TlsOptions options, UnreadBytes unread = UnreadBytes.Refuse) =>
        Upgrade(options, unread, null);

    /// <summary>
    /// Upgrades like <see cref="UpgradeToTls"/>, and completes after OnTlsHandshakeCompleted (after a Close: when the
    /// handshake is done). Fails with <see cref="NetworkException"/> if the connection ends before.
    /// </summary>
    /// <param name="options">Same as in <see cref="UpgradeToTls"/>.</param>
    /// <param name="unread">Same as in <see cref="UpgradeToTls"/>.</param>
    protected ValueTask<TlsInfo> UpgradeToTlsAsync(TlsOptions options, UnreadBytes unread = UnreadBytes.Refuse)
    {
        Completion<TlsInfo> done = new(Loop.Engine);
        Upgrade(options, unread, done);
        return done.Task;
    }

    private void Upgrade(TlsOptions options, UnreadBytes unread, Completion<TlsInfo>? done)
    {
        ArgumentNullException.ThrowIfNull(options);
        if (!Enum.IsDefined(unread)) Throw.OutOfRange(nameof(unread), unread, "Refuse or PassToTls");
        // On the pool the connection may end while the callback runs; its last callback then reports the failed
        // upgrade.
        if (RunningPool is { } pool)
        {
            pool.UpgradeToTls(new TlsUpgrade(ProfileForUpgrade(options, pool.IsAccepting, pool.ConnectedHost),
                unread, done));
            return;
        }

        if (_connection is not { } connection) throw Throw.NoConnection();
        PoolHere(connection, nameof(UpgradeToTls));
        if (connection.Generation != _generation) throw Throw.NoConnection();
        connection.UpgradeToTls(new TlsUpgrade(
            ProfileForUpgrade(options, connection.Host.IsAccepting, connection.ConnectedHost), unread, done));
    }

    private static TlsProfile ProfileForUpgrade(TlsOptions options, bool isServer, string? connectedHost)
    {
        TlsProfile profile = TlsSelector.PrepareForUpgrade(options, isServer);
        if (!isServer && connectedHost is null && options.NeedsHostName)
            throw new ArgumentException(
                "TlsOptions.HostName is missing: the address has no host name that a certificate could cover.",
                nameof(options));
        return profile;
    }

    /// <summary>
    /// Starts a timer that calls <see cref="OnTimer"/> until it is cancelled or the connection ends. The session's
    /// thread only.
    /// </summary>
    /// <param name="due">Time until the first call.</param>
    /// <param name="period">Interval between calls; zero for a single call.</param>
    protected LoopTimer StartTimer(TimeSpan due, TimeSpan period = default) =>
        NewTimer(period).Started(due, period);

    /// <summary>
    /// Starts a timer for a wall-clock time, converted to the monotonic clock now: later changes of the wall clock do
    /// not move it. The session's thread only.
    /// </summary>
    /// <param name="due">Time of the first call; a time in the past means the next turn.</param>
    /// <param name="period">Interval between calls; zero for a single call.</param>
    protected LoopTimer StartTimer(DateTimeOffset due, TimeSpan period = default) =>
        NewTimer(period).Started(due, period);

    private LoopTimer NewTimer(TimeSpan period)
    {
        // On the pool the connection may have ended while the callback runs; the timer then never fires.
        if (RunningPool is null)
        {
            if (_connection is not { } connection) throw Throw.NoConnection();
            PoolHere(connection, nameof(StartTimer));
        }

        return new LoopTimer(Loop, this) { PeriodMs = Loop.PeriodMsOf(period) };
    }

    bool ITimerOwner.Add(LoopTimer timer) => _connection?.AddTimer(timer) == true;

    void ITimerOwner.Remove(LoopTimer timer) => _connection?.RemoveTimer(timer);

    void ITimerOwner.Fire(LoopTimer timer) => _connection?.FireTimer(timer);

    /// <summary>
    /// Class with which the session joins groups (<see cref="SessionGroup.Join(Session, int)"/>), 0 to 15. A protocol
    /// with its own message format returns the number of that format, so that a broadcast is encoded once for all
    /// members that share it. Default 0: no class. Called on any thread that joins the session.
    /// </summary>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    protected internal virtual int MemberClass => 0;

    /// <summary>
    /// For protocols: reason why a broadcast of plain bytes would corrupt the peer's stream, and the member to use
    /// instead. Every <c>Broadcast</c> without an encoder throws with this sentence, on each group that such a session
    /// has joined and on the group of all sessions of its server. Default null: plain bytes are allowed. Any thread.
    /// </summary>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    protected internal virtual string? BroadcastRefusal => null;

    /// <summary>Whether broadcasts are queued, held or skipped for this session. The session's thread only.</summary>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    protected BroadcastGate BroadcastGate
    {
        get => _connection is not { } connection
            ? BroadcastGate.Shut
            : PoolSession.CurrentOf(connection, _generation)?.Sends.BroadcastGate ?? connection.Outbound.BroadcastGate;
        set
        {
            if (_connection is not { } connection) return;
            if (PoolHere(connection, nameof(BroadcastGate)) is { } pool) pool.Sends.BroadcastGate = value;
            else connection.Outbound.SetBroadcastGate(value);
        }
    }

    // ------------------------------------------------------------------ overrides

    /// <summary>
    /// Called first. The session has an id and, if accepted, a peer; nothing can be sent yet. Close here rejects the
    /// connection.
    /// </summary>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    protected virtual void OnConnecting()
    {
    }

    /// <summary>
    /// Called when the socket is connected and TLS begins, before its first byte is sent or read: after OnConnecting,
    /// or, after <see cref="UpgradeToTls"/>, between two callbacks. The end points are known. Nothing can be sent yet;
    /// in an upgrade, sends wait for the handshake. Close here ends the connection. Not called if the server's factory
    /// receives the connection, because the session is then created later. Its duration does not count against
    /// <see cref="TlsOptions.HandshakeTimeout"/>.
    /// </summary>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    protected virtual void OnTlsHandshakeStarting()
    {
    }

    /// <summary>
    /// Called when the TLS handshake is done: right before OnConnected, or, after <see cref="UpgradeToTls"/>, between
    /// two callbacks. Data sent here leaves encrypted, before the data that OnConnected sends. To reject a peer with a
    /// valid certificate, close here. Before OnConnected its last callback is then OnConnectFailed, after the data sent
    /// here has left.
    /// </summary>
    /// <param name="info">Result of the handshake; also in <see cref="Tls"/>.</param>
    protected virtual void OnTlsHandshakeCompleted(TlsInfo info)
    {
    }

    /// <summary>
    /// Called when the connection is ready: sends are accepted, and data that the peer has already sent is delivered
    /// next.
    /// </summary>
    protected virtual void OnConnected()
    {
    }

    /// <summary>
    /// Called last if the connect attempt failed, or if the connection ended or was handed over before it was
    /// connected.
    /// </summary>
    /// <param name="reason">Reason of the failure.</param>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    protected virtual void OnConnectFailed(CloseReason reason)
    {
    }

    /// <summary>
    /// Called with received data, all of which counts as consumed. Override <see cref="OnData"/> to leave some of it,
    /// or <see cref="OnReceivedAsync"/>, which the default calls, to await.
    /// </summary>
    /// <param name="data">Received bytes. Valid during the call only.</param>
    protected virtual void OnReceived(ReadOnlySpan<byte> data) => StartReceivedAsync(data);

    /// <summary>
    /// Called with all unconsumed bytes. The default passes them to <see cref="OnReceived"/> and consumes them all.
    /// </summary>
    /// <param name="unread">Unconsumed bytes of the previous call, followed by newly received bytes. Valid during the
    /// call only.</param>
    /// <returns>Number of bytes consumed, from the start. The rest is passed again when more arrives.</returns>
    protected virtual int OnData(ReadOnlySpan<byte> unread)
    {
        OnReceived(unread);
        return unread.Length;
    }

    /// <summary>
    /// Called when the peer has shut down its sending side. The default closes. An override that does not close keeps
    /// this side open until <see cref="ShutdownSend"/> or <see cref="Close()"/>.
    /// </summary>
    protected virtual void OnEndOfStream() => Close();

    /// <summary>
    /// Called before a message is queued. Runs on the sending thread inside its call, which receives exceptions thrown
    /// here; several threads may call it at the same time. Not called for broadcasts (see <see cref="BroadcastGate"/>).
    /// An override makes every send of this class slower.
    /// </summary>
    /// <param name="bytes">Length of the message in bytes.</param>
    /// <returns>True to queue the message; false to reject it: <c>Send</c> then returns
    /// <see cref="SendResult.Refused"/>.</returns>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    protected virtual bool OnSending(long bytes) => true;

    /// <summary>
    /// Called when the kernel has accepted bytes of this connection: of one message, of several, or of a part. Never
    /// called inside another callback, and not after <see cref="Close()"/>. Costs nothing for classes that do not
    /// override it.
    /// </summary>
    /// <param name="sent">Number of bytes since the last call.</param>
    /// <param name="pending">Number of bytes still pending: <see cref="BytesPending"/>.</param>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    protected virtual void OnSent(long sent, long pending)
    {
    }

    /// <summary>
    /// Called when the end has begun: sends are rejected from now on, and no more data is delivered. Exactly once
    /// before OnDisconnected, for sessions that were connected. After a Close it runs in the loop's next step, while
    /// queued data is still being sent. After a Close that waits for the handshake of an upgrade it runs when the
    /// handshake has ended. After an abrupt end and in a hand-over it runs right before OnDisconnected. Never inside
    /// another callback.
    /// </summary>
    /// <param name="reason">First cause of the end, as in OnDisconnected.</param>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    protected virtual void OnDisconnecting(CloseReason reason)
    {
    }

    /// <summary>
    /// Called each time the kernel has accepted all queued data, or, with a <see cref="LowWaterMarkBytes"/>, each time
    /// the pending bytes fall to that mark. Data sent here leads to another call. Also called with an empty queue when
    /// space is available again after a send of another thread was rejected because of
    /// <see cref="EngineOptions.MailboxLimitBytes"/>. Never inside another callback, and not after
    /// <see cref="Close()"/>. Costs nothing for classes that do not override it.
    /// </summary>
    protected virtual void OnDrained()
    {
    }

    /// <summary>
    /// Called once, for connected sessions, when the server stops with a deadline. The default closes with cause
    /// <see cref="CloseCause.ServerStopped"/>. An override may send a last message, or finish its work and close later;
    /// connections still open at the deadline are reset.
    /// </summary>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    protected virtual void OnServerStopping() => CloseWith(new CloseReason(CloseCause.ServerStopped));

    /// <summary>Called last and exactly once, when the connection has ended.</summary>
    /// <param name="reason">First cause of the end.</param>
    protected virtual void OnDisconnected(CloseReason reason)
    {
    }

    /// <summary>Called when a timer of this session fires.</summary>
    /// <param name="timer">Timer returned by <see cref="StartTimer(TimeSpan, TimeSpan)"/>. It may be started
    /// again.</param>
    protected virtual void OnTimer(LoopTimer timer)
    {
    }

    /// <summary>
    /// Called when an override of this session has thrown; the connection ends after this call. Also called by
    /// <see cref="ReportException"/> when code called by a protocol, such as a handler, has thrown; the connection then
    /// continues. The default reports a diagnostic event, at most once a minute per override, class and exception type,
    /// with the number of suppressed diagnostic events. The exception is counted in any case
    /// (<see cref="ServerCounters.UserExceptions"/>, <see cref="Engine.UserExceptionCount"/>).
    /// </summary>
    /// <param name="exception">Exception that was thrown.</param>
    protected virtual void OnError(Exception exception) =>
        _host?.NoteUserException(this, t_threw ?? "An override", exception, t_isCaught, t_advice, t_outcome);

    /// <summary>
    /// For protocols on top of sessions: reports an exception of application code that the protocol has caught. It is
    /// counted like an exception of an override and passed to <see cref="OnError"/>; its diagnostic event names the
    /// code. The connection does not end by this call. The session's thread only.
    /// </summary>
    /// <param name="exception">Exception that was thrown.</param>
    /// <param name="what">Name of the code that threw, as the beginning of a sentence: <c>The handler of GET
    /// /stock</c>. Use few different names, because diagnostic events are rate-limited by it.</param>
    /// <param name="advice">Last sentence of the diagnostic event: how the protocol's user can handle such exceptions.
    /// Empty for none. Default: the <see cref="OnError"/> override, if the session's class is not of this
    /// library.</param>
    /// <param name="outcome">Sentence of the diagnostic event that says what the peer receives: <c>The client gets
    /// 500.</c> Null: the connection continues.</param>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    protected void ReportException(Exception exception, string what, string? advice = null, string? outcome = null)
    {
        ArgumentNullException.ThrowIfNull(exception);
        ArgumentException.ThrowIfNullOrEmpty(what);
        CountException(exception);
        (t_threw, t_isCaught, t_advice, t_outcome) = (what, true, advice, outcome);
        try
        {
            OnError(exception);
        }
        finally
        {
            (t_threw, t_isCaught, t_advice, t_outcome) = (null, false, null, null);
        }
    }

    private void CountException(Exception exception)
    {
        Loop.Engine.UserCodeThrew(exception);
        _host?.CountUserException();
    }

    /// <summary>Returns the id and the peer, for logs.</summary>
    public override string ToString() => $"session {Id:x} ({RemoteEndPoint?.ToString() ?? "unnamed peer"})";

    // ------------------------------------------------------------------ for the connection

    internal Connection? Connection => _connection;

    internal uint Generation => _generation;

    /// <summary>Address of the peer, without allocating <see cref="RemoteEndPoint"/>.</summary>
    internal PeerAddress Peer => _remote;

    /// <summary>State that the server or client keeps with the session.</summary>
    internal object? HostState { get; set; }

    internal void CallConnecting()
    {
        using CallbackScope scope = ScopeOfOverride();
        OnConnecting();
    }

    internal void SetTls(TlsInfo info) => Volatile.Write(ref _tls, info);

    internal void CallTlsHandshakeStarting()
    {
        using CallbackScope scope = ScopeOfOverride();
        OnTlsHandshakeStarting();
    }

    internal void CallTlsHandshakeCompleted()
    {
        using CallbackScope scope = ScopeOfOverride();
        OnTlsHandshakeCompleted(_tls!);
    }

    internal void CallConnected()
    {
        AwaitsConnected = false;
        using CallbackScope scope = ScopeOfOverride();
        OnConnected();
    }

    internal int CallUnread(ReadOnlySpan<byte> unread)
    {
        int taken = _intake is { } intake ? intake.Take(this, unread) : OnData(unread);
        // Read again: the callback may have ended one body and started the next.
        _intake?.Offered(this, unread.Length - taken);
        return taken;
    }

    internal void CallConnectFailed(CloseReason reason)
    {
        _isEnding = true;
        EndIntake(reason);
        using CallbackScope scope = ScopeOfOverride();
        OnConnectFailed(reason);
    }

    internal void CallEndOfStream()
    {
        if (_intake?.TakesFinish(this) == true) return;
        if (UnfinishedBytes is > 0 and int count) _host?.NoteUnfinished(this, count);
        using CallbackScope scope = ScopeOfOverride();
        OnEndOfStream();
    }

    internal void CallDisconnecting(CloseReason reason)
    {
        _isEnding = true;
        EndIntake(reason);
        using CallbackScope scope = ScopeOfOverride();
        OnDisconnecting(reason);
    }

    internal void CallServerStopping()
    {
        using CallbackScope scope = ScopeOfOverride();
        OnServerStopping();
    }

    internal void CallDisconnected(CloseReason reason)
    {
        (_receiving as AsyncReceive)?.SessionEnds(_host!);
        using CallbackScope scope = ScopeOfOverride();
        OnDisconnected(reason);
    }

    internal void CallTimer(LoopTimer timer)
    {
        using CallbackScope scope = ScopeOfOverride();
        OnTimer(timer);
    }

    internal bool CallSending(long bytes) => OnSending(bytes);

    internal void CallSent()
    {
        using CallbackScope scope = ScopeOfOverride();
        OnSent(RunningPool?.TakeSent() ?? _connection!.TakeSent(), PendingBytes);
    }

    internal void CallDrained()
    {
        using CallbackScope scope = ScopeOfOverride();
        OnDrained();
    }

    /// <summary>Returns the hooks that this class overrides: those that are declared in another type than
    /// Session.</summary>
    internal SessionHooks FindHooks()
    {
        if (s_hooks.TryGetValue(GetType(), out object? known)) return (SessionHooks)known;
        SessionHooks hooks = SessionHooks.None;
        if (IsOverride((Action<long, long>)OnSent)) hooks |= SessionHooks.Sent;
        if (IsOverride((Action)OnDrained)) hooks |= SessionHooks.Drained;
        if (IsOverride((Func<long, bool>)OnSending)) hooks |= SessionHooks.Sending;
        if (IsOverride((Func<ReadOnlyMemory<byte>, ValueTask>)OnReceivedAsync)) hooks |= SessionHooks.ReceivedAsync;
        if (IsOverride((Action)OnTlsHandshakeStarting)) hooks |= SessionHooks.Handshaking;
        if (HasAsyncVoid()) hooks |= SessionHooks.AsyncVoid;
        s_hooks.AddOrUpdate(GetType(), hooks);
        return hooks;
    }

    /// <summary>
    /// Returns whether an override is <c>async void</c>; called once for each class. The compiler marks async methods.
    /// </summary>
    private bool HasAsyncVoid()
    {
        ReadOnlySpan<Delegate> overrides =
        [
            (Action)OnConnecting, (Action)OnTlsHandshakeStarting, (Action<TlsInfo>)OnTlsHandshakeCompleted,
            (Action)OnConnected, (Action<CloseReason>)OnConnectFailed, (Action)OnEndOfStream,
            (Action<long, long>)OnSent,
            (Action<CloseReason>)OnDisconnecting, (Action)OnDrained, (Action)OnServerStopping,
            (Action<CloseReason>)OnDisconnected, (Action<LoopTimer>)OnTimer, (Action<Exception>)OnError,
        ];
        foreach (Delegate method in overrides)
        {
            if (IsOverride(method) && method.Method.IsDefined(typeof(AsyncStateMachineAttribute), inherit: false))
                return true;
        }

        return false;
    }

    private CallbackScope ScopeOfOverride() =>
        (FindHooks() & SessionHooks.AsyncVoid) == 0 ? default : new CallbackScope(Loop.Engine);

    private static bool IsOverride(Delegate method) => method.Method.DeclaringType != typeof(Session);

    /// <summary>Where the callbacks run by the options of the server or client.</summary>
    internal Scheduling HostScheduling => _host?.Options.Scheduling ?? default;

    /// <summary>True if the callbacks run on the loop under every <see cref="Scheduling"/>.</summary>
    internal virtual bool StaysOnLoop => false;

    /// <summary>Completes all waits for the end.</summary>
    internal void TellEnded(CloseReason reason)
    {
        _endReason = reason;
        EndWait? wait = Interlocked.Exchange(ref _endWaits, EndWait.Over);
        while (wait is not null)
        {
            EndWait? next = wait.Next; // after completion it belongs to its awaiter
            wait.End(reason);
            wait = next;
        }
    }

    internal SendOperation? BeginSend(ReadOnlyMemory<byte> data, bool mayBeTakenBack, out SendResult result)
    {
        if (_connection is { } connection)
            return connection.Outbound.BeginSend(data, default, default, default, _generation, out result,
                mayBeTakenBack);
        result = SendResult.Closed;
        return null;
    }

    /// <summary>Begins a send of a sequence.</summary>
    internal SendOperation? BeginSend(in ReadOnlySequence<byte> data, out SendResult result)
    {
        if (data.IsSingleSegment) return BeginSend(data.First, mayBeTakenBack: false, out result);
        if (_connection is { } connection)
            return connection.Outbound.BeginSend(default, default, data, default, _generation, out result);
        result = SendResult.Closed;
        return null;
    }

    /// <summary>
    /// For a pool thread that sends answers and then returns to the pool: until the returned value is disposed, its
    /// sends and posts to any session do not wake a sleeping loop directly. See <see cref="WakeUpBatch"/>. Any thread;
    /// outside of the pool it has no effect.
    /// </summary>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    public WakeUpBatch BatchWakeUps() => _loop is { } loop ? new WakeUpBatch(loop.Engine) : default;

    /// <summary>
    /// Queues the message completely if it fits, otherwise returns <see cref="SendResult.Full"/> without applying the
    /// slow-consumer policy. Any thread.
    /// </summary>
    internal SendResult SendIfRoom(ReadOnlySpan<byte> data) =>
        _connection is { } connection ? connection.Outbound.Feed(data, _generation) : SendResult.Closed;

    internal void CallEndAfterException(Exception exception) => EndAfterException(exception);

    internal void CallError(Exception exception, string callback)
    {
        _isEnding = true;
        CountException(exception);
        if (callback == nameof(OnConnected)) _host?.SessionFailedToBegin(this, exception);
        t_threw = callback == nameof(OnReceived) ? ReceivingName : callback;
        using CallbackScope scope = ScopeOfOverride();
        OnError(exception);
    }

    /// <summary>Name of the override that receives data, for messages about its exceptions.</summary>
    internal virtual string ReceivingName => UserCode.IsOfUser(
        ((Func<ReadOnlySpan<byte>, int>)OnData).Method.DeclaringType!) ? nameof(OnData) : nameof(OnReceived);

    /// <summary>Number of unread bytes of an incomplete message. They are lost if the peer sends no more.</summary>
    internal virtual int UnfinishedBytes => 0;

    /// <summary>Name of the code that still runs after the session has ended, for messages of a stop.</summary>
    internal virtual string UnfinishedText => $"{nameof(OnReceivedAsync)} of {DisplayName}";

    /// <summary>True if code that a stop waits for has outlived its session. Any thread.</summary>
    internal virtual bool IsOrphan => true;

    /// <summary>Name of the session in messages.</summary>
    internal virtual string DisplayName => DiagnosticName;

    /// <summary>
    /// Name of this session in diagnostic events: the name of its class. A class that stands for an object of another
    /// library returns the name that users know. Called on any thread; must not throw.
    /// </summary>
    [EditorBrowsable(EditorBrowsableState.Advanced)]
    protected virtual string DiagnosticName => GetType().Name;

    /// <summary>Returns the name of a callback for diagnostic events.</summary>
    internal string TextOf(string callback) => $"{callback} of {DisplayName} (session {Id:x})";

    internal void Attach(Connection connection, long id, EndPoint? local, PeerAddress remote)
    {
        Id = id;
        _generation = connection.Generation;
        _remote = remote;
        _localEndPoint = local;
        _host = connection.Host;
        _loop = connection.Loop;
        Volatile.Write(ref _connection, connection);
    }

    // Another thread that asks at the same time must not overwrite the result of ReplaceEndPoints.
    private EndPoint? MakeRemoteEndPoint()
    {
        EndPoint? made = _remote.ToEndPoint();
        return Interlocked.CompareExchange(ref _remoteEndPoint, made, null) ?? made;
    }

    internal void SetRemoteEndPoint(EndPoint? remote) => _remoteEndPoint = remote;

    /// <summary>True if the connection is or was open for this session. Any thread.</summary>
    internal bool HasConnected => Volatile.Read(ref _connectedAtTicks) != 0;

    internal void SetConnectedAt(DateTimeOffset time) => _connectedAtTicks = time.UtcTicks;

    internal void SetLocalEndPoint(EndPoint? local) => _localEndPoint = local;

    internal void AttachByHandOver(Connection connection, Session old)
    {
        Attach(connection, old.Id, old._localEndPoint, old._remote);
        _remoteEndPoint = old._remoteEndPoint;
        _connectedAtTicks = old._connectedAtTicks;
        _tls = old._tls;
        HostState = old.HostState;
        AwaitsConnected = true;
    }

    /// <summary>True if the session took a connection over and its OnConnected was not called yet.</summary>
    internal bool AwaitsConnected { get; private set; }

    internal void DetachForHandOver()
    {
        Volatile.Write(ref _wasHandedOver, true);
        DetachForGood(BytesReceived, BytesSent);
    }

    internal void DetachForGood(long received, long sent)
    {
        _finalReceived = received;
        _finalSent = sent;
        Volatile.Write(ref _connection, null);
    }

    /// <summary>
    /// True if a callback of this session has handed the connection over: unread bytes belong to the next session. The
    /// session's thread.
    /// </summary>
    internal bool IsHandingOver => RunningPool is { } pool ? pool.HasNext : _connection is { HasNext: true };

    /// <summary>
    /// True if a callback on the loop may consume the next unread bytes. If false, the caller must check why.
    /// </summary>
    internal bool TakesMore => _connection is { TakesMore: true };

    /// <summary>True if a factory returned an object that was used before.</summary>
    internal bool IsUsed => _host is not null;

    /// <summary>
    /// The strand that runs a callback of this session on this thread, or null. On the pool the connection may end
    /// while the callback runs.
    /// </summary>
    private PoolSession? RunningPool => PoolSession.Current is { } pool && pool.Runs(this) ? pool : null;

    private PoolSession? PoolOfThis() =>
        RunningPool ?? (_connection?.Pool is { } pool && pool.Serves(_generation) ? pool : null);

    /// <summary>
    /// Returns the strand if callbacks run on the pool, or null if they run on the loop. Throws on any other thread.
    /// </summary>
    private PoolSession? PoolHere(Connection connection, string member)
    {
        if (connection.Pool is null)
        {
            if (!connection.Loop.IsCurrent) Throw.NotOnLoop(member);
            return null;
        }

        PoolSession? pool = PoolSession.CurrentOf(connection, _generation);
        if (pool is null) Throw.NotOnLoop(member);
        return pool;
    }

    private void OnConnectionLoop(Action<Connection> action)
    {
        if (_connection is not { } connection) return;
        if (connection.Loop.IsCurrent)
        {
            if (connection.Generation == _generation) action(connection);
            return;
        }

        connection.Loop.PostControl(
            static (_, c, a, g) =>
            {
                Connection target = (Connection)c!;
                if (target.Generation == (uint)g) ((Action<Connection>)a!)(target);
            },
            connection,
            action,
            _generation);
    }
}
