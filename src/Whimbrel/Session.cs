using System.Buffers;
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
/// The user's object on one connection: derive from it and override what you need. The same class serves accepted and
/// dialled connections on every transport.
/// </summary>
/// <remarks>
/// The contract, by number; each number has tests on every engine (docs/guarantees.md):
/// <list type="number">
/// <item>One session, one connection or dial attempt: <c>OnConnecting OnConnected (...)* OnDisconnected</c>, or
/// <c>OnConnecting OnConnectFailed</c>. OnDisconnected comes exactly once and last; the first cause wins. Between OnConnected
/// and OnDisconnected, exactly once, comes <see cref="OnDisconnecting"/>: when an end has begun and no other callback runs. With TLS it is
/// <c>OnConnecting OnTlsHandshakeStarting OnTlsHandshakeCompleted OnConnected</c>; where the server's factory sees the connection, all but OnTlsHandshakeStarting, behind the handshake.</item>
/// <item>Never two callbacks at once for one session, never one inside another. Until an <see cref="OnReceivedAsync"/> has completed nothing more is
/// received; other callbacks may come where it awaits.</item>
/// <item>Bytes that <see cref="OnData"/> does not take stay with the connection and come again, joined with what follows. What the reader of
/// a body (<see cref="StartBody"/>) did not take holds the session: nothing is delivered, the peer's end neither, until it asks for more.</item>
/// <item>An exception in an override goes to <see cref="OnError"/>, then ends that connection only. It is counted, and who does not override
/// OnError is told by a notice. Memory of the user's that throws when it is sent or given back ends that connection, too, without OnError.</item>
/// <item>A send is taken whole or not at all, and never throws after the end; before it, only for what can never be
/// sent so. Any thread may send, close and abort.</item>
/// <item><see cref="SendAsync(ReadOnlyMemory{byte}, CancellationToken)"/> waits for room, first come first served, and completes when little is pending and the connection has a part of the turn left (128 KiB, 256 KiB). Continuations run on the loop when awaited there, never inside the caller's stack.</item>
/// <item>For one calling thread and one session, sends, broadcasts and closes take effect in call order. What is sent on the session's loop goes behind what other threads have sent to
/// it before, and what another thread sends or broadcasts goes behind what a callback on the pool has sent before: so
/// an async function that goes on elsewhere, or comes back, keeps its order. The same goes for what the loop itself
/// broadcasts, behind what others have sent to the members before, and for what is posted to a loop
/// (<see cref="Loop.Post(Action)"/>), behind what its caller has sent, joined and broadcast before. What other
/// threads broadcast, join, leave or post takes effect when the loop gets to it, and so does
/// what they have sent to a session behind a join of it or a broadcast to a group that it is in.</item>
/// <item>The send queue has a limit and a policy, and a send of any thread is charged to them; <see cref="BytesPending"/> is true from the
/// moment a send returns. Beside it sends of other threads share <see cref="EngineOptions.MailboxLimitBytes"/>, met only when loops do not
/// get to them: <c>Full</c> then, whatever the policy, <c>SendAsync</c> waits, and <see cref="OnDrained"/> tells when
/// there is room. A message larger than the limit itself
/// can never fit: its <c>Send</c> throws under each policy and takes nothing, and the connection goes on;
/// <c>SendAsync</c> sends it in parts; a broadcast passes that member by, with a notice.</item>
/// <item>Natural back-pressure: a session whose own callbacks fill its queue is not read until the queue has drained. What it left unread
/// comes again then; the same for a session that left bytes when it had seen that something was pending (<see cref="IsAboveHighWaterMark"/>,
/// <see cref="BytesPending"/>, a send that was refused). A send of a callback that does not fit is first offered to the system: only when that takes no more is the peer slow.</item>
/// <item>After <see cref="PauseReceiving"/> on the session's thread nothing is delivered until <see cref="ResumeReceiving"/>, and <see cref="IsReceivingPaused"/> says so
/// until then, also while the connection ends under the callback. A hand-over leaves it paused.</item>
/// <item><see cref="OnEndOfStream"/> closes, unless it is overridden to keep this half open.</item>
/// <item><see cref="Close()"/> sends what is queued, then FIN, and waits within limits for the peer's, so that no reset destroys what the peer has not read;
/// <see cref="Close(bool)"/> knows that nothing will come, and waits only when something has come all the same. A class that says goodbye first (<see cref="BeginClose"/>) does so whatever
/// type its caller knows it by. <see cref="Abort"/> discards and resets; on Unix sockets the peer reads an ordinary
/// end then, unless this side had received bytes that it had not read, so what was cut off looks whole
/// there without framing or TLS. What the peer broke of a protocol's rules is the reason of what this side does about
/// it (<see cref="ReportProtocolError"/>). When its server stops with a
/// deadline, each session hears of it once by <see cref="OnServerStopping"/>, which closes unless it is overridden. A stop waits for
/// callbacks and for the handlers of streams, returns a second after its deadline at the latest, and reports what
/// still runs. What a reset of this side has cost is in
/// <see cref="CloseReason.BytesLost"/> and <see cref="CloseReason.WasReset"/>, and such an end is not <see
/// cref="CloseReason.IsGraceful"/>.</item>
/// <item>A span given to a callback is valid during the call only, memory given to OnReceivedAsync until its task has completed. Received bytes are
/// the session's alone: it may change them where they lie (<see cref="Writable"/>), and what it leaves unread comes again as changed.</item>
/// <item>Callbacks run on the loop and must not block; a watchdog reports a turn that takes too long, also while it lasts. With
/// <see cref="Scheduling.ThreadPool"/> they run on the pool, one after the other for each session, and may block: what
/// is received is copied, at most 128 KiB wait before reading stops, all sends of one callback leave together when it
/// returns, calls <see cref="Flush"/> or blocks on something of this library, what <see cref="SendAsync(ReadOnlyMemory{byte}, CancellationToken)"/> takes
/// leaves at once with what was sent before it, what was sent leaves earlier when another thread sends something for the session or broadcasts, and what was awaited in a callback goes on in the session's order, also with
/// <c>ConfigureAwait(false)</c>. A task made by <c>AsTask()</c> knows no such order: who awaits it goes on on the pool, and a callback may block
/// on it unless it needs that callback's own return; forms with a time limit block (<see cref="Close(TimeSpan)"/>, Server.Stop), and throw on a loop. "The session's thread" is then whatever thread runs the callback.</item>
/// <item><see cref="HandOver"/> gives the connection, unread bytes included, to the next session, from every callback but those of the end. Before
/// OnConnected the session that gives it away ends with OnConnectFailed, and the next one gets what is still to come; it has no OnConnecting. A stream or pipe that takes over lives on the loop, wherever the callbacks before it ran.</item>
/// <item><see cref="UpgradeToTls"/>: what was queued goes out plain, later sends wait for the handshake, bytes left unread are refused
/// unless they are passed on, and what arrives after the call is cipher text. It ends in <see cref="OnTlsHandshakeCompleted"/> or in a close. On the
/// pool "after" is when the call reaches the loop: what came before and no callback took is unread. A Close or ShutdownSend in
/// the handshake takes effect behind what was sent before it; when the handshake fails, that is the reason of the end.</item>
/// <item>Groups: join, leave and broadcast from any thread (<see cref="SessionGroup"/>). All loops take a broadcast or none does, and whoever is a
/// member from its beginning to its turn is served once, whatever predicates and notices change meanwhile. A broadcast with an encoder is written
/// once for each class of members, by its caller, before any loop has it.</item>
/// <item>What is posted to a session (<see cref="Post(Action)"/>) runs on its thread between two callbacks, behind what its caller has sent;
/// what was taken runs, before the session's last callbacks.</item>
/// <item>Time limits (<see cref="ReceiveTimeout"/>, <see cref="SendTimeout"/>, <see cref="IdleTimeout"/>, <see cref="BeginPhase"/>) are never early; what the
/// session itself is to blame for does not count against the peer. What has passed is told to <see cref="OnTimeout"/>, which ends the connection.</item>
/// <item>A part of a file (<see cref="FileSource"/>) is a message like any other, in its place among them. It is not in memory: it counts as 1 KiB
/// against the limit, with all its bytes as pending, and the file stays open until it has left or the connection has ended. When it
/// cannot be sent to its end the connection ends, with <see cref="CloseCause.FileFailed"/> and a reset.</item>
/// <item>What a <see cref="MessageWriter"/> holds belongs to no session. <see cref="Send(MessageWriter)"/> takes it as one message, and with any result but
/// <c>Queued</c> leaves it in the writer, whatever became of the session meanwhile. Memory of the writer never lies in what another one sends.</item>
/// <item>A pipe (<see cref="PipeTo"/>) gives every byte of one session to another, in order, and keeps none: while the target has more pending than its back-pressure mark
/// the source's peer waits, and nobody is judged slow. The peer's end is passed on, any other end of one ends the other, and the result says who ended and why.</item>
/// <item><see cref="SentAsync"/> completes exactly once, however the connection ends: true when the system has taken all that its caller had sent on
/// this session before the call, false when some of it was dropped, or may have been.</item>
/// </list>
/// Unless it says otherwise, a member may be used from any thread; callbacks come on the session's loop.
/// </remarks>
public abstract partial class Session : IConnection
{
    // Weak, so that it does not keep alive the classes of a plug-in that could be unloaded.
    private static readonly ConditionalWeakTable<Type, object> s_hooks = [];

