using System.IO.Pipelines;
using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using Whimbrel.Connections;
using Whimbrel.Engines;
using Whimbrel.Streams;

namespace Whimbrel;

/// <summary>
/// A connection as a pair of pipes (<see cref="IDuplexPipe"/>) over any transport and engine. Received data is read in
/// place, and each flush passes the written data to the send queue. It contains no
/// <see cref="System.IO.Pipelines.Pipe"/> and no copying task.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>Reader and writer may be used on different threads, each by one thread at a time. The two Cancel members,
/// <see cref="Abort"/> and read-only members may be used by any thread.</item>
/// <item>A read returns the received and unconsumed data as soon as there is more than was examined. One read at a
/// time, with <see cref="PipeReader.AdvanceTo(SequencePosition)"/> between two reads; otherwise
/// <see cref="InvalidOperationException"/> is thrown. The buffer is valid until AdvanceTo.</item>
/// <item>At <see cref="ConnectionPipeOptions.HoldBytes"/> of unexamined data receiving pauses, and the peer has to
/// wait.</item>
/// <item>After the peer's end of stream reads are completed, with the remaining data. After any other end they return
/// the data received before, then throw <see cref="NetworkException"/>, an <see cref="IOException"/> with code and
/// category.</item>
/// <item>A flush sends all written data as one message. It completes when the data is queued, and waits for space while
/// <see cref="ConnectionLimits.SendBytes"/> are pending. If the connection accepts no more data, it is completed
/// (IsCompleted), and the written data is dropped.</item>
/// <item>After a read or flush was cancelled, by its token or by CancelPending, the pipe stays usable: no received data
/// is lost, and flushed data is still sent in order. If the token is cancelled before the flush, the written data stays
/// for the next one.</item>
/// <item>Complete of the writer sends the written data, then FIN; the reader continues. Complete of the reader discards
/// further data. Both together close gracefully. Complete with an exception aborts: queued data is dropped, the
/// connection is reset, and <see cref="CloseReason"/> has the exception.</item>
/// <item>Awaiting code resumes as <see cref="ConnectionPipeOptions.Scheduler"/> determines, never inside the completing
/// call.</item>
/// </list>
/// </remarks>
public sealed class ConnectionPipe : IDuplexPipe, IDisposable, IAsyncDisposable
{
    private readonly PipeSession _session;

    internal ConnectionPipe(PipeSession session) => _session = session;

    // ------------------------------------------------------------------ creation

    /// <summary>Connects.</summary>
    /// <exception cref="NetworkException">The connect failed.</exception>
    /// <exception cref="OperationCanceledException">The token was cancelled.</exception>
    /// <exception cref="ArgumentException">The options have mistakes; the message lists all of them.</exception>
    /// <param name="options">Address and limits. Copied.</param>
    /// <param name="pipe">Options of the pipe, or null for the defaults.</param>
    /// <param name="cancellationToken">Cancels the connect.</param>
    public static ValueTask<ConnectionPipe> ConnectAsync(ClientOptions options, ConnectionPipeOptions? pipe = null,
        CancellationToken cancellationToken = default) =>
        SessionOrder.Keep(SessionOrder.Leave(), OpenAsync(options, pipe, cancellationToken));

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    private static async ValueTask<ConnectionPipe> OpenAsync(ClientOptions options, ConnectionPipeOptions? pipe,
        CancellationToken cancellationToken)
    {
        ConnectionPipeOptions own = Checked(pipe);
        Client client = new(options, () => PipeSession.ForPipe(own));
        return ((PipeSession)await client.ConnectAsync(cancellationToken).ConfigureAwait(false)).Pipe!;
    }

    /// <summary>
    /// Connects to an address such as <c>tcp://localhost:1111</c> or <c>unix:/path</c> (<see cref="NetworkAddress"/>),
    /// with default options. Throws as the other form does.
    /// </summary>
    /// <param name="address">Address to connect to.</param>
    /// <param name="cancellationToken">Cancels the connect.</param>
    public static ValueTask<ConnectionPipe> ConnectAsync(string address, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(address);
        return ConnectAsync(new ClientOptions { Address = address }, null, cancellationToken);
    }

    /// <summary>
    /// Returns a session factory for a <see cref="Whimbrel.Server"/>: each connection is served by one call of the
    /// handler, as in <see cref="ConnectionStream.Serve"/>. When it returns, both halves are completed.
    /// </summary>
    /// <param name="handler">Function that serves one connection. Its token is cancelled when the server begins to
    /// stop, and when the connection has ended.</param>
    /// <param name="pipe">Options of all pipes, or null for the defaults.</param>
    /// <exception cref="ArgumentException">The options have a mistake.</exception>
    public static Func<SessionContext, Session> Serve(Func<ConnectionPipe, CancellationToken, Task> handler,
        ConnectionPipeOptions? pipe = null)
    {
        ArgumentNullException.ThrowIfNull(handler);
        ConnectionPipeOptions own = Checked(pipe);
        Task Call(PipeSession session, CancellationToken stop) => handler(session.Pipe!, stop);
        Func<PipeSession, CancellationToken, Task> call = Call;
        return _ => PipeSession.ForPipe(own, new ServedHandler(handler, call));
    }

