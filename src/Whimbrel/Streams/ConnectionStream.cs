using System.Buffers;
using System.Net;
using System.Runtime.CompilerServices;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Streams;

namespace Whimbrel;

/// <summary>
/// A connection in pull style: a <see cref="Stream"/> over any transport and engine. A session inside turns its callbacks
/// into reads (Streams/StreamSession.cs); writes go to the send queue like any other sends.
/// </summary>
/// <remarks>
/// <list type="bullet">
/// <item>Any thread may use it. On its loop the asynchronous members cost least, and what awaits there continues there, never
/// inside the caller's stack; awaited elsewhere it continues on the pool.</item>
/// <item>One read at a time; a second throws <see cref="InvalidOperationException"/>. The memory is the caller's, and bytes
/// that come while it waits are copied straight into it. Without a read up to 64 KiB are kept, then the peer has to wait.</item>
/// <item>A read of no bytes waits until there are some, or the end. A cancelled or timed-out read loses none, and the stream goes on.</item>
/// <item>After the peer's end reads give 0. After another end they give what was received before, then throw
/// <see cref="NetworkException"/>, which is an <see cref="IOException"/> with code and category.</item>
/// <item>Several may write at once: each write stays whole, those of one thread keep their order. A write completes when
/// its bytes are in the queue and the memory may be reused; it waits for room, up to
/// <see cref="ConnectionOptions.SendLimitBytes"/> being pending. Cancelled or timed out before its first piece it leaves
/// nothing sent; after that it aborts the connection (contract 6).</item>
/// <item>Queued bytes leave at the end of the turn by themselves: Flush does nothing.</item>
/// <item>The synchronous members block, with <see cref="ReadTimeout"/> and <see cref="WriteTimeout"/>; on a loop's thread
/// they throw <see cref="InvalidOperationException"/>, because they would stop everything else there. Who blocks is his own timer, and takes back what the loop has
/// not begun: a limit holds also while somebody's callback blocks the loop. Only a write of which a part has left waits for the loop, which aborts.</item>
/// <item>Dispose closes gracefully: what was written is sent, then FIN. DisposeAsync also waits for the end. <see cref="Abort"/> resets.</item>
/// </list>
/// </remarks>
public sealed class ConnectionStream : Stream
{
    private readonly StreamSession _session;
    private int _readTimeoutMs = Timeout.Infinite;
    private int _writeTimeoutMs = Timeout.Infinite;
    private int _isDisposed;

    internal ConnectionStream(StreamSession session) => _session = session;

    // ------------------------------------------------------------------ making one

    /// <summary>Dials. Throws <see cref="NetworkException"/> when that fails, <see cref="OperationCanceledException"/> when cancelled, <see cref="ArgumentException"/> with all mistakes in the options.</summary>
    /// <param name="options">Where to, and the limits. Copied.</param>
    /// <param name="cancellationToken">Gives up the dial.</param>
    public static ValueTask<ConnectionStream> ConnectAsync(ClientOptions options, CancellationToken cancellationToken = default) =>
        SessionOrder.Keep(SessionOrder.Leave(), OpenAsync(options, cancellationToken));

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    private static async ValueTask<ConnectionStream> OpenAsync(ClientOptions options, CancellationToken cancellationToken)
    {
        Client client = new(options, static () => new StreamSession(null));
        return ((StreamSession)await client.ConnectAsync(cancellationToken).ConfigureAwait(false)).Stream;
    }

    /// <summary>Dials an address such as <c>tcp://localhost:1111</c> or <c>unix:/path</c> (<see cref="NetworkAddress"/>), with default options. Throws as the other form.</summary>
    /// <param name="address">Where to.</param>
    /// <param name="cancellationToken">Gives up the dial.</param>
    public static ValueTask<ConnectionStream> ConnectAsync(string address, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(address);
        return ConnectAsync(new ClientOptions { Address = address }, cancellationToken);
    }

    /// <summary>
    /// A session factory for a <see cref="Whimbrel.Server"/>: each connection is served by one call of the handler, which starts on
    /// the connection's loop. When it returns, the stream is closed gracefully; when it throws, that connection is aborted and
    /// a notice tells why (no notice when only the connection failed). Its token is cancelled when the server begins to stop,
    /// and when the connection has ended; until the deadline of the stop it may still read and write.
    /// </summary>
    /// <param name="handler">What to do with a connection.</param>
    public static Func<SessionContext, Session> Serve(Func<ConnectionStream, CancellationToken, Task> handler)
    {
        ArgumentNullException.ThrowIfNull(handler);
        return _ => new StreamSession(handler);
    }