    // Read in the same call: kept with each session it would be memory for what hardly happens.
    [ThreadStatic]
    private static string? t_threw;

    [ThreadStatic]
    private static bool t_isCaught; // by a protocol, which goes on

    [ThreadStatic]
    private static string? t_advice; // of that protocol, for the notice

    [ThreadStatic]
    private static string? t_outcome; // the same

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

    /// <summary>The loop this session lives on. Before it has a connection this throws.</summary>
    public Loop Loop => _loop ?? throw new InvalidOperationException("The session has no connection yet.");

    /// <summary>The server that accepted the connection, or null.</summary>
    public Server? Server => _host?.Owner as Server;

    /// <summary>The client that dialled, or null.</summary>
    public Client? Client => _host?.Owner as Client;

    /// <inheritdoc/>
    public EndPoint? LocalEndPoint => _localEndPoint;

    /// <inheritdoc/>
    public EndPoint? RemoteEndPoint => Volatile.Read(ref _remoteEndPoint) ?? MakeRemoteEndPoint();

    /// <inheritdoc/>
    public object? Tag { get; set; }

    /// <summary>When it was connected, in UTC; after a hand-over, when its connection was. Null before. Stays readable after the end.</summary>
    public DateTimeOffset? ConnectedAt => _connectedAtTicks == 0 ? null : new DateTimeOffset(_connectedAtTicks, TimeSpan.Zero);

    /// <summary>
    /// A Socket object over the connection's descriptor, for what has no member here: reading an option, an address, a control call. Made
    /// by the first call (or by <see cref="ConnectionOptions.CreateSocket"/>), on a duplicate of the descriptor, and disposed by the
    /// connection when it ends. Who sends, receives or shuts down by it takes bytes from, or adds them to, what this session has. Null while there is no
    /// connected socket, after the end, and on the memory engine. Any thread.
    /// </summary>
    /// <exception cref="NetworkException">With category Limit: there is no descriptor left for a duplicate.</exception>
    public Socket? Socket => _connection?.ShareSocket(_generation);

    /// <summary>True from OnConnected until the connection begins to end. Any thread; may have changed when it returns.</summary>
    public bool IsConnected => _connection is { IsOpen: true };

    /// <summary>What TLS agreed on, from <see cref="OnTlsHandshakeCompleted"/> on. Null on a plain connection. Stays readable after the end.</summary>
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

    /// <summary>The same for who only adds up: the session is not taken to know of it.</summary>
    internal long PendingBytes => _connection is { } connection && connection.Generation == _generation ? connection.BytesPending : 0;

    /// <summary>
    /// True while a session should queue no more: above 256 KiB are pending (a quarter of a smaller <see cref="ConnectionOptions.SendLimitBytes"/>),
    /// or it is not read until what is pending has left (contract 9). A session that answers many requests of one callback leaves the
    /// rest unread when this is true, and gets it again. Always false with <see cref="ConnectionOptions.BackPressure"/> off, and after the
    /// end. Any thread; exact on the session's thread.
    /// </summary>
    public bool IsAboveHighWaterMark
    {
        get
        {
            if (_connection is not { } connection || connection.Shard is not { } shard || !shard.Host.BackPressure) return false;
            bool isHeld = connection.IsAboveHighWaterMark || connection.Strand is { IsAboveHighWaterMark: true } || connection.BytesPending > connection.HoldMark;
            if (isHeld) KnowsOfQueue(connection);
            return isHeld;
        }
    }

    /// <summary>
    /// Most bytes that wait in this connection's send queue: at first <see cref="ConnectionOptions.SendLimitBytes"/>. A new limit is for the next send; what
    /// is pending stays, also when it is more. Belongs to the connection: after a hand-over the next session finds it. 0 without a connection. Set
    /// on the session's thread only.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">Not between 4 KiB and 1 GiB.</exception>
    public int SendLimitBytes
    {
        get => _connection is { } connection ? connection.SendLimit : 0;
        protected set
        {
            if (value is < ConnectionOptions.LeastSendLimit or > ConnectionOptions.MostSendLimit) Throw.OutOfRange(nameof(value), value, "between 4 KiB and 1 GiB");
            if (_connection is not { } connection) return;
            SetSendLimit(connection, value, connection.AllowsLargeMessages, nameof(SendLimitBytes));
        }
    }

    /// <summary>
    /// A message larger than <see cref="SendLimitBytes"/> is taken when nothing is pending: at first <see
    /// cref="ConnectionOptions.AllowLargeMessages"/>. Else
    /// <c>Send</c> throws, and <c>SendAsync</c> sends it in parts. Belongs to the connection. Set on the session's
    /// thread only.
    /// </summary>
    public bool AllowLargeMessages
    {
        get => _connection is { AllowsLargeMessages: true };
        protected set
        {
            if (_connection is not { } connection) return;
            SetSendLimit(connection, connection.SendLimit, value, nameof(AllowLargeMessages));
        }
    }

    private void SetSendLimit(Connection connection, int bytes, bool allowsLarge, string member)
    {
        if (StrandHere(connection, member) is { } strand) strand.SetSendLimit(bytes, allowsLarge);
        else if (connection.Generation == _generation) connection.SetSendLimit(bytes, allowsLarge);
    }

    /// <summary>
    /// <see cref="OnDrained"/> comes when what is pending has fallen to so many bytes: a session that produces as it is drained sets this to what should
    /// still be there while it makes more. 0, the default: when nothing is pending.
    /// </summary>
    /// <exception cref="ArgumentOutOfRangeException">Negative.</exception>
    public int LowWaterMarkBytes
    {
        get => _drainMark;
        protected set
        {
            if (value < 0) Throw.OutOfRange(nameof(value), value, "0 or more");
            Volatile.Write(ref _drainMark, value);
        }
    }

    /// <summary>Inside a callback of this session: what it leaves unread now, it leaves because of that.</summary>
    private void KnowsOfQueue(Connection connection)
    {
        if (!connection.Loop.IsCurrent) Strand.CurrentOf(connection, _generation)?.KnowsOfQueue();
        else if (connection.Generation == _generation) connection.KnowsOfQueue();
    }

    /// <summary>Bytes received so far. Exact on the session's thread and after the end.</summary>
    public long BytesReceived => _connection?.BytesReceived ?? _finalReceived;

    /// <summary>Bytes given to the system so far. Exact on the session's thread and after the end.</summary>
    public long BytesSent => _connection?.BytesSent ?? _finalSent;

