using System.Buffers;
using System.Net;
using System.Runtime.CompilerServices;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Streams;

namespace Whimbrel;

/// <summary>
/// A connection as a <see cref="Stream"/>, over any transport and engine. Reads are those of a pipe
/// (Streams/ReceivingPipe.cs), copied to the caller; writes are queued like other sends.
/// </summary>
/// <remarks>
/// <list type="bullet">
/// <item>May be used on any thread. On its loop the asynchronous members are cheapest, and awaiting code resumes there,
/// never inside the completing call; elsewhere it resumes on the pool.</item>
/// <item>One read at a time; a second one throws <see cref="InvalidOperationException"/>. Without a read up to 64 KiB
/// are kept, then the peer has to wait.</item>
/// <item>A read of zero bytes waits for data or the end. A cancelled or timed-out read loses no data, and the stream
/// stays usable.</item>
/// <item>After the peer's end of stream reads return 0. After any other end they return the data received before, then
/// throw <see cref="NetworkException"/>, an <see cref="IOException"/> with code and category.</item>
/// <item>Several threads may write at the same time: each write stays in one piece, and those of one thread keep their
/// order. A write completes when its data is queued and the memory may be reused; it waits for space while
/// <see cref="ConnectionLimits.SendBytes"/> are pending. If it is cancelled or times out before its first part,
/// nothing is sent; after that it aborts the connection (contract 6).</item>
/// <item>Queued data is sent at the end of the turn: Flush has no effect.</item>
/// <item>The synchronous members block, with <see cref="ReadTimeout"/> and <see cref="WriteTimeout"/>. On a loop's
/// thread they throw <see cref="InvalidOperationException"/>, because they would block the whole loop. The blocked
/// thread measures the timeout itself, and withdraws an operation that the loop has not started, so a timeout also
/// works while a callback blocks the loop. Only a write that was partly sent waits for the loop, which aborts.</item>
/// <item>Dispose closes gracefully: written data is sent, then FIN. DisposeAsync also waits for the end.
/// <see cref="Abort"/> resets.</item>
/// </list>
/// </remarks>
public sealed class ConnectionStream : Stream
{
    private readonly PipeSession _session;
    private int _readTimeoutMs = Timeout.Infinite;
    private int _writeTimeoutMs = Timeout.Infinite;
    private int _isDisposed;

    internal ConnectionStream(PipeSession session) => _session = session;

    // ------------------------------------------------------------------ creation

    /// <summary>Connects.</summary>
    /// <exception cref="NetworkException">The connect failed.</exception>
    /// <exception cref="OperationCanceledException">The token was cancelled.</exception>
    /// <exception cref="ArgumentException">The options have mistakes; the message lists all of them.</exception>
    /// <param name="options">Address and limits. Copied.</param>
    /// <param name="cancellationToken">Cancels the connect.</param>
    public static ValueTask<ConnectionStream> ConnectAsync(ClientOptions options,
        CancellationToken cancellationToken = default) =>
        SessionOrder.Keep(SessionOrder.Leave(), OpenAsync(options, cancellationToken));

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    private static async ValueTask<ConnectionStream> OpenAsync(ClientOptions options,
        CancellationToken cancellationToken)
    {
        Client client = new(options, static () => PipeSession.ForStream());
        return ((PipeSession)await client.ConnectAsync(cancellationToken).ConfigureAwait(false)).Stream!;
    }

    /// <summary>
    /// Connects to an address such as <c>tcp://localhost:1111</c> or <c>unix:/path</c> (<see cref="NetworkAddress"/>),
    /// with default options. Throws as the other form does.
    /// </summary>
    /// <param name="address">Address to connect to.</param>
    /// <param name="cancellationToken">Cancels the connect.</param>
    public static ValueTask<ConnectionStream> ConnectAsync(string address,
        CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(address);
        return ConnectAsync(new ClientOptions { Address = address }, cancellationToken);
    }

    /// <summary>
    /// Returns a session factory for a <see cref="Whimbrel.Server"/>: each connection is served by one call of the
    /// handler, which starts on the connection's loop. When it returns, the stream is closed gracefully. When it
    /// throws, that connection is aborted and a diagnostic event is reported, unless the connection itself failed. Its
    /// token is cancelled when the server begins to stop, and when the connection has ended; until the deadline of the
    /// stop it may still read and write.
    /// </summary>
    /// <param name="handler">Function that serves one connection.</param>
    public static Func<SessionContext, Session> Serve(Func<ConnectionStream, CancellationToken, Task> handler)
    {
        ArgumentNullException.ThrowIfNull(handler);
        Task Call(PipeSession session, CancellationToken stop) => handler(session.Stream!, stop);
        Func<PipeSession, CancellationToken, Task> call = Call;
        return _ => PipeSession.ForStream(new ServedHandler(handler, call));
    }

