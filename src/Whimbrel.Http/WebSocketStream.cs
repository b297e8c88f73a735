using System.Buffers;
using System.Runtime.CompilerServices;
using Whimbrel.Http.WebSockets;

namespace Whimbrel.Http;

/// <summary>
/// WebSocket as a stream of bytes. Writes are sent as messages; reads ignore message boundaries. Any code for a
/// <see cref="Stream"/> can be layered on it: compression, <see cref="System.Net.Security.SslStream"/>, a custom layer.
/// </summary>
/// <remarks>
/// <list type="bullet">
/// <item>A write is one binary message (with compression, one for each 64 KiB); an empty write sends nothing. It waits
/// for room, and completes when the message is queued; then the memory may be reused. Writes of one thread keep their
/// order.</item>
/// <item>A read returns bytes of any messages, including text, received directly into its memory. One read at a time,
/// from any thread; a cancelled or timed-out read loses no byte. Up to 64 KiB of unread data are kept; then reading
/// from the peer stops.</item>
/// <item>A close frame ends one direction. After the peer's, reads return 0 and writes still work; after
/// <see cref="ShutdownSend"/> it is the reverse. Other peers may answer a close frame at once, and end both.</item>
/// <item>Reads return 0 only after a close frame with 1000 or without a status. After any other status, and after an
/// end without a close frame, they throw <see cref="WebSocketException"/>, an <see cref="IOException"/>, once all
/// earlier data is read. Its <see cref="WebSocketException.Status"/> has the status.</item>
/// <item>Flush does nothing, because writes are sent without it.</item>
/// <item>The synchronous members block, with <see cref="ReadTimeout"/> and <see cref="WriteTimeout"/>. Reads throw on a
/// loop's thread and in a pool callback of the session itself. A write on a loop's thread throws if the send queue has
/// no room. So dispose a layer that writes when it is disposed by <c>await using</c> there.</item>
/// <item>Dispose closes with 1000 after earlier writes; DisposeAsync also waits for the closing handshake. In the
/// handler of a route neither closes: the end of the handler does, with 1000 when it returns and 1011 when it throws.
/// Elsewhere Dispose closes with 1000 even during an exception. To prevent that, call <see cref="Abort"/>, or close the
/// <see cref="Session"/> with another status before.</item>
/// </list>
/// </remarks>
public sealed class WebSocketStream : Stream
{
    private const int MostCompressed = 64 * 1024; // the message limit of a peer applies to uncompressed bytes
    private const int MostAtOnce = 64 * 1024; // per read into a span

    private readonly WebSocketInbox _inbox;
    private int _readTimeoutMs = Timeout.Infinite;
    private int _writeTimeoutMs = Timeout.Infinite;
    private int _isDisposed;

    /// <summary>Creates a stream over a pulled session, and closes the session when it is disposed. It replaces the
    /// other ways to receive.</summary>
    /// <param name="session">Session of the class <see cref="WebSocketSession"/> itself.</param>
    /// <exception cref="InvalidOperationException">Messages of the session's class go to overrides.</exception>
    public WebSocketStream(WebSocketSession session)
    {
        ArgumentNullException.ThrowIfNull(session);
        _inbox = session.Inbox;
        Session = session;
    }

    /// <summary>Connects. Throws as <see cref="WebSocketSession.ConnectAsync"/> does.</summary>
    /// <param name="address"><c>ws://host:port/path?query</c>, or <c>wss://</c> with TLS.</param>
    /// <param name="options">Limits and settings; null for the defaults.</param>
    /// <param name="tls">TLS settings for <c>wss://</c>; null for the defaults.</param>
    /// <param name="cancellationToken">Cancels the connect attempt.</param>
    public static async ValueTask<WebSocketStream> ConnectAsync(string address, WebSocketOptions? options = null,
        TlsOptions? tls = null, CancellationToken cancellationToken = default) =>
        new(await WebSocketSession.ConnectAsync(address, options, tls, cancellationToken).ConfigureAwait(false));

    /// <summary>Underlying WebSocket: addresses, counters, pings, close status.</summary>
    public WebSocketSession Session { get; }

    // ------------------------------------------------------------------ reading