    /// <summary>The groups it is in now, without <see cref="Server.Sessions"/>: a copy, in no order. On the session's loop only, also when its callbacks run on the pool: post there.</summary>
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

    /// <summary>Queues a copy of the bytes, whole or not at all. Inside a callback it costs a comparison and a copy; all sends of a turn leave in one system call.</summary>
    /// <param name="data">What to send. Free to be reused at once.</param>
    /// <exception cref="ArgumentException">More than <see cref="SendLimitBytes"/>, without <see
    /// cref="AllowLargeMessages"/>: it would never fit. Nothing was taken, and the connection goes on. The same for
    /// each other form of <c>Send</c>.</exception>
    [OverloadResolutionPriority(1)]
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public SendResult Send(ReadOnlySpan<byte> data)
    {
        Connection? connection = _connection;
        return connection is null ? SendResult.Closed : connection.Send(data, _generation);
    }

    /// <summary>Queues two pieces as one send: both or none, nothing between them.</summary>
    /// <param name="head">The first piece.</param>
    /// <param name="body">The second piece.</param>
    public SendResult Send(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body) =>
        _connection is { } connection ? connection.Send(head, body, _generation) : SendResult.Closed;

    /// <summary>
    /// Queues a copy of all pieces as one send: all or none, nothing between them. With an empty queue 16 KiB and more leave at once,
    /// from where they lie. Above 16 pieces, and from threads other than the session's, they are joined by a copy first.
    /// </summary>
    /// <param name="pieces">What to send. Free to be reused at once. Memory that throws, throws here, and nothing was taken.</param>
    public SendResult Send(ReadOnlySpan<ReadOnlyMemory<byte>> pieces) =>
        _connection is { } connection ? connection.Send(new Pieces(pieces, default), _generation) : SendResult.Closed;

    /// <summary>Queues a copy of a sequence as one send. See the other <c>Send</c> of several pieces.</summary>
    /// <param name="data">What to send.</param>
    public SendResult Send(ReadOnlySequence<byte> data)
    {
        if (data.IsSingleSegment) return Send(data.FirstSpan);
        return _connection is { } connection ? connection.Send(new Pieces(default, data), _generation) : SendResult.Closed;
    }

    /// <inheritdoc/>
    public SendResult Send(ReadOnlyMemory<byte> data) => Send(data.Span);

    /// <inheritdoc/>
    public SendResult Send(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return Send(text.AsSpan());
    }

    /// <summary>Queues the text as UTF-8, whole or not at all.</summary>
    /// <param name="text">What to send.</param>
    public SendResult Send(ReadOnlySpan<char> text)
    {
        using Utf8Text encoded = new(text, stackalloc byte[Utf8Text.SmallBytes]);
        return Send(encoded.Bytes);
    }

    /// <summary>
    /// Queues memory without copying it. With <see cref="SendResult.Queued"/> the ownership has passed: the library
    /// disposes it when it is sent or the connection ends, on any thread. Otherwise it stays the caller's. Memory that throws then (from
    /// Dispose, or because it was disposed by somebody else) ends this connection with <see cref="CloseCause.UserException"/>, and a notice tells.
    /// </summary>
    /// <param name="owner">The memory.</param>
    /// <param name="length">How many of its bytes to send, from the start.</param>
    public SendResult Send(IMemoryOwner<byte> owner, int length) => Send(default, owner, 0, length);

    /// <summary>
    /// Queues a copy of the head and behind it, without copying it, a part of memory: one message. Of the ownership holds what
    /// <see cref="Send(IMemoryOwner{byte}, int)"/> says.
    /// </summary>
    /// <param name="head">Copied. May be empty.</param>
    /// <param name="owner">The memory.</param>
    /// <param name="offset">Where in it the bytes to send begin.</param>
    /// <param name="length">How many they are.</param>
    public SendResult Send(ReadOnlySpan<byte> head, IMemoryOwner<byte> owner, int offset, int length)
    {
        ArgumentNullException.ThrowIfNull(owner);
        Memory<byte> memory = owner.Memory;
        if ((uint)offset > (uint)memory.Length) Throw.OutOfRange(nameof(offset), offset, $"between 0 and {memory.Length}");
        if ((uint)length > (uint)(memory.Length - offset)) Throw.OutOfRange(nameof(length), length, $"between 0 and {memory.Length - offset}");
        return _connection is { } connection ? connection.SendOwned(head, owner, memory.Slice(offset, length), offset, _generation) : SendResult.Closed;
    }

    /// <summary>Queues a part of shared bytes; from 16 KiB on without a copy. The caller keeps its reference, whatever the result.</summary>
    /// <param name="bytes">The bytes. Many sessions may have them queued.</param>
    /// <param name="offset">Where those to send begin.</param>
    /// <param name="length">How many they are.</param>
    /// <exception cref="ObjectDisposedException">All references were given back.</exception>
    public SendResult Send(SharedBytes bytes, int offset, int length) => Send(default, bytes, offset, length);

    /// <summary>Queues a copy of the head, and a part of shared bytes behind it, as one message.</summary>
    /// <param name="head">Copied: what differs from one session to the next.</param>
    /// <param name="bytes">As in the other <c>Send</c> of shared bytes.</param>
    /// <param name="offset">Where those to send begin.</param>
    /// <param name="length">How many they are.</param>
    /// <exception cref="ObjectDisposedException">All references were given back.</exception>
    public SendResult Send(ReadOnlySpan<byte> head, SharedBytes bytes, int offset, int length)
    {
        ArgumentNullException.ThrowIfNull(bytes);
        IMemoryOwner<byte> loan = bytes.Lend();
        SendResult result = SendResult.Closed;
        try
        {
            return result = Send(head, loan, offset, length);
        }
        finally
        {
            if (result != SendResult.Queued) loan.Dispose();
        }
    }

    /// <summary>Queues a part of a file. See the other <c>Send</c> of a file.</summary>
    /// <param name="file">The file. Many sessions may have parts of it queued.</param>
    /// <param name="offset">Where the part begins.</param>
    /// <param name="length">How many bytes it has.</param>
    public SendResult Send(FileSource file, long offset, long length) => Send(default, file, offset, length);

    /// <summary>
    /// Queues a copy of the head, and a part of a file behind it, as one message. The system sends it out of its own cache where it can (epoll,
    /// io_uring); over TLS and elsewhere it is read in pieces, on the thread pool. It counts as 1 KiB against the limit for each GiB begun, and with
    /// all its bytes in <see cref="BytesPending"/>; what another thread sends does so from when the loop has taken it in. The caller keeps its
    /// reference, whatever the result. When the file ends before, the connection does, with <see cref="CloseCause.FileFailed"/>.
    /// </summary>
    /// <param name="head">Copied: what a protocol says in front of the bytes. May be empty.</param>
    /// <param name="file">The file. Many sessions may have parts of it queued.</param>
    /// <param name="offset">Where the part begins.</param>
    /// <param name="length">How many bytes it has.</param>
    /// <exception cref="ArgumentOutOfRangeException">The file has no such part.</exception>
    /// <exception cref="ObjectDisposedException">All references of the file were given back.</exception>
    public SendResult Send(ReadOnlySpan<byte> head, FileSource file, long offset, long length)
    {
        ArgumentNullException.ThrowIfNull(file);
        FileRange part = file.Lend(offset, length);
        try
        {
            return _connection is { } connection ? connection.SendFile(head, part, _generation) : SendResult.Closed;
        }
        finally
        {
            part.File.EndLoan();
        }
    }