    /// <summary>
    /// Takes the connection of a session over permanently, unread data included, by a hand-over (contract 15). Call it
    /// in a callback of the session. See <see cref="ConnectionStream.TakeOverAsync"/>.
    /// </summary>
    /// <param name="session">Session that hands its connection over.</param>
    /// <param name="pipe">Options of the pipe, or null for the defaults.</param>
    /// <returns>The pipe. Fails with <see cref="NetworkException"/> if the connection ends before, or is closed by the
    /// same callback.</returns>
    /// <exception cref="InvalidOperationException">The session has a body, no connection, or is ending; or none of its
    /// callbacks runs on this thread.</exception>
    public static ValueTask<ConnectionPipe> TakeOverAsync(Session session, ConnectionPipeOptions? pipe = null)
    {
        ArgumentNullException.ThrowIfNull(session);
        PipeSession next = PipeSession.ForPipe(Checked(pipe));
        return PipeSession.TakeOver(session, next, next.Pipe!);
    }

    private static ConnectionPipeOptions Checked(ConnectionPipeOptions? options) =>
        (options ?? ConnectionPipeOptions.Default).Check();

    // ------------------------------------------------------------------ the two halves

    /// <summary>Reader for the data of the peer.</summary>
    public PipeReader Input => _session.Receiving;

    /// <summary>Writer for data to the peer.</summary>
    public PipeWriter Output => _session.Sending!;

    /// <summary>
    /// Token that is cancelled when no more data will be received: the peer has finished, or the connection has ended.
    /// Its callbacks run on the pool.
    /// </summary>
    public CancellationToken InputEnded => _session.Receiving.Ended;

    // ------------------------------------------------------------------ the connection

    /// <summary>Number of the connection, unique in the process.</summary>
    public long Id => _session.Id;

    /// <summary>The loop that serves the connection.</summary>
    public Loop Loop => _session.Loop;

    /// <summary>The server that accepted the connection, or null.</summary>
    public Server? Server => _session.Server;

    /// <summary>Local address. Readable after the end.</summary>
    public EndPoint? LocalEndPoint => _session.LocalEndPoint;

    /// <summary>Address of the peer; null for a Unix peer without a name. Readable after the end.</summary>
    public EndPoint? RemoteEndPoint => _session.RemoteEndPoint;

    /// <summary>Result of the TLS handshake; null on a connection without TLS.</summary>
    public TlsInfo? Tls => _session.Tls;

    /// <summary>Socket of the connection, as <see cref="Session.Socket"/>.</summary>
    public Socket? Socket => _session.Socket;

    /// <summary>Object that the application keeps with the pipe.</summary>
    public object? Tag
    {
        get => _session.Tag;
        set => _session.Tag = value;
    }

    /// <summary>True until the connection begins to end. May have changed when it returns.</summary>
    public bool IsConnected => _session.IsConnected;

    /// <summary>Reason of the end; cause <see cref="CloseCause.None"/> before.</summary>
    public CloseReason CloseReason => _session.Reason;

    /// <summary>Number of bytes flushed and not yet passed to the kernel.</summary>
    public long BytesPending => _session.BytesPending;

    /// <summary>Number of bytes received so far, including unread ones.</summary>
    public long BytesReceived => _session.BytesReceived;

    /// <summary>Number of bytes passed to the kernel so far.</summary>
    public long BytesSent => _session.BytesSent;

    // ------------------------------------------------------------------ ending

    /// <summary>
    /// Ends the connection at once, discards queued data and resets. Reads throw after the data received before;
    /// flushes are completed.
    /// </summary>
    /// <param name="reason">Exception for <see cref="CloseReason"/>, or null.</param>
    public void Abort(Exception? reason = null) =>
        _session.AbortWith(new CloseReason(CloseCause.LocalAbort, 0, reason));

    /// <summary>
    /// Ends the connection before its halves are completed: flushed data is sent, then FIN, within the limits of a
    /// close. Later flushes are completed, and their data is discarded. Never blocks; any thread.
    /// </summary>
    public void Close() => _session.CloseByOwner();

    /// <summary>Completes both halves: written data is sent, then FIN. Never blocks.</summary>
    public void Dispose()
    {
        Input.Complete();
        Output.Complete();
    }

    /// <summary>
    /// Disposes, and completes when the connection has ended: all data is sent, and the peer has ended too, within the
    /// limits of a close.
    /// </summary>
    public ValueTask DisposeAsync()
    {
        Dispose();
        return _session.CloseAndAwait();
    }

    /// <summary>Returns the id and the peer, for logs.</summary>
    public override string ToString() => _session.ToString();
}