    /// <summary>
    /// Takes the connection of a session over for good, unread bytes included, by a hand-over (contract 15): call it in a callback of the
    /// session. Completes when the hand-over has happened, after the session's OnDisconnected; what is sent by the session before stays in front, and
    /// its pause ends. With callbacks on the pool what awaits this goes on there, and the stream is used as from any thread.
    /// A stream that ends, of a session that goes on, is <see cref="Session.StartBody"/>.
    /// </summary>
    /// <param name="session">Who gives its connection away.</param>
    /// <returns>The stream. Fails with <see cref="NetworkException"/> when the connection ends before, or is closed by the same callback.</returns>
    /// <exception cref="InvalidOperationException">The session has a body, no connection, or is ending; or none of its callbacks runs on this thread.</exception>
    public static ValueTask<ConnectionStream> TakeOverAsync(Session session)
    {
        ArgumentNullException.ThrowIfNull(session);
        return StreamSession.TakeOver(session);
    }

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

    /// <summary>Bytes written and not yet given to the system.</summary>
    public long BytesPending => _session.BytesPending;

    /// <summary>Bytes received so far, also those that were not read yet.</summary>
    public long BytesReceived => _session.BytesReceived;

    /// <summary>Bytes given to the system so far.</summary>
    public long BytesSent => _session.BytesSent;

    // ------------------------------------------------------------------ reading