    /// <summary>Sends a part of a file behind a head, as one message, waiting for room in the queue. Queued, and not sent, when the task completes.</summary>
    /// <param name="head">As in <c>Send</c>. May be reused when the task completes.</param>
    /// <param name="file">The file.</param>
    /// <param name="offset">Where the part begins.</param>
    /// <param name="length">How many bytes it has.</param>
    /// <param name="cancellationToken">Gives up waiting.</param>
    /// <exception cref="ArgumentOutOfRangeException">The file has no such part.</exception>
    /// <exception cref="ObjectDisposedException">All references of the file were given back.</exception>
    public ValueTask<SendResult> SendAsync(ReadOnlyMemory<byte> head, FileSource file, long offset, long length, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(file);
        FileRange part = file.Lend(offset, length);
        try
        {
            return _connection is { } connection ? connection.SendAsync(head, default, default, part, _generation, cancellationToken) : new(SendResult.Closed);
        }
        finally
        {
            part.File.EndLoan();
        }
    }

    /// <inheritdoc/>
    public ValueTask<SendResult> SendAsync(ReadOnlyMemory<byte> data, CancellationToken cancellationToken = default) =>
        _connection is { } connection ? connection.SendAsync(data, default, default, default, _generation, cancellationToken) : new(SendResult.Closed);

    /// <summary>Sends two pieces as one message, waiting for room in the queue. See the other <c>SendAsync</c>.</summary>
    /// <param name="head">The first piece.</param>
    /// <param name="body">The second piece.</param>
    /// <param name="cancellationToken">Gives up waiting.</param>
    public ValueTask<SendResult> SendAsync(ReadOnlyMemory<byte> head, ReadOnlyMemory<byte> body, CancellationToken cancellationToken = default) =>
        _connection is { } connection ? connection.SendAsync(head, body, default, default, _generation, cancellationToken) : new(SendResult.Closed);

    /// <summary>Sends a sequence as one message, waiting for room in the queue. Its memory may be reused when the task completes. See the other <c>SendAsync</c>.</summary>
    /// <param name="data">What to send.</param>
    /// <param name="cancellationToken">Gives up waiting.</param>
    public ValueTask<SendResult> SendAsync(ReadOnlySequence<byte> data, CancellationToken cancellationToken = default)
    {
        if (data.IsSingleSegment) return SendAsync(data.First, cancellationToken);
        return _connection is { } connection ? connection.SendAsync(default, default, data, default, _generation, cancellationToken) : new(SendResult.Closed);
    }

    /// <summary>Sends the text as UTF-8, waiting for room in the queue. See the other <c>SendAsync</c>.</summary>
    /// <param name="text">What to send.</param>
    /// <param name="cancellationToken">Gives up waiting.</param>
    public ValueTask<SendResult> SendAsync(string text, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(text);
        byte[] bytes = ArrayPool<byte>.Shared.Rent(Encoding.UTF8.GetMaxByteCount(text.Length));
        ValueTask<SendResult> sending = SendAsync(bytes.AsMemory(0, Encoding.UTF8.GetBytes(text, bytes)), cancellationToken);
        if (!sending.IsCompleted) return SessionOrder.Keep(SessionOrder.Leave(), GiveBackAfter(sending, bytes));
        ArrayPool<byte>.Shared.Return(bytes);
        return sending;
    }

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    private static async ValueTask<SendResult> GiveBackAfter(ValueTask<SendResult> sending, byte[] bytes)
    {
        try
        {
            return await sending.ConfigureAwait(false);
        }
        finally
        {
            ArrayPool<byte>.Shared.Return(bytes);
        }
    }

    /// <summary>
    /// Room in the fill block to write a message into, without a copy. The session's thread only; follow with
    /// <see cref="Commit"/> in the same callback and before any other send. Empty when nothing may be sent now. A second call gives the
    /// first room back.
    /// </summary>
    /// <param name="count">Bytes needed at most, up to 32,768.</param>
    /// <exception cref="InvalidOperationException">64 rooms of this callback were sent past without a Commit.</exception>
    protected Span<byte> Reserve(int count)
    {
        if (_connection is not { } connection) return default;
        if (Strand.CurrentOf(connection, _generation) is not { } strand) return connection.Reserve(count, _generation);
        SendQueue.CheckReserve(count);
        return strand.Reserve(count);
    }

    /// <summary>Queues what was written into the span of <see cref="Reserve"/>. The session's thread only. After the end it does nothing.</summary>
    /// <param name="count">Bytes written, from its start. 0 gives the room back.</param>
    /// <exception cref="ArgumentOutOfRangeException">More than was reserved.</exception>
    /// <exception cref="InvalidOperationException">Something was sent since <see cref="Reserve"/>, or its callback has returned: the room is not at the end of the queue any more. Nothing of it is sent.</exception>
    protected void Commit(int count)
    {
        if (_connection is not { } connection) return;
        if (Strand.CurrentOf(connection, _generation) is { } strand) strand.Commit(count);
        else connection.Commit(count, _generation);
    }

    /// <summary>
    /// Lets what the running callback has sent leave now. With <see cref="Scheduling.ThreadPool"/> it would leave when the callback returns: for one
    /// that goes on working. On the loop, where sends leave at the end of the turn, it offers the queue to the system, in a system call of its own.
    /// Does nothing while room of <see cref="Reserve"/> is not committed, and outside of the session's callbacks, where sends leave by themselves.
    /// </summary>
    public void Flush()
    {
        if (_connection is not { } connection) return;
        if (connection.Loop.IsCurrent) connection.FlushNow(_generation);
        else Strand.CurrentOf(connection, _generation)?.FlushNow();
    }

    // ------------------------------------------------------------------ ending

    /// <inheritdoc/>
    public void Close() => BeginClose(isBlocking: false);

    /// <summary>
    /// What every Close and CloseAsync of this session begins with, whatever type the caller knows it by. A class whose protocol has a closing handshake says goodbye here instead,
    /// and calls this one (of its base) when the peer has answered, or after a limit of its own: the wait of CloseAsync and <see cref="Close(TimeSpan)"/> goes on until the connection has ended.
    /// Time limits, the stop of a server without a deadline and the like do not come here. Any thread, also more than once, and after the end.
    /// </summary>
    /// <param name="isBlocking">By <see cref="Close(TimeSpan)"/>. When this is the session's thread as well (<see cref="IsOnSessionThread"/>), one of its own callbacks on the pool waits for the
    /// end: no other will run meanwhile, and so none that could tell of an answer.</param>
    protected virtual void BeginClose(bool isBlocking) => CloseWith(new CloseReason(CauseOfClose));

    /// <summary>
    /// Ends the connection after an override of this session, or an action that was posted to it, has thrown, and <see cref="OnError"/> was called. The default resets it, with
    /// <see cref="CloseCause.UserException"/>, and what the callback has sent is dropped. A class whose protocol can say why says it here, and closes: what was sent before
    /// leaves first then. The session's thread; also when the connection is ending already. What this throws resets the connection.
    /// </summary>
    /// <param name="exception">What was thrown.</param>
    protected virtual void EndAfterException(Exception exception) => AbortWith(new CloseReason(CloseCause.UserException, 0, exception));

    /// <summary>
    /// True where the session's callbacks run now: on its loop, or in one of its callbacks on the pool, and in what goes on behind an await of it in the session's order. What may
    /// be done on the session's thread only may be done then. False when there is no connection any more, but for a callback on the pool that still runs.
    /// </summary>
    protected bool IsOnSessionThread => RunningStrand is not null || _connection is { Strand: null, Loop.IsCurrent: true };

    /// <summary>
    /// <see cref="Close()"/>, with what the protocol says of the peer. Where it sends nothing more, as after a request that asked for the
    /// connection to be closed, nobody waits for its FIN: the descriptor is closed as soon as the system has taken what is queued. The peer
    /// gets all of it, then FIN. One that sends on all the same may be reset, and lose what it has not read. Bytes that come after
    /// this call and before the close are noticed: then it waits as <see cref="Close()"/> does. Over TLS it waits for at most a second.
    /// </summary>
    /// <param name="peerFinished">By the protocol the peer sends nothing more, though its FIN has not come. False is the same as <see cref="Close()"/>.</param>
    public void Close(bool peerFinished)
    {
        if (peerFinished) ReportEndOfStream();
        BeginClose(isBlocking: false);
    }

