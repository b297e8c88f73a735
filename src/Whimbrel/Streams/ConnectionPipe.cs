using System.IO.Pipelines;
using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using Whimbrel.Connections;
using Whimbrel.Engines;
using Whimbrel.Streams;

namespace Whimbrel;

/// <summary>
/// A connection as a pair of pipes (<see cref="IDuplexPipe"/>) over any transport and engine: what was received is read where it lies, and what is
/// written goes to the send queue at each flush. There is no <see cref="System.IO.Pipelines.Pipe"/> inside, and no task that pumps.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>Reader and writer may be used on any two threads, each by one at a time; the two Cancel members, <see cref="Abort"/> and what asks only, by all.</item>
/// <item>A read gives what was received and not consumed, once there is more than was examined. One read at a time, and <see cref="PipeReader.AdvanceTo(SequencePosition)"/>
/// between two: else <see cref="InvalidOperationException"/>. The buffer is the reader's until then.</item>
/// <item>With <see cref="ConnectionPipeOptions.HoldBytes"/> received that the reader has not examined, receiving pauses, and the peer has to wait.</item>
/// <item>After the peer's finish reads are completed, with what is left. After another end they give what was received before, then throw
/// <see cref="NetworkException"/>, an <see cref="IOException"/> with code and category.</item>
/// <item>A flush sends all that was written as one message. It completes when its bytes are in the queue, and waits for room while
/// <see cref="ConnectionOptions.SendLimitBytes"/> are pending. When the connection takes nothing more it is completed (IsCompleted), and what was written is dropped.</item>
/// <item>A read or flush that is cancelled, by its token or by CancelPending, leaves the pipe usable: no received byte is lost, and what was flushed still leaves
/// in its order. A token that is cancelled before the flush leaves the bytes written, for the next one.</item>
/// <item>Complete of the writer sends what was written, then FIN; the reader goes on. Complete of the reader throws away what still comes. Both close
/// gracefully. Complete with an exception aborts: queued bytes are dropped, the peer is reset, and the exception stands in <see cref="CloseReason"/>.</item>
/// <item>What awaits goes on where <see cref="ConnectionPipeOptions.Scheduler"/> says, never inside the caller's stack.</item>
/// </list>
/// </remarks>
public sealed class ConnectionPipe : IDuplexPipe, IDisposable, IAsyncDisposable
{
    private readonly PipeSession _session;

    internal ConnectionPipe(PipeSession session) => _session = session;

    // ------------------------------------------------------------------ making one

    /// <summary>Dials. Throws <see cref="NetworkException"/> when that fails, <see cref="OperationCanceledException"/> when cancelled, <see cref="ArgumentException"/> with all mistakes in the options.</summary>
    /// <param name="options">Where to, and the limits. Copied.</param>
    /// <param name="pipe">Of the pipe, or null for the defaults.</param>
    /// <param name="cancellationToken">Gives up the dial.</param>
    public static ValueTask<ConnectionPipe> ConnectAsync(ClientOptions options, ConnectionPipeOptions? pipe = null, CancellationToken cancellationToken = default) =>
        SessionOrder.Keep(SessionOrder.Leave(), OpenAsync(options, pipe, cancellationToken));

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    private static async ValueTask<ConnectionPipe> OpenAsync(ClientOptions options, ConnectionPipeOptions? pipe, CancellationToken cancellationToken)
    {
        ConnectionPipeOptions own = Checked(pipe);
        Client client = new(options, () => new PipeSession(null, own));
        return ((PipeSession)await client.ConnectAsync(cancellationToken).ConfigureAwait(false)).Pipe;
    }

    /// <summary>Dials an address such as <c>tcp://localhost:1111</c> or <c>unix:/path</c> (<see cref="NetworkAddress"/>), with default options. Throws as the other form.</summary>
    /// <param name="address">Where to.</param>
    /// <param name="cancellationToken">Gives up the dial.</param>
    public static ValueTask<ConnectionPipe> ConnectAsync(string address, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(address);
        return ConnectAsync(new ClientOptions { Address = address }, null, cancellationToken);
    }

    /// <summary>
    /// A session factory for a <see cref="Whimbrel.Server"/>: each connection is served by one call of the handler, exactly as by
    /// <see cref="ConnectionStream.Serve"/>; when it returns, both halves are completed.
    /// </summary>
    /// <param name="handler">What to do with a connection. Its token is cancelled when the server begins to stop, and when the connection has ended.</param>
    /// <param name="pipe">Of all its pipes, or null for the defaults.</param>
    /// <exception cref="ArgumentException">A mistake in the options.</exception>
    public static Func<SessionContext, Session> Serve(Func<ConnectionPipe, CancellationToken, Task> handler, ConnectionPipeOptions? pipe = null)
    {
        ArgumentNullException.ThrowIfNull(handler);
        ConnectionPipeOptions own = Checked(pipe);
        return _ => new PipeSession(handler, own);
    }