    /// <summary>Reads what there is, or waits for it. What holds for all reads stands at the class.</summary>
    /// <param name="buffer">Filled from its start; of length 0 it only waits.</param>
    /// <param name="cancellationToken">Gives up waiting; no byte is lost.</param>
    /// <returns>How many bytes; 0 at the peer's end.</returns>
    public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default)
    {
        ThrowIfDisposed();
        return _session.ReadAsync(buffer, cancellationToken);
    }

    /// <inheritdoc/>
    public override Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken)
    {
        ValidateBufferArguments(buffer, offset, count);
        return ReadAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();
    }

    /// <summary>Reads what there is, or blocks until there is some. Not on a loop's thread.</summary>
    /// <param name="buffer">Filled from <paramref name="offset"/>.</param>
    /// <param name="offset">Where to begin.</param>
    /// <param name="count">How many bytes at most; 0 only waits.</param>
    /// <returns>How many bytes; 0 at the peer's end.</returns>
    public override int Read(byte[] buffer, int offset, int count)
    {
        ValidateBufferArguments(buffer, offset, count);
        return Read(buffer.AsMemory(offset, count));
    }

    /// <inheritdoc/>
    public override int Read(Span<byte> buffer)
    {
        // The loop copies into memory, and a span cannot be lent to another thread.
        int length = Math.Min(buffer.Length, StreamSession.HoldBytes);
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
        return _session.Read(into, _readTimeoutMs);
    }

    /// <summary>Reads one byte, blocking. Not on a loop's thread.</summary>
    /// <returns>The byte, or -1 at the peer's end.</returns>
    public override int ReadByte()
    {
        Span<byte> one = stackalloc byte[1];
        return Read(one) == 0 ? -1 : one[0];
    }

    /// <inheritdoc/>
    public override IAsyncResult BeginRead(byte[] buffer, int offset, int count, AsyncCallback? callback, object? state) =>
        TaskToAsyncResult.Begin(ReadAsync(buffer, offset, count, CancellationToken.None), callback, state);

    /// <inheritdoc/>
    public override int EndRead(IAsyncResult asyncResult) => TaskToAsyncResult.End<int>(asyncResult);

    // ------------------------------------------------------------------ writing

    /// <summary>Queues the bytes, waiting for room. What holds for all writes stands at the class.</summary>
    /// <param name="buffer">May be reused when it completes.</param>
    /// <param name="cancellationToken">Gives up waiting; after the first piece of a long write it aborts the connection.</param>
    public override ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default)
    {
        ThrowIfDisposed();
        return Written(_session.SendAsync(buffer, cancellationToken));
    }

    /// <summary>Queues two pieces as one write, waiting for room: a head and what it describes, nothing between them.</summary>
    /// <param name="head">The first piece. Like the second it may be reused when this completes.</param>
    /// <param name="body">The second piece.</param>
    /// <param name="cancellationToken">As in the other <c>WriteAsync</c>.</param>
    public ValueTask WriteAsync(ReadOnlyMemory<byte> head, ReadOnlyMemory<byte> body, CancellationToken cancellationToken = default)
    {
        ThrowIfDisposed();
        return Written(_session.SendAsync(head, body, cancellationToken));
    }

    private ValueTask Written(ValueTask<SendResult> sending)
    {
        if (!sending.IsCompletedSuccessfully) return SessionOrder.Keep(SessionOrder.Leave(), WaitForRoomAsync(sending));
        return sending.Result == SendResult.Queued ? default : _session.FailWriteAsync();
    }

    // From the pool: a stream that waits for room again and again allocates nothing.
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    private async ValueTask WaitForRoomAsync(ValueTask<SendResult> sending)
    {
        if (await sending.ConfigureAwait(false) != SendResult.Queued) await _session.FailWriteAsync().ConfigureAwait(false);
    }

    /// <inheritdoc/>
    public override Task WriteAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken)
    {
        ValidateBufferArguments(buffer, offset, count);
        return WriteAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();
    }

    /// <summary>Queues the bytes, blocking until there is room. Not on a loop's thread.</summary>
    /// <param name="buffer">What to send, from <paramref name="offset"/>.</param>
    /// <param name="offset">Where to begin.</param>
    /// <param name="count">How many bytes.</param>
    public override void Write(byte[] buffer, int offset, int count)
    {
        ValidateBufferArguments(buffer, offset, count);
        Write(buffer.AsMemory(offset, count));
    }

    /// <inheritdoc/>
    public override void Write(ReadOnlySpan<byte> buffer)
    {
        // It may have to wait, and a span cannot be lent to another thread.
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
        int timeoutMs = _writeTimeoutMs; // once: it says whose the memory is in the end
        if (_session.BeginSend(data, mayBeTakenBack: timeoutMs != Timeout.Infinite, out SendResult result) is { } operation) result = AwaitRoom(operation, timeoutMs);
        if (result != SendResult.Queued) _session.FailWrite();
    }

    private SendResult AwaitRoom(SendOperation operation, int timeoutMs)
    {
        short version = operation.Version;
        bool timedOut = false;
        if (operation.SignalWhenCompleted() is { } signal && !Loop.Engine.Block(signal, TimeSpan.FromMilliseconds(timeoutMs)))
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
        new(new NetworkError(0, ErrorCategory.Timeout, $"There was no room to write within {timeoutMs} ms (WriteTimeout): the peer reads too slowly."), cause);

    /// <inheritdoc/>
    public override IAsyncResult BeginWrite(byte[] buffer, int offset, int count, AsyncCallback? callback, object? state) =>
        TaskToAsyncResult.Begin(WriteAsync(buffer, offset, count, CancellationToken.None), callback, state);

    /// <inheritdoc/>
    public override void EndWrite(IAsyncResult asyncResult) => TaskToAsyncResult.End(asyncResult);

    /// <summary>Nothing to do: what was written leaves by itself.</summary>
    public override void Flush()
    {
    }

    /// <summary>Nothing to do: what was written leaves by itself.</summary>
    /// <param name="cancellationToken">Looked at once.</param>
    public override Task FlushAsync(CancellationToken cancellationToken) =>
        cancellationToken.IsCancellationRequested ? Task.FromCanceled(cancellationToken) : Task.CompletedTask;

    // ------------------------------------------------------------------ ending

    /// <summary>Ends this half: what was written is sent, then FIN. Reading goes on; later writes throw. Any thread.</summary>
    public void ShutdownSend() => _session.ShutdownSend();

    /// <summary>Ends the connection now: discards what is queued, and resets. Any thread.</summary>
    public void Abort() => _session.Abort();

    /// <summary>Closes gracefully. Never blocks, so any thread.</summary>
    /// <param name="disposing">True from <see cref="IDisposable.Dispose"/>.</param>
    protected override void Dispose(bool disposing)
    {
        if (disposing && Interlocked.Exchange(ref _isDisposed, 1) == 0) _session.CloseStream();
        base.Dispose(disposing);
    }

    /// <summary>Closes gracefully and completes when the connection has ended: all is sent, and the peer has ended too, within the limits of a close.</summary>
    public override ValueTask DisposeAsync()
    {
        ValueTask disposed = base.DisposeAsync();
        return disposed.IsCompletedSuccessfully ? _session.CloseAndAwait() : disposed;
    }

    private void ThrowIfDisposed()
    {
        if (Volatile.Read(ref _isDisposed) != 0) throw StreamSession.Disposed();
    }

    private static void ThrowIfOnLoop(string member)
    {
        if (Loop.Current is not null) Throw.BlocksLoop(member);
    }

    // ------------------------------------------------------------------ what a stream is asked for

    /// <inheritdoc/>
    public override bool CanRead => Volatile.Read(ref _isDisposed) == 0;

    /// <inheritdoc/>
    public override bool CanWrite => Volatile.Read(ref _isDisposed) == 0;

    /// <inheritdoc/>
    public override bool CanSeek => false;

    /// <inheritdoc/>
    public override bool CanTimeout => true;

    /// <summary>Longest time that a synchronous read waits for its first byte, in milliseconds; then it throws with category <see cref="ErrorCategory.Timeout"/>, and the stream goes on. From 1; -1 (the default) is without limit.</summary>
    public override int ReadTimeout
    {
        get => _readTimeoutMs;
        set => _readTimeoutMs = BodyStream.CheckTimeout(value, nameof(ReadTimeout));
    }

    /// <summary>Longest time that a synchronous write waits for room, in milliseconds; then it throws with category <see cref="ErrorCategory.Timeout"/>, and ends as a cancelled one does. From 1; -1 (the default) is without limit.</summary>
    public override int WriteTimeout
    {
        get => _writeTimeoutMs;
        set => _writeTimeoutMs = BodyStream.CheckTimeout(value, nameof(WriteTimeout));
    }

    /// <summary>A stream of a connection has no length.</summary>
    public override long Length => throw NoSeeking();

    /// <summary>A stream of a connection has no position.</summary>
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

    /// <summary>Id and peer, for logs.</summary>
    public override string ToString() => _session.ToString();
}