    /// <summary>
    /// For protocols: the peer sends nothing more, or nothing that matters, though its FIN has not come. A close that follows does not wait for the FIN, as in <see cref="Close(bool)"/>;
    /// over TLS it waits for at most a second. Bytes that come between this call and the close end that. The session's thread only.
    /// </summary>
    protected void ReportEndOfStream() =>
        // Control goes before data in the mailbox; one that comes late all the same only costs the wait.
        OnConnectionLoop(static c => c.NotePeerSaidAll());

    /// <summary>What a close by the user counts as.</summary>
    internal virtual CloseCause CauseOfClose => CloseCause.LocalClose;

    /// <summary>
    /// For protocols: the peer has broken their rules. The connection does not end by that; when this side closes or
    /// aborts it from now on, before another end has begun, the reason
    /// is <see cref="CloseCause.ProtocolError"/> with this exception, and not that this side closed. So whatever a
    /// protocol still says to its peer, its user is told why.
    /// The first of several counts. The session's thread only.
    /// </summary>
    /// <param name="error">What was wrong, in words that stand behind "the peer broke the rules of the protocol:
    /// ".</param>
    protected void ReportProtocolError(Exception error)
    {
        ArgumentNullException.ThrowIfNull(error);
        // Nobody looks at the reason of an end that has not come.
        if (_endReason.Cause == CloseCause.None) _endReason = new CloseReason(CloseCause.ProtocolError, 0, error);
    }

    /// <summary>Gives a notice of what <see cref="ReportProtocolError"/> was called with.</summary>
    internal void NoteMismatch()
    {
        if (_endReason is { Cause: CloseCause.ProtocolError, Exception: { } error }) _host?.NoteMismatch(this, error);
    }

    internal void NoteOpenCalls(int open, double seconds) => _host?.NoteOpenCalls(this, open, seconds);

    /// <summary>What the peer did wrong is the reason of what this side does about it.</summary>
    private CloseReason ReasonFor(CloseReason reason) =>
        _endReason.Cause == CloseCause.ProtocolError && reason.Cause is CloseCause.LocalClose or CloseCause.LocalAbort
            ? _endReason
            : reason;

    internal void CloseWith(CloseReason reason)
    {
        reason = ReasonFor(reason);
        if (_connection is not { } connection)
        {
            RunningStrand?.EndInput();
            return;
        }

        if (connection.Loop.IsCurrent)
        {
            if (connection.Generation == _generation) connection.CloseWith(reason);
            return;
        }

        if (Strand.CurrentOf(connection, _generation) is { } strand) strand.EndHere(reason, isAbort: false);
        else connection.Strand?.PostGathered();
        // Refused from here on for this caller; the close itself keeps its place behind the sends (contract 7).
        connection.CloseForeign(_generation);
        connection.Loop.Mailbox.PostItem(DataKind.Close, connection, _generation, reason.Cause == CloseCause.LocalClose ? null : reason);
    }

    /// <summary>
    /// Closes gracefully, as <see cref="Close()"/> does, and completes when the connection has ended, after the last callback,
    /// with the reason. At once when it has ended, or when there never was one. Where one of the session's own callbacks blocks on it
    /// (on the pool: <c>CloseAsync().AsTask().Wait()</c>) it completes before the last callback, which comes when that one has returned.
    /// </summary>
    /// <param name="cancellationToken">Ends the patience: the connection is aborted, and the task is cancelled when it has ended.</param>
    public ValueTask<CloseReason> CloseAsync(CancellationToken cancellationToken = default)
    {
        if (_loop is null) return default;
        EndWait wait = new(this, cancellationToken);
        ValueTask<CloseReason> task = wait.Task;
        return TryClose(wait) ? task : new(_endReason);
    }

    /// <summary>The same without a reason, for who has a connection: an object, and nothing for the wait.</summary>
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
    /// Completes when this session has ended, after its last callback, with the reason; it ends nothing itself. After a hand-over with cause
    /// <see cref="CloseCause.HandedOver"/>, while the connection goes on. At once when it has ended. Any thread.
    /// </summary>
    /// <exception cref="InvalidOperationException">The session has no connection yet.</exception>
    public ValueTask<CloseReason> EndedAsync()
    {
        EndWait wait = new(this, default);
        ValueTask<CloseReason> task = wait.Task;
        return TryAwaitEnd(wait) ? task : new(_endReason);
    }

    /// <summary>False when the session has ended.</summary>
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
    /// Like <see cref="CloseAsync"/>, blocking: for callbacks of other sessions on the pool, and threads of your own. A connection that has not ended in
    /// time is aborted. Inside one of the session's own callbacks it returns before the last callback. On a loop it throws <see cref="InvalidOperationException"/>.
    /// </summary>
    /// <param name="timeout">Longest time, or <see cref="Timeout.InfiniteTimeSpan"/> for that of the options.</param>
    /// <returns>Why it ended; cause None when there never was a connection.</returns>
    /// <exception cref="NetworkException">With category Timeout: a second after the abort it has not ended, and the message names the callback that still runs.</exception>
    public CloseReason Close(TimeSpan timeout)
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
    /// Ends the connection at once: discards what is queued, and resets. On Unix sockets the peer mostly reads an
    /// ordinary end of file instead, as Linux tells no more there (docs/limits.md). Any thread.
    /// </summary>
    public void Abort() => AbortWith(new CloseReason(CloseCause.LocalAbort));

    internal void AbortWith(CloseReason reason)
    {
        reason = ReasonFor(reason);
        if (_connection is not { } connection)
        {
            RunningStrand?.EndInput();
            return;
        }

        if (connection.Loop.IsCurrent)
        {
            if (connection.Generation == _generation) connection.AbortWith(reason);
            return;
        }

        connection.AbortForeign(Strand.CurrentOf(connection, _generation)?.EndHere(reason, isAbort: true) ?? reason, _generation);
    }

    /// <summary>Ends this half: what is queued is sent, then FIN; receiving goes on until the peer finishes. Later sends give <see cref="SendResult.Closed"/>.</summary>
    public void ShutdownSend() => BeginShutdownSend();

    /// <summary>What <see cref="ShutdownSend"/> does: the counterpart of <see cref="BeginClose"/>, for a protocol that has something to say at the end of a half. Any thread.</summary>
    protected virtual void BeginShutdownSend()
    {
        if (_connection is not { } connection) return;
        if (connection.Loop.IsCurrent)
        {
            if (connection.Generation == _generation) connection.ShutdownSend();
            return;
        }

        if (Strand.CurrentOf(connection, _generation) is { } strand) strand.FinishHere();
        else connection.Strand?.PostGathered();
        connection.CloseForeign(_generation);
        connection.Loop.Mailbox.PostItem(DataKind.ShutdownSend, connection, _generation);
    }

    // ------------------------------------------------------------------ receiving

    /// <inheritdoc/>
    public void PauseReceiving()
    {
        StrandOfThis()?.Pause();
        OnConnectionLoop(static c => c.PauseReceiving());
    }

    /// <inheritdoc/>
    public void ResumeReceiving()
    {
        OnConnectionLoop(static c => c.ResumeReceiving());
        StrandOfThis()?.Resume();
    }

    /// <summary>
    /// Between <see cref="PauseReceiving"/> and <see cref="ResumeReceiving"/>. A protocol that finds several messages in what it was given leaves the others unread
    /// when this is true, and gets them again. Any thread; exact on the session's thread.
    /// </summary>
    public bool IsReceivingPaused =>
        StrandOfThis() is { } strand ? strand.IsPaused : _connection is { } connection && connection.Generation == _generation && connection.IsPaused;

    /// <summary>Asks that <see cref="OnData"/> comes again only when at least so many bytes are unread, or the peer has finished. Once. Inside a callback.</summary>
    /// <param name="count">1 up to <see cref="ConnectionOptions.UnreadLimitBytes"/>.</param>
    protected void SetMinimumBytes(int count)
    {
        if (RunningStrand is { } strand)
        {
            strand.SetMinimumBytes(count);
            return;
        }

        if (_connection is not { } connection) return;
        StrandHere(connection, nameof(SetMinimumBytes));
        connection.SetMinimumBytes(count);
    }