    /// <summary>
    /// Takes the connection of a session over permanently, unread data included, by a hand-over (contract 15). Call it
    /// in a callback of the session. Completes when the hand-over is done, after the session's OnDisconnected. Earlier
    /// sends of the session stay first, and its pause ends. With callbacks on the pool the awaiting code resumes there,
    /// and the stream is used as from any thread. For a stream with an end, of a session that continues, see
    /// <see cref="Session.StartBody"/>.
    /// </summary>
    /// <param name="session">Session that hands its connection over.</param>
    /// <returns>The stream. Fails with <see cref="NetworkException"/> if the connection ends before, or is closed by
    /// the same callback.</returns>
    /// <exception cref="InvalidOperationException">The session has a body, no connection, or is ending; or none of its
    /// callbacks runs on this thread.</exception>
    public static ValueTask<ConnectionStream> TakeOverAsync(Session session)
    {
        ArgumentNullException.ThrowIfNull(session);
        PipeSession next = PipeSession.ForStream();
        return PipeSession.TakeOver(session, next, next.Stream!);
    }

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

    /// <summary>Object that the application keeps with the stream.</summary>
    public object? Tag
    {
        get => _session.Tag;
        set => _session.Tag = value;
    }

    /// <summary>True until the connection begins to end. May have changed when it returns.</summary>
    public bool IsConnected => _session.IsConnected;

    /// <summary>Reason of the end; cause <see cref="CloseCause.None"/> before.</summary>
    public CloseReason CloseReason => _session.Reason;

    /// <summary>Number of bytes written and not yet passed to the kernel.</summary>
    public long BytesPending => _session.BytesPending;

    /// <summary>Number of bytes received so far, including unread ones.</summary>
    public long BytesReceived => _session.BytesReceived;

    /// <summary>Number of bytes passed to the kernel so far.</summary>
    public long BytesSent => _session.BytesSent;

    // ------------------------------------------------------------------ reading