    /// <summary>
    /// Takes the connection of a session over for good, unread bytes included, by a hand-over (contract 15): call it in a callback of the
    /// session. As <see cref="ConnectionStream.TakeOverAsync"/>.
    /// </summary>
    /// <param name="session">Who gives its connection away.</param>
    /// <param name="pipe">Of the pipe, or null for the defaults.</param>
    /// <returns>The pipe. Fails with <see cref="NetworkException"/> when the connection ends before, or is closed by the same callback.</returns>
    /// <exception cref="InvalidOperationException">The session has a body, no connection, or is ending; or none of its callbacks runs on this thread.</exception>
    public static ValueTask<ConnectionPipe> TakeOverAsync(Session session, ConnectionPipeOptions? pipe = null)
    {
        ArgumentNullException.ThrowIfNull(session);
        return PipeSession.TakeOver(session, Checked(pipe));
    }

    private static ConnectionPipeOptions Checked(ConnectionPipeOptions? options) => (options ?? ConnectionPipeOptions.Default).Check();

    // ------------------------------------------------------------------ the two halves

    /// <summary>What the peer sends.</summary>
    public PipeReader Input => _session.Receiving;

    /// <summary>What is sent to the peer.</summary>
    public PipeWriter Output => _session.Sending;

    /// <summary>Cancelled when nothing more will be received: the peer has finished, or the connection has ended. What is registered with it runs on the pool.</summary>
    public CancellationToken InputEnded => _session.Receiving.Ended;

    // ------------------------------------------------------------------ the connection

    /// <summary>Number of the connection, unique in the process.</summary>
    public long Id => _session.Id;

    /// <summary>The loop that serves it.</summary>
    public Loop Loop => _session.Loop;

    /// <summary>The server that accepted it, or null.</summary>
    public Server? Server => _session.Server;

    /// <summary>This side's address. Stays readable after the end.</summary>
    public EndPoint? LocalEndPoint => _session.LocalEndPoint;

    /// <summary>The peer's address; null for a Unix peer without a name. Stays readable after the end.</summary>
    public EndPoint? RemoteEndPoint => _session.RemoteEndPoint;

    /// <summary>What TLS agreed on; null on a plain connection.</summary>
    public TlsInfo? Tls => _session.Tls;

    /// <summary>A Socket object over the connection's descriptor, as <see cref="Session.Socket"/>.</summary>
    public Socket? Socket => _session.Socket;

    /// <summary>Anything the user wants to keep with it.</summary>
    public object? Tag
    {
        get => _session.Tag;
        set => _session.Tag = value;
    }

    /// <summary>True until the connection begins to end. May have changed when it returns.</summary>
    public bool IsConnected => _session.IsConnected;

    /// <summary>Why it has ended; cause <see cref="CloseCause.None"/> before.</summary>
    public CloseReason CloseReason => _session.Reason;

    /// <summary>Bytes flushed and not yet given to the system.</summary>
    public long BytesPending => _session.BytesPending;

    /// <summary>Bytes received so far, also those that were not read yet.</summary>
    public long BytesReceived => _session.BytesReceived;

    /// <summary>Bytes given to the system so far.</summary>
    public long BytesSent => _session.BytesSent;

    // ------------------------------------------------------------------ ending

    /// <summary>
    /// Closes at once and throws away what is queued; the peer is reset. Reads throw after what was received, flushes are completed.
    /// </summary>
    /// <param name="reason">Stands in <see cref="CloseReason"/>. May be null.</param>
    public void Abort(Exception? reason = null) => _session.AbortWith(new CloseReason(CloseCause.LocalAbort, 0, reason));

    /// <summary>
    /// Ends the connection though its halves are not completed: what was flushed is sent, then FIN, within the limits of a close. Later flushes are completed, and what they were given is thrown away. Never
    /// blocks; any thread.
    /// </summary>
    public void Close() => _session.CloseByOwner();

    /// <summary>Completes both halves: what was written is sent, then FIN. Never blocks.</summary>
    public void Dispose()
    {
        Input.Complete();
        Output.Complete();
    }

    /// <summary><see cref="Dispose"/>, and completes when the connection has ended: all is sent, and the peer has ended too, within the limits of a close.</summary>
    public ValueTask DisposeAsync()
    {
        Dispose();
        return _session.CloseAndAwait();
    }

    /// <summary>Id and peer, for logs.</summary>
    public override string ToString() => _session.ToString();
}