    /// <summary>
    /// What the running <see cref="OnReceived"/> or <see cref="OnData"/> was given, or a part of it, as memory to write to: for protocols that decode in place.
    /// Nobody else sees the change. What is left unread comes again as it was left, also to the next session of a hand-over, so remember how far it is
    /// decoded. Costs a comparison. Valid during the call only.
    /// </summary>
    /// <param name="received">The span of the callback, or a slice of it.</param>
    /// <returns>The same bytes.</returns>
    /// <exception cref="InvalidOperationException">Other bytes, or no such callback of the session runs on this thread.</exception>
    protected Span<byte> Writable(ReadOnlySpan<byte> received)
    {
        if (RunningStrand is { } strand) return strand.Writable(received);
        return _loop is { IsCurrent: true } loop ? loop.Offered.Writable(received) : default(OfferedBytes).Writable(received);
    }

    /// <summary>Bytes received and not taken yet. The session's thread.</summary>
    protected int UnreadCount => _connection is not { } connection ? 0 : Strand.CurrentOf(connection, _generation)?.UnreadCount ?? connection.UnreadCount;

    // ------------------------------------------------------------------ hand-over, timers, broadcasts

    [DoesNotReturn]
    private static void ThrowHandedOver() => Throw.State("The session has handed its connection over already: what was posted to it still runs, and cannot give it to another one.");

    /// <summary>
    /// Gives the connection to another session when the running callback has returned: this one gets
    /// <c>OnDisconnected(HandedOver)</c>, the next one OnConnected and then the unread bytes. Id, groups, queue and
    /// counters stay. From every callback; before OnConnected this one gets <c>OnConnectFailed(HandedOver)</c>, and the next one what is still to
    /// come: OnTlsHandshakeCompleted, if there is TLS and it was not told, then OnConnected, or OnConnectFailed. A close in the same callback wins. In the
    /// callbacks of the end (OnDisconnecting, OnDisconnected, OnConnectFailed, OnError), and in what was posted and runs behind the callback that
    /// has handed over, it throws <see cref="InvalidOperationException"/>. The session's thread only.
    /// </summary>
    /// <param name="next">A session that has no connection yet.</param>
    /// <param name="holdsSends">
    /// What this callback sends from here on, and all that is sent behind it, leaves when the next session's OnConnected has returned: so the peer that has an
    /// answer by which the next protocol begins is in the groups which that one joins there. It leaves before that when OnConnected calls <see cref="Flush"/>, or
    /// somebody waits for room in the queue or until something was sent.
    /// </param>
    protected void HandOver(Session next, bool holdsSends = false)
    {
        ArgumentNullException.ThrowIfNull(next);
        if (next._connection is not null || next._host is not null) Throw.State("The next session has, or had, a connection of its own.");
        if (_isEnding) Throw.State("The session is ending, or has ended: its connection cannot be handed over any more.");
        // By an earlier callback: what was posted to this one runs before the next one has it.
        if (Strand.Current is { IsSwitching: true } giving && giving.Runs(this)) ThrowHandedOver();
        if (_connection is not { } connection)
        {
            // It is gone, and what came before its end waits: not for who wanted to give it away.
            RunningStrand?.EndInput();
            return;
        }

        Strand? strand = StrandHere(connection, nameof(HandOver));
        if (strand is null && connection.IsHandingOver) ThrowHandedOver();
        if (strand is not null) strand.HandOver(next, holdsSends);
        else connection.HandOver(next, holdsSends);
    }

    /// <summary>
    /// Says for whom this connection stands, when a proxy that is trusted has told: from here on these are <see cref="RemoteEndPoint"/> and
    /// <see cref="LocalEndPoint"/>, also of the sessions it is handed over to. Limits and filters of a server have seen the connection's own
    /// address before, and <see cref="Socket"/> still has it. The session's thread.
    /// </summary>
    /// <param name="remote">The client; null leaves what there is.</param>
    /// <param name="local">Where it had connected to; null leaves what there is.</param>
    protected void ReplaceEndPoints(EndPoint? remote, EndPoint? local)
    {
        if (remote is not null) Volatile.Write(ref _remoteEndPoint, remote);
        if (local is not null) Volatile.Write(ref _localEndPoint, local);
    }

    /// <summary>
    /// Goes on with TLS on this connection (STARTTLS), as a server when the connection was accepted, as a client when it was dialled. What
    /// was queued goes out plain first; later sends wait for the handshake. Takes effect when the running callback has returned: bytes
    /// that it left unread are refused by default, which ends the connection, and what arrives later is cipher text. It ends in
    /// <see cref="OnTlsHandshakeCompleted"/> or in a close with <see cref="CloseCause.TlsHandshake"/>. The session's thread only.
    /// </summary>
    /// <remarks>
    /// With <see cref="Scheduling.ThreadPool"/> bytes may arrive while the callback runs: those that came before the call count as left unread.
    /// So tell the peer to begin in the same callback, right before this, with a plain Send of up to 32 KiB: it then leaves together with the upgrade.
    /// <see cref="Close()"/> during the handshake: what was sent before it still leaves, encrypted, when the handshake is done;
    /// OnTlsHandshakeCompleted does not come then. A handshake that fails is the reason of the end. With nothing to send Close does not wait for it.
    /// </remarks>
    /// <param name="options">Checked at the first use of the object, and kept with it: give the same one for each connection. Throws <see cref="ArgumentException"/> with all mistakes.</param>
    /// <param name="unread">What happens to unread bytes.</param>
    protected void UpgradeToTls(TlsOptions options, UnreadBytes unread = UnreadBytes.Refuse) => Upgrade(options, unread, null);

    /// <summary>Like <see cref="UpgradeToTls"/>, and completes after OnTlsHandshakeCompleted (or when the handshake is done, after a Close), or fails with <see cref="NetworkException"/> when the connection ends before.</summary>
    /// <param name="options">As there.</param>
    /// <param name="unread">As there.</param>
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
        // On the pool the connection may end under the running callback: then its last callback says that nothing became of this.
        if (RunningStrand is { } strand)
        {
            strand.UpgradeToTls(new TlsUpgrade(ProfileForUpgrade(options, strand.IsAccepting, strand.ConnectedHost), unread, done));
            return;
        }