    /// <summary>Reads available bytes, or waits for them. The rules for all reads are in the remarks of the
    /// class.</summary>
    /// <param name="buffer">Buffer, filled from its start. With length 0 the call only waits.</param>
    /// <param name="cancellationToken">Cancels the wait; no byte is lost.</param>
    /// <returns>Number of bytes; 0 after a close frame with 1000 or without a status.</returns>
    /// <exception cref="WebSocketException">The peer closed with another status, or the connection ended without a
    /// close frame.</exception>
    public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default)
    {
        ThrowIfDisposed();
        return _inbox.ReadAsync(buffer, cancellationToken);
    }

    /// <inheritdoc/>
    public override Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken)
    {
        ValidateBufferArguments(buffer, offset, count);
        return ReadAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();
    }

    /// <inheritdoc/>
    public override int Read(byte[] buffer, int offset, int count)
    {
        ValidateBufferArguments(buffer, offset, count);
        ThrowIfDisposed();
        Session.ThrowIfNothingCanCome();
        return Block(_readTimeoutMs, stop => _inbox.ReadAsync(buffer.AsMemory(offset, count), stop));
    }

    /// <inheritdoc/>
    public override int Read(Span<byte> buffer)
    {
        // A span cannot be passed to another thread.
        int length = Math.Min(buffer.Length, MostAtOnce);
        byte[] bytes = ArrayPool<byte>.Shared.Rent(length);
        try
        {
            int count = Read(bytes, 0, length);
            bytes.AsSpan(0, count).CopyTo(buffer);
            return count;
        }
        finally
        {
            ArrayPool<byte>.Shared.Return(bytes);
        }
    }

    /// <inheritdoc/>
    public override IAsyncResult BeginRead(byte[] buffer, int offset, int count, AsyncCallback? callback,
        object? state) =>
        TaskToAsyncResult.Begin(ReadAsync(buffer, offset, count, CancellationToken.None), callback, state);

    /// <inheritdoc/>
    public override int EndRead(IAsyncResult asyncResult) => TaskToAsyncResult.End<int>(asyncResult);

    // ------------------------------------------------------------------ writing

    /// <summary>Queues the bytes as a message, waiting for room. The rules for all writes are in the remarks of the
    /// class.</summary>
    /// <param name="buffer">Bytes to write. May be reused when the task completes.</param>
    /// <param name="cancellationToken">Cancels the wait.</param>
    /// <exception cref="IOException">This direction, or the connection, has ended.</exception>
    public override ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default)
    {
        ThrowIfDisposed();
        if (cancellationToken.IsCancellationRequested) return ValueTask.FromCanceled(cancellationToken);
        if (buffer.IsEmpty) return default;
        if (Session.IsCompressed && buffer.Length > MostCompressed)
            return WriteInMessagesAsync(buffer, cancellationToken);
        ValueTask<SendResult> sending = Session.SendBinaryAsync(buffer, cancellationToken);
        if (!sending.IsCompletedSuccessfully) return WaitForRoomAsync(sending);
        SendResult result = sending.Result;
        return result == SendResult.Queued ? default : ValueTask.FromException(FailureOf(result));
    }

    // A pooled builder, because a stream that waits for room often must not allocate each time.
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    private static async ValueTask WaitForRoomAsync(ValueTask<SendResult> sending)
    {
        SendResult result = await sending.ConfigureAwait(false);
        if (result != SendResult.Queued) throw FailureOf(result);
    }

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    private async ValueTask WriteInMessagesAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken)
    {
        for (int at = 0; at < buffer.Length; at += MostCompressed)
            await WaitForRoomAsync(Session.SendBinaryAsync(buffer.Slice(at,
                Math.Min(MostCompressed, buffer.Length - at)), cancellationToken)).ConfigureAwait(false);
    }

    private static IOException FailureOf(SendResult result) => new(result switch
    {
        SendResult.Closed => "Cannot write: the WebSocket has ended, or this side has finished sending.",
        SendResult.Full => "Cannot write: the send queue is full, and the message can never fit.",
        _ => "Cannot write: a message in pieces is being sent.",
    });

    /// <inheritdoc/>
    public override Task WriteAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken)
    {
        ValidateBufferArguments(buffer, offset, count);
        return WriteAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();
    }

    /// <inheritdoc/>
    public override void Write(byte[] buffer, int offset, int count)
    {
        ValidateBufferArguments(buffer, offset, count);
        ThrowIfDisposed();
        if (Loop.Current is not null)
        {
            WriteNow(buffer.AsSpan(offset, count));
            return;
        }

        Block(_writeTimeoutMs, async stop =>
        {
            await WriteAsync(buffer.AsMemory(offset, count), stop).ConfigureAwait(false);
            return true;
        });
    }

    // For a loop, which must not block: for example a GZipStream disposed there writes its end.
    private void WriteNow(ReadOnlySpan<byte> data)
    {
        while (!data.IsEmpty)
        {
            ReadOnlySpan<byte> part = data[..Math.Min(data.Length, MostCompressed)];
            SendResult result = Session.BytesPending + part.Length + WebSocketFrames.MostHeadBytes
                > Session.SendLimitBytes && Session.IsConnected ? SendResult.Full : Session.SendBinary(part);
            if (result == SendResult.Full)
            {
                throw new InvalidOperationException("The send queue has no room, and a synchronous write would block "
                    + "the loop, and all its connections: await WriteAsync instead. "
                    + "A stream on top of this one that writes its end when it is disposed, such as GZipStream, is "
                    + "disposed by await using.");
            }

            if (result != SendResult.Queued) throw FailureOf(result);
            data = data[part.Length..];
        }
    }

    /// <inheritdoc/>
    public override void Write(ReadOnlySpan<byte> buffer)
    {
        byte[] bytes = ArrayPool<byte>.Shared.Rent(buffer.Length);
        try
        {
            buffer.CopyTo(bytes);
            Write(bytes, 0, buffer.Length);
        }
        finally
        {
            ArrayPool<byte>.Shared.Return(bytes);
        }
    }

    /// <inheritdoc/>
    public override IAsyncResult BeginWrite(byte[] buffer, int offset, int count, AsyncCallback? callback,
        object? state) =>
        TaskToAsyncResult.Begin(WriteAsync(buffer, offset, count, CancellationToken.None), callback, state);

    /// <inheritdoc/>
    public override void EndWrite(IAsyncResult asyncResult) => TaskToAsyncResult.End(asyncResult);

    /// <summary>Does nothing, because writes are sent without it.</summary>
    public override void Flush()
    {
    }

    /// <summary>Does nothing, because writes are sent without it.</summary>
    /// <param name="cancellationToken">Checked once, before completion.</param>
    public override Task FlushAsync(CancellationToken cancellationToken) =>
        cancellationToken.IsCancellationRequested ? Task.FromCanceled(cancellationToken) : Task.CompletedTask;

    // ------------------------------------------------------------------ ending

    /// <summary>Sends a close frame after earlier writes. Reads still work; later writes throw. Any thread.</summary>
    public void ShutdownSend() => Session.ShutdownSend();

    /// <summary>Aborts the connection, without a close frame. Any thread.</summary>
    public void Abort() => Session.Abort();

    /// <summary>Closes with 1000. In the handler of a route the end of the handler closes instead, with its own status.
    /// Never blocks. Any thread.</summary>
    /// <param name="disposing">True from <see cref="IDisposable.Dispose"/>.</param>
    protected override void Dispose(bool disposing)
    {
        if (disposing && Interlocked.Exchange(ref _isDisposed, 1) == 0)
        {
            // A handler that throws may dispose the stream: a close with 1000 would make its data look complete.
            if (!_inbox.HasHandler) Session.Close();
            _inbox.End(new ObjectDisposedException(nameof(WebSocketStream)));
        }

        base.Dispose(disposing);
    }

    /// <summary>
    /// Closes with 1000, and completes when the connection has ended: all data is sent and the peer has answered,
    /// within <see cref="WebSocketOptions.CloseTimeout"/>. In the handler of a route it completes at once, and the end
    /// of the handler closes.
    /// </summary>
    public override async ValueTask DisposeAsync()
    {
        await base.DisposeAsync().ConfigureAwait(false);
        if (!_inbox.HasHandler) await Session.CloseAsync().ConfigureAwait(false);
    }

    private void ThrowIfDisposed() => ObjectDisposedException.ThrowIf(Volatile.Read(ref _isDisposed) != 0, this);

    private static T Block<T>(int timeoutMs, Func<CancellationToken, ValueTask<T>> work)
    {
        try
        {
            return WebSocketSession.Block(TimeSpan.FromMilliseconds(timeoutMs), work);
        }
        catch (TimeoutException e)
        {
            throw new NetworkException(new NetworkError(0, ErrorCategory.Timeout,
                $"It was not done within {timeoutMs} ms (ReadTimeout, WriteTimeout)."), e);
        }
    }

    // ------------------------------------------------------------------ members of Stream

    /// <inheritdoc/>
    public override bool CanRead => Volatile.Read(ref _isDisposed) == 0;

    /// <inheritdoc/>
    public override bool CanWrite => Volatile.Read(ref _isDisposed) == 0;

    /// <inheritdoc/>
    public override bool CanSeek => false;

    /// <inheritdoc/>
    public override bool CanTimeout => true;

    /// <summary>Longest wait of a synchronous read in milliseconds, from 1; default -1: no limit. After it the read
    /// throws <see cref="NetworkException"/> with category <see cref="ErrorCategory.Timeout"/>, and the stream stays
    /// usable.</summary>
    public override int ReadTimeout
    {
        get => _readTimeoutMs;
        set => _readTimeoutMs = Checked(value);
    }

    /// <summary>Longest wait of a synchronous write for room in milliseconds, from 1; default -1: no limit. After it
    /// the write throws as a read does.</summary>
    public override int WriteTimeout
    {
        get => _writeTimeoutMs;
        set => _writeTimeoutMs = Checked(value);
    }

    private static int Checked(int timeoutMs)
    {
        if (timeoutMs is <= 0 and not Timeout.Infinite)
            throw new ArgumentOutOfRangeException(nameof(timeoutMs), timeoutMs, "From 1 ms, or -1 for no limit.");
        return timeoutMs;
    }

    /// <summary>A WebSocket has no length.</summary>
    public override long Length => throw NoSeeking();

    /// <summary>A WebSocket has no position.</summary>
    public override long Position
    {
        get => throw NoSeeking();
        set => throw NoSeeking();
    }

    /// <inheritdoc/>
    public override long Seek(long offset, SeekOrigin origin) => throw NoSeeking();

    /// <inheritdoc/>
    public override void SetLength(long value) => throw NoSeeking();

    private static NotSupportedException NoSeeking() => new("A WebSocket can only be read and written forwards.");

    /// <summary>Returns id and peer, for logs.</summary>
    public override string ToString() => Session.ToString();
}