    /// <summary>Reads available data, or waits for some. See the remarks of the class.</summary>
    /// <param name="buffer">Memory to fill, from its start; with length 0 the call only waits.</param>
    /// <param name="cancellationToken">Cancels the wait; no data is lost.</param>
    /// <returns>Number of bytes read; 0 at the peer's end of stream.</returns>
    public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default)
    {
        ThrowIfDisposed();
        return _session.Receiving.ReadAsync(buffer, cancellationToken);
    }

    /// <inheritdoc/>
    public override Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken)
    {
        ValidateBufferArguments(buffer, offset, count);
        return ReadAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();
    }

    /// <summary>Reads available data, or blocks until there is some. Not on a loop's thread.</summary>
    /// <param name="buffer">Array to fill.</param>
    /// <param name="offset">Offset of the first byte in <paramref name="buffer"/>.</param>
    /// <param name="count">Maximum number of bytes; 0 only waits.</param>
    /// <returns>Number of bytes read; 0 at the peer's end of stream.</returns>
    public override int Read(byte[] buffer, int offset, int count)
    {
        ValidateBufferArguments(buffer, offset, count);
        return Read(buffer.AsMemory(offset, count));
    }

    /// <inheritdoc/>
    public override int Read(Span<byte> buffer)
    {
        // The loop copies into the memory, and a span cannot be passed to another thread.
        int length = Math.Min(buffer.Length, ConnectionPipeOptions.Default.HoldBytes);
        byte[] bytes = ArrayPool<byte>.Shared.Rent(length);
        try
        {
            int count = Read(bytes.AsMemory(0, length));
            bytes.AsSpan(0, count).CopyTo(buffer);
            return count;
        }
        finally
        {
            ArrayPool<byte>.Shared.Return(bytes);
        }
    }

    private int Read(Memory<byte> into)
    {
        ThrowIfDisposed();
        ThrowIfOnLoop(nameof(Read));
        return _session.Receiving.Read(into, _readTimeoutMs);
    }

    /// <summary>Reads one byte and blocks if needed. Not on a loop's thread.</summary>
    /// <returns>The byte, or -1 at the peer's end of stream.</returns>
    public override int ReadByte()
    {
        Span<byte> one = stackalloc byte[1];
        return Read(one) == 0 ? -1 : one[0];
    }

    /// <inheritdoc/>
    public override IAsyncResult BeginRead(byte[] buffer, int offset, int count, AsyncCallback? callback,
        object? state) =>
        TaskToAsyncResult.Begin(ReadAsync(buffer, offset, count, CancellationToken.None), callback, state);

    /// <inheritdoc/>
    public override int EndRead(IAsyncResult asyncResult) => TaskToAsyncResult.End<int>(asyncResult);

    // ------------------------------------------------------------------ writing

    /// <summary>Waits for queue space, then queues the data. See the remarks of the class.</summary>
    /// <param name="buffer">Bytes to write. May be reused when the task completes.</param>
    /// <param name="cancellationToken">Cancels the wait; after the first part of a long write it aborts the
    /// connection.</param>
    public override ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default)
    {
        ThrowIfDisposed();
        return Written(_session.SendAsync(buffer, cancellationToken));
    }

    /// <summary>Waits for queue space, then queues two parts as one write, with nothing between them.</summary>
    /// <param name="head">First part. May be reused when the task completes, like the second one.</param>
    /// <param name="body">Second part.</param>
    /// <param name="cancellationToken">Same as in the other <c>WriteAsync</c>.</param>
    public ValueTask WriteAsync(ReadOnlyMemory<byte> head, ReadOnlyMemory<byte> body,
        CancellationToken cancellationToken = default)
    {
        ThrowIfDisposed();
        return Written(_session.SendAsync(Outgoing.Pieces([head, body]), cancellationToken));
    }

    private ValueTask Written(ValueTask<SendResult> sending)
    {
        if (!sending.IsCompletedSuccessfully) return SessionOrder.Keep(SessionOrder.Leave(), WaitForRoomAsync(sending));
        return sending.Result == SendResult.Queued ? default : _session.FailWriteAsync();
    }

    // Pooled, so that a stream that waits for space repeatedly allocates nothing.
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    private async ValueTask WaitForRoomAsync(ValueTask<SendResult> sending)
    {
        if (await sending.ConfigureAwait(false) != SendResult.Queued)
            await _session.FailWriteAsync().ConfigureAwait(false);
    }

    /// <inheritdoc/>
    public override Task WriteAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken)
    {
        ValidateBufferArguments(buffer, offset, count);
        return WriteAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();
    }

    /// <summary>Queues the data, and blocks until there is space. Not on a loop's thread.</summary>
    /// <param name="buffer">Array with the bytes to write.</param>
    /// <param name="offset">Offset of the first byte in <paramref name="buffer"/>.</param>
    /// <param name="count">Number of bytes.</param>
    public override void Write(byte[] buffer, int offset, int count)
    {
        ValidateBufferArguments(buffer, offset, count);
        Write(buffer.AsMemory(offset, count));
    }

    /// <inheritdoc/>
    public override void Write(ReadOnlySpan<byte> buffer)
    {
        // The write may have to wait, and a span cannot be passed to another thread.
        byte[] bytes = ArrayPool<byte>.Shared.Rent(buffer.Length);
        try
        {
            buffer.CopyTo(bytes);
            Write(bytes.AsMemory(0, buffer.Length));
        }
        finally
        {
            ArrayPool<byte>.Shared.Return(bytes);
        }
    }

    /// <inheritdoc/>
    public override void WriteByte(byte value) => Write([value]);

    private void Write(ReadOnlyMemory<byte> data)
    {
        ThrowIfDisposed();
        ThrowIfOnLoop(nameof(Write));
        int timeoutMs = _writeTimeoutMs; // read once, because it decides the owner of the memory after a timeout
        if (_session.BeginSend(data, mayBeTakenBack: timeoutMs != Timeout.Infinite, out SendResult result)
            is { } operation)
            result = AwaitRoom(operation, timeoutMs);
        if (result != SendResult.Queued) _session.FailWrite();
    }

    private SendResult AwaitRoom(SendOperation operation, int timeoutMs)
    {
        short version = operation.Version;
        bool timedOut = false;
        if (operation.SignalWhenCompleted() is { } signal
            && !Loop.Engine.Block(signal, TimeSpan.FromMilliseconds(timeoutMs)))
        {
            timedOut = true;
            operation.CancelRequested();
            if (operation.TryTake()) throw TimedOut(timeoutMs, null);
            Loop.Engine.Block(signal, Timeout.InfiniteTimeSpan);
        }

        try
        {
            return operation.GetResult(version);
        }
        catch (OperationCanceledException e) when (timedOut)
        {
            throw TimedOut(timeoutMs, e);
        }
    }

    private static NetworkException TimedOut(int timeoutMs, Exception? cause) =>
        new(new NetworkError(0, ErrorCategory.Timeout,
            $"There was no room to write within {timeoutMs} ms (WriteTimeout): the peer reads too slowly."), cause);

    /// <inheritdoc/>
    public override IAsyncResult BeginWrite(byte[] buffer, int offset, int count, AsyncCallback? callback,
        object? state) =>
        TaskToAsyncResult.Begin(WriteAsync(buffer, offset, count, CancellationToken.None), callback, state);

    /// <inheritdoc/>
    public override void EndWrite(IAsyncResult asyncResult) => TaskToAsyncResult.End(asyncResult);

    /// <summary>Has no effect: written data is sent without it.</summary>
    public override void Flush()
    {
    }

    /// <summary>Has no effect: written data is sent without it.</summary>
    /// <param name="cancellationToken">Checked once.</param>
    public override Task FlushAsync(CancellationToken cancellationToken) =>
        cancellationToken.IsCancellationRequested ? Task.FromCanceled(cancellationToken) : Task.CompletedTask;

    // ------------------------------------------------------------------ ending

    /// <summary>
    /// Shuts down the sending side: written data is sent, then FIN. Reads continue; later writes throw. Any thread.
    /// </summary>
    public void ShutdownSend() => _session.ShutdownSend();

    /// <summary>Ends the connection at once: discards queued data and resets. Any thread.</summary>
    public void Abort() => _session.Abort();

    /// <summary>Closes gracefully. Never blocks. Any thread.</summary>
    /// <param name="disposing">True if called by <see cref="IDisposable.Dispose"/>.</param>
    protected override void Dispose(bool disposing)
    {
        if (disposing && Interlocked.Exchange(ref _isDisposed, 1) == 0) _session.CloseStream();
        base.Dispose(disposing);
    }

    /// <summary>
    /// Closes gracefully, and completes when the connection has ended: all data is sent, and the peer has ended too,
    /// within the limits of a close.
    /// </summary>
    public override ValueTask DisposeAsync()
    {
        ValueTask disposed = base.DisposeAsync();
        return disposed.IsCompletedSuccessfully ? _session.CloseAndAwait() : disposed;
    }

    private void ThrowIfDisposed()
    {
        if (Volatile.Read(ref _isDisposed) != 0) throw PipeSession.Disposed();
    }

    private static void ThrowIfOnLoop(string member)
    {
        if (Loop.Current is not null) Throw.BlocksLoop(member);
    }

    // ------------------------------------------------------------------ other members of Stream

    /// <inheritdoc/>
    public override bool CanRead => Volatile.Read(ref _isDisposed) == 0;

    /// <inheritdoc/>
    public override bool CanWrite => Volatile.Read(ref _isDisposed) == 0;

    /// <inheritdoc/>
    public override bool CanSeek => false;

    /// <inheritdoc/>
    public override bool CanTimeout => true;

    /// <summary>
    /// Maximum time in milliseconds that a synchronous read waits for its first byte; then it throws with category
    /// <see cref="ErrorCategory.Timeout"/>, and the stream stays usable. From 1; default -1, no limit.
    /// </summary>
    public override int ReadTimeout
    {
        get => _readTimeoutMs;
        set => _readTimeoutMs = BodyStream.CheckTimeout(value, nameof(ReadTimeout));
    }

    /// <summary>
    /// Maximum time in milliseconds that a synchronous write waits for space; then it throws with category
    /// <see cref="ErrorCategory.Timeout"/>, with the same effect as a cancellation. From 1; default -1, no limit.
    /// </summary>
    public override int WriteTimeout
    {
        get => _writeTimeoutMs;
        set => _writeTimeoutMs = BodyStream.CheckTimeout(value, nameof(WriteTimeout));
    }

    /// <summary>Not supported: a connection has no length.</summary>
    public override long Length => throw NoSeeking();

    /// <summary>Not supported: a connection has no position.</summary>
    public override long Position
    {
        get => throw NoSeeking();
        set => throw NoSeeking();
    }

    /// <inheritdoc/>
    public override long Seek(long offset, SeekOrigin origin) => throw NoSeeking();

    /// <inheritdoc/>
    public override void SetLength(long value) => throw NoSeeking();

    private static NotSupportedException NoSeeking() => new("A connection can only be read and written forwards.");

    /// <summary>Returns the id and the peer, for logs.</summary>
    public override string ToString() => _session.ToString();
}