        if (_connection is not { } connection) throw Throw.NoConnection();
        StrandHere(connection, nameof(UpgradeToTls));
        if (connection.Generation != _generation) throw Throw.NoConnection();
        connection.UpgradeToTls(new TlsUpgrade(ProfileForUpgrade(options, connection.Host.IsAccepting, connection.ConnectedHost), unread, done));
    }

    private static TlsProfile ProfileForUpgrade(TlsOptions options, bool isServer, string? connectedHost)
    {
        TlsProfile profile = TlsSelector.PrepareForUpgrade(options, isServer);
        if (!isServer && connectedHost is null && options.NeedsHostName) throw new ArgumentException("TlsOptions.HostName is missing: what was dialled has no name that a certificate could cover.", nameof(options));
        return profile;
    }

    /// <summary>Starts a timer that calls <see cref="OnTimer"/> until it is cancelled or the connection ends. The session's thread only.</summary>
    /// <param name="due">Time until the first firing.</param>
    /// <param name="period">Distance between firings; zero for one shot.</param>
    protected LoopTimer StartTimer(TimeSpan due, TimeSpan period = default)
    {
        LoopTimer timer = NewTimer(period);
        timer.Start(due, period);
        return timer;
    }

    /// <summary>Starts a timer for a moment of the wall clock, converted to the monotonic clock now: later changes of the wall clock do not move it. The session's thread only.</summary>
    /// <param name="due">When to fire first; a moment that has passed means the next turn.</param>
    /// <param name="period">Distance between firings; zero for one shot.</param>
    protected LoopTimer StartTimer(DateTimeOffset due, TimeSpan period = default)
    {
        LoopTimer timer = NewTimer(period);
        timer.Start(due, period);
        return timer;
    }

    private LoopTimer NewTimer(TimeSpan period)
    {
        // On the pool the connection may have ended under the running callback: then the timer is one that never fires.
        if (RunningStrand is null)
        {
            if (_connection is not { } connection) throw Throw.NoConnection();
            StrandHere(connection, nameof(StartTimer));
        }

        return new LoopTimer(Loop, this) { PeriodMs = Loop.PeriodMsOf(period) };
    }

    /// <summary>
    /// The class it joins a group with (<see cref="SessionGroup.Join(Session, int)"/>): a protocol whose messages have a form of their own gives the number of that
    /// form, so that a broadcast is written once for all who share it. 0 up to 15; 0, the default, has none. Asked by any thread that joins it.
    /// </summary>
    protected internal virtual int MemberClass => 0;

    /// <summary>
    /// For protocols: why a broadcast of plain bytes would break what the peer reads, and which member to use instead. A group that such a session has joined, and the group of all sessions of its
    /// server, throw with this sentence from every form of <c>Broadcast</c> without an encoder. Null, the default: plain bytes are welcome. Any thread.
    /// </summary>
    protected internal virtual string? BroadcastRefusal => null;

    /// <summary>Whether broadcasts are queued, wait, or pass by. The session's thread only.</summary>
    protected BroadcastGate BroadcastGate
    {
        get => _connection is not { } connection ? BroadcastGate.Shut : Strand.CurrentOf(connection, _generation)?.BroadcastGate ?? connection.BroadcastGate;
        set
        {
            if (_connection is not { } connection) return;
            if (StrandHere(connection, nameof(BroadcastGate)) is { } strand) strand.BroadcastGate = value;
            else connection.SetBroadcastGate(value);
        }
    }

    // ------------------------------------------------------------------ overrides

    /// <summary>The session has an id and, if accepted, a peer; nothing can be sent yet. Close here refuses the connection.</summary>
    protected virtual void OnConnecting()
    {
    }

    /// <summary>
    /// The socket is connected and TLS begins, before its first byte is sent or read: for accepted and dialled connections after OnConnecting, and, after
    /// <see cref="UpgradeToTls"/>, between two callbacks. The end points are known. Nothing can be sent yet, but in an upgrade, where it waits
    /// for the handshake. Close here ends the connection. Not called where the server's factory sees the connection: there the session is made later.
    /// Its time is not part of <see cref="TlsOptions.HandshakeTimeout"/>. Only classes that override it pay for it.
    /// </summary>
    protected virtual void OnTlsHandshakeStarting()
    {
    }

    /// <summary>
    /// The TLS handshake is done. Comes right before OnConnected, or, after <see cref="UpgradeToTls"/>, between two callbacks. What is sent here leaves
    /// encrypted, in front of what OnConnected sends. To refuse a peer whose certificate is good but not welcome, close here: before OnConnected the
    /// session was never connected, and its last callback is OnConnectFailed, when what it sent has left.
    /// </summary>
    /// <param name="info">What was agreed on; also in <see cref="Tls"/>.</param>
    protected virtual void OnTlsHandshakeCompleted(TlsInfo info)
    {
    }

    /// <summary>Connected: sends are taken, and what the peer has sent already comes next.</summary>
    protected virtual void OnConnected()
    {
    }

    /// <summary>The dial failed, or the connection ended or was handed over before it was connected. Last callback.</summary>
    /// <param name="reason">Why.</param>
    protected virtual void OnConnectFailed(CloseReason reason)
    {
    }

    /// <summary>Bytes arrived. All are taken; to leave some, override <see cref="OnData"/>; to await, <see cref="OnReceivedAsync"/>, which the default calls.</summary>
    /// <param name="data">Valid during the call only.</param>
    protected virtual void OnReceived(ReadOnlySpan<byte> data) => StartReceivedAsync(data);

    /// <summary>All bytes that are unread. The default gives them to <see cref="OnReceived"/> and takes them all.</summary>
    /// <param name="unread">What was left the last time and what has arrived since. Valid during the call only.</param>
    /// <returns>How many bytes were taken, from the start. The rest comes again when more arrives.</returns>
    protected virtual int OnData(ReadOnlySpan<byte> unread)
    {
        OnReceived(unread);
        return unread.Length;
    }

    /// <summary>The peer sends nothing more. The default closes; an override that does not keeps this half open until <see cref="ShutdownSend"/> or <see cref="Close()"/>.</summary>
    protected virtual void OnEndOfStream() => Close();

    /// <summary>
    /// Asked before a send is queued: no refuses it with <see cref="SendResult.Refused"/>. On the thread that sends, inside
    /// its call, which gets what this throws; several at a time when several send. Broadcasts are not asked (see
    /// <see cref="BroadcastGate"/>). An override makes every send of this class take the slow way.
    /// </summary>
    /// <param name="bytes">How long the send is.</param>
    /// <returns>True to let it be queued.</returns>
    protected virtual bool OnSending(long bytes) => true;

    /// <summary>
    /// The system took bytes of this connection: of one send, of many, or of a part. Never inside another callback, and not
    /// after <see cref="Close()"/>. Only classes that override it pay for it.
    /// </summary>
    /// <param name="sent">Bytes since the last call.</param>
    /// <param name="pending">Bytes that wait now: <see cref="BytesPending"/>.</param>
    protected virtual void OnSent(long sent, long pending)
    {
    }

    /// <summary>
    /// The end has begun: sends are refused from now on, and nothing more is received. Exactly once before OnDisconnected, for
    /// sessions that were connected. After a Close it comes in the loop's next step, while what is queued is still being sent; after a Close
    /// that waits for the handshake of an upgrade when that has ended; after an abrupt end and in a hand-over right before OnDisconnected. Never inside another callback, also not the one that closed.
    /// </summary>
    /// <param name="reason">The first cause, the same that OnDisconnected gets.</param>
    protected virtual void OnDisconnecting(CloseReason reason)
    {
    }

    /// <summary>
    /// The system has taken everything, and nothing is pending: once each time the queue runs empty. What is sent here runs
    /// it empty once more. With a <see cref="LowWaterMarkBytes"/>: once each time what is pending falls to that from above. Also, with an empty queue, when a send of another thread was refused because of
    /// <see cref="EngineOptions.MailboxLimitBytes"/> and there is room again. Never inside another callback, and not after <see cref="Close()"/>. Only classes that override it pay for it.
    /// </summary>
    protected virtual void OnDrained()
    {
    }

    /// <summary>
    /// The server stops with a deadline. The default closes, with cause <see cref="CloseCause.ServerStopped"/>. An override may say goodbye
    /// first, or finish what it does and close later; what is open at the deadline is reset. Once, and only for connected sessions.
    /// </summary>
    protected virtual void OnServerStopping() => CloseWith(new CloseReason(CloseCause.ServerStopped));

    /// <summary>The connection has ended. Exactly once, and last.</summary>
    /// <param name="reason">The first cause.</param>
    protected virtual void OnDisconnected(CloseReason reason)
    {
    }

    /// <summary>A timer of this session fired.</summary>
    /// <param name="timer">The one that <see cref="StartTimer(TimeSpan, TimeSpan)"/> gave. It may be started again.</param>
    protected virtual void OnTimer(LoopTimer timer)
    {
    }

    /// <summary>
    /// An override of this session threw; the connection ends after this call. Or code that a protocol calls, such as a handler, and the protocol goes on
    /// (<see cref="ReportException"/>). The default gives a notice that names override, class and
    /// exception, once a minute for each of them with the number left out; an override gets no notice. It is counted either way
    /// (<see cref="ServerCounters.UserExceptions"/>, <see cref="Engine.UserExceptionCount"/>).
    /// </summary>
    /// <param name="exception">What it threw.</param>
    protected virtual void OnError(Exception exception) => _host?.NoteUserException(this, t_threw ?? "An override", exception, t_isCaught, t_advice, t_outcome);

    /// <summary>
    /// For protocols on top of sessions: code of their user's threw, and they have caught it, because they go on or say so to the peer. It is counted as what an
    /// override throws, and told to <see cref="OnError"/>, whose notice names the code. The connection does not end by that. The session's thread only.
    /// </summary>
    /// <param name="exception">What was thrown.</param>
    /// <param name="what">What threw it, as the beginning of a sentence: <c>The handler of GET /stock</c>. One of few: notices are paced by it.</param>
    /// <param name="advice">
    /// The last sentence of the notice: how the user of the protocol handles such exceptions. Empty for none. By default the override of
    /// <see cref="OnError"/>, where the class of the session is not of this library.
    /// </param>
    /// <param name="outcome">The sentence of the notice that says what the peer gets: <c>The client gets 500.</c> Null: the connection continues.</param>
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

    /// <summary>Id and peer, for logs.</summary>
    public override string ToString() => $"session {Id:x} ({RemoteEndPoint?.ToString() ?? "unnamed peer"})";

    // ------------------------------------------------------------------ for the connection

    internal Connection? Connection => _connection;

    internal uint Generation => _generation;

    /// <summary>Its peer, without the object that <see cref="RemoteEndPoint"/> is.</summary>
    internal PeerAddress Peer => _remote;

    /// <summary>What the server or client keeps with the session.</summary>
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
        OnSent(RunningStrand?.TakeSent() ?? _connection!.TakeSent(), PendingBytes);
    }

    internal void CallDrained()
    {
        using CallbackScope scope = ScopeOfOverride();
        OnDrained();
    }

    /// <summary>Which hooks this class overrides: seen by where the method that a call would reach is declared.</summary>
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

    /// <summary>Once for each class: the compiler marks async methods.</summary>
    private bool HasAsyncVoid()
    {
        ReadOnlySpan<Delegate> overrides =
        [
            (Action)OnConnecting, (Action)OnTlsHandshakeStarting, (Action<TlsInfo>)OnTlsHandshakeCompleted, (Action)OnConnected, (Action<CloseReason>)OnConnectFailed, (Action)OnEndOfStream, (Action<long, long>)OnSent,
            (Action<CloseReason>)OnDisconnecting, (Action)OnDrained, (Action)OnServerStopping, (Action<CloseReason>)OnDisconnected, (Action<LoopTimer>)OnTimer, (Action<Exception>)OnError,
        ];
        foreach (Delegate method in overrides)
        {
            if (IsOverride(method) && method.Method.IsDefined(typeof(AsyncStateMachineAttribute), inherit: false)) return true;
        }

        return false;
    }

    private CallbackScope ScopeOfOverride() => (FindHooks() & SessionHooks.AsyncVoid) == 0 ? default : new CallbackScope(Loop.Engine);

    private static bool IsOverride(Delegate method) => method.Method.DeclaringType != typeof(Session);

    /// <summary>Its callbacks run on the loop under every <see cref="Scheduling"/>.</summary>
    internal virtual bool StaysOnLoop => false;

    /// <summary>Completes those who await the end.</summary>
    internal void TellEnded(CloseReason reason)
    {
        _endReason = reason;
        EndWait? wait = Interlocked.Exchange(ref _endWaits, EndWait.Over);
        while (wait is not null)
        {
            EndWait? next = wait.Next; // completed, it belongs to its awaiter
            wait.End(reason);
            wait = next;
        }
    }

    internal SendOperation? BeginSend(ReadOnlyMemory<byte> data, bool mayBeTakenBack, out SendResult result)
    {
        if (_connection is { } connection) return connection.BeginSend(data, default, default, default, _generation, out result, mayBeTakenBack);
        result = SendResult.Closed;
        return null;
    }

    /// <summary>The same for a sequence.</summary>
    internal SendOperation? BeginSend(in ReadOnlySequence<byte> data, out SendResult result)
    {
        if (data.IsSingleSegment) return BeginSend(data.First, mayBeTakenBack: false, out result);
        if (_connection is { } connection) return connection.BeginSend(default, default, data, default, _generation, out result);
        result = SendResult.Closed;
        return null;
    }

    /// <summary>
    /// For a thread of the pool that answers and then goes back there: until what this returns is disposed, its sends and posts, to any session, wake a sleeping loop behind what the pool
    /// has queued. See <see cref="WakeUpBatch"/>. Any thread; elsewhere it changes nothing.
    /// </summary>
    public WakeUpBatch BatchWakeUps() => _loop is { } loop ? new WakeUpBatch(loop.Engine) : default;

    /// <summary>Sends what fits now, whole or not at all; with <see cref="SendResult.Full"/> nobody is judged slow. Any thread.</summary>
    internal SendResult SendIfRoom(ReadOnlySpan<byte> data) => _connection is { } connection ? connection.Feed(data, _generation) : SendResult.Closed;

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

    /// <summary>The override that gets received bytes, in messages about what it threw.</summary>
    internal virtual string ReceivingName => UserCode.IsOfUser(((Func<ReadOnlySpan<byte>, int>)OnData).Method.DeclaringType!) ? nameof(OnData) : nameof(OnReceived);

    /// <summary>What runs of it when it has ended and a stop still waits, as in messages.</summary>
    internal virtual string UnfinishedText => $"{nameof(OnReceivedAsync)} of {DisplayName}";

    /// <summary>What a stop waits for has outlived its session. Any thread.</summary>
    internal virtual bool IsOrphan => true;

    /// <summary>How messages name it.</summary>
    internal virtual string DisplayName => DiagnosticName;

    /// <summary>
    /// How notices name this session: the name of its class. A class that stands for an object of another library gives
    /// the name that users know. Called on any thread; must not throw.
    /// </summary>
    protected virtual string DiagnosticName => GetType().Name;

    /// <summary>As notices name one of its callbacks.</summary>
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

    // Another thread that asks at the same time must not put it back after ReplaceEndPoints.
    private EndPoint? MakeRemoteEndPoint()
    {
        EndPoint? made = _remote.ToEndPoint();
        return Interlocked.CompareExchange(ref _remoteEndPoint, made, null) ?? made;
    }

    internal void SetRemoteEndPoint(EndPoint? remote) => _remoteEndPoint = remote;

    /// <summary>Its connection is, or was, open for it. Any thread.</summary>
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

    /// <summary>It took a connection over, and its OnConnected was not called yet.</summary>
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

    /// <summary>A callback of this session has given its connection away: what is unread is the next one's. The session's thread.</summary>
    internal bool IsHandingOver => RunningStrand is { } strand ? strand.HasNext : _connection is { HasNext: true };

    /// <summary>Nothing keeps a callback on the loop from taking the next of what is unread. False asks for a closer look.</summary>
    internal bool TakesMore => _connection is { TakesMore: true };

    /// <summary>True when a factory gave an object that has served before.</summary>
    internal bool IsUsed => _host is not null;

    /// <summary>The strand that runs a callback of this session on this thread. On the pool the connection may end meanwhile: then this is all that is left of it.</summary>
    private Strand? RunningStrand => Strand.Current is { } strand && strand.Runs(this) ? strand : null;

    private Strand? StrandOfThis() =>
        RunningStrand ?? (_connection?.Strand is { } strand && strand.Serves(_generation) ? strand : null);

    /// <summary>The strand to ask when the callbacks run on the pool, null when they run on the loop. Throws on any other thread.</summary>
    private Strand? StrandHere(Connection connection, string member)
    {
        if (connection.Strand is null)
        {
            if (!connection.Loop.IsCurrent) Throw.NotOnLoop(member);
            return null;
        }

        Strand? strand = Strand.CurrentOf(connection, _generation);
        if (strand is null) Throw.NotOnLoop(member);
        return strand;
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
