using System.Buffers;
using System.Runtime.CompilerServices;
using Whimbrel.Http.WebSockets;

namespace Whimbrel.Http;

/// <summary>
/// A WebSocket as a stream of bytes: what is written goes as messages, and where messages end does not matter to who reads. Anything that stands on a
/// <see cref="Stream"/> stands on it: compression, <see cref="System.Net.Security.SslStream"/>, a layer of one's own, one above the other.
/// </summary>
/// <remarks>
/// <list type="bullet">
/// <item>A write is one message of bytes (with compression agreed on, one for each 64 KiB); of no bytes it sends nothing. It completes when it is queued and the memory may
/// be reused, and waits for room. Those of one thread keep their order.</item>
/// <item>A read gives bytes of any messages, text too, as they come; they go directly into its memory. One read at a time, from any thread; a cancelled or timed-out
/// one loses no byte. What nobody reads is kept up to 64 KiB, then the peer waits.</item>
/// <item>A close frame is the end of one half: after the peer's reads give 0, and writes go on; after <see cref="FinishSending"/> it is the other way round. A peer that is no stream
/// may answer a close frame at once, and end both.</item>
/// <item>Reads give 0 after a close frame with 1000 or without a status only. After any other status, and after an end without a close frame, they throw
/// <see cref="WebSocketException"/>, an <see cref="IOException"/>, when all that was received before is read; its <see cref="WebSocketException.Status"/> has the status.</item>
/// <item>Flush does nothing: what was written leaves by itself.</item>
/// <item>The synchronous members block, with <see cref="ReadTimeout"/> and <see cref="WriteTimeout"/>. Reads throw on a loop's thread, and in a callback of the session itself on the pool. A write
/// on a loop's thread throws when the send queue has no room for it; so a stream on top of this one that writes its end when it is disposed is disposed by <c>await using</c> there.</item>
/// <item>Dispose closes with 1000 behind what was written. DisposeAsync waits for the closing handshake as well. In the handler of a route neither closes: the handler's end does, with 1000
/// when it returns and 1011 when it throws. Elsewhere a stream that is disposed because of an exception closes with 1000 as well: <see cref="Abort"/>, or close the <see cref="Session"/> with a status of your own, before.</item>
/// </list>
/// </remarks>
public sealed class WebSocketStream : Stream
{
    private const int MostCompressed = 64 * 1024; // the message limit of a peer counts without compression
    private const int MostAtOnce = 64 * 1024; // of a read into a span

    private readonly WebSocketInbox _inbox;
    private int _readTimeoutMs = Timeout.Infinite;
    private int _writeTimeoutMs = Timeout.Infinite;
    private int _isDisposed;

    /// <summary>A stream over a session that is pulled, which it closes when it is disposed. It replaces the other ways to receive.</summary>
    /// <param name="session">Of the class <see cref="WebSocketSession"/> itself.</param>
    /// <exception cref="InvalidOperationException">Its class has its messages told by overrides.</exception>
    public WebSocketStream(WebSocketSession session)
    {
        ArgumentNullException.ThrowIfNull(session);
        _inbox = session.Inbox;
        Session = session;
    }

    /// <summary>Dials. Throws as <see cref="WebSocketSession.ConnectAsync"/> does.</summary>
    /// <param name="address"><c>ws://host:port/path?query</c>, or <c>wss://</c> with TLS.</param>
    /// <param name="options">Limits and wishes; null for the defaults.</param>
    /// <param name="tls">Rules for <c>wss://</c>; null for the defaults.</param>
    /// <param name="cancellationToken">Gives up the dial.</param>
    public static async ValueTask<WebSocketStream> ConnectAsync(string address, WebSocketOptions? options = null, TlsOptions? tls = null, CancellationToken cancellationToken = default) =>
        new(await WebSocketSession.ConnectAsync(address, options, tls, cancellationToken).ConfigureAwait(false));

    /// <summary>The WebSocket below: addresses, counters, pings, the status of its end.</summary>
    public WebSocketSession Session { get; }

    // ------------------------------------------------------------------ reading

    /// <summary>Reads what there is, or waits for it. What holds for all reads stands at the class.</summary>
    /// <param name="buffer">Filled from its start; of length 0 it only waits.</param>
    /// <param name="cancellationToken">Gives up waiting; no byte is lost.</param>
    /// <returns>Number of bytes; 0 after a close frame with 1000 or without a status.</returns>
    /// <exception cref="WebSocketException">The peer closed with another status, or the connection ended without a close frame.</exception>
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
        // A span cannot be lent to another thread.
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
    public override IAsyncResult BeginRead(byte[] buffer, int offset, int count, AsyncCallback? callback, object? state) =>
        TaskToAsyncResult.Begin(ReadAsync(buffer, offset, count, CancellationToken.None), callback, state);

    /// <inheritdoc/>
    public override int EndRead(IAsyncResult asyncResult) => TaskToAsyncResult.End<int>(asyncResult);

    // ------------------------------------------------------------------ writing

    /// <summary>Queues the bytes as a message, waiting for room. What holds for all writes stands at the class.</summary>
    /// <param name="buffer">May be reused when it completes.</param>
    /// <param name="cancellationToken">Gives up waiting.</param>
    /// <exception cref="IOException">This half was ended, or the connection has.</exception>
    public override ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default)
    {
        ThrowIfDisposed();
        if (cancellationToken.IsCancellationRequested) return ValueTask.FromCanceled(cancellationToken);
        if (buffer.IsEmpty) return default;
        if (Session.IsCompressed && buffer.Length > MostCompressed) return WriteInMessagesAsync(buffer, cancellationToken);
        ValueTask<SendResult> sending = Session.SendBinaryAsync(buffer, cancellationToken);
        if (!sending.IsCompletedSuccessfully) return WaitForRoomAsync(sending);
        SendResult result = sending.Result;
        return result == SendResult.Queued ? default : ValueTask.FromException(FailureOf(result));
    }

    // From the pool: a stream that waits for room again and again allocates nothing.
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
            await WaitForRoomAsync(Session.SendBinaryAsync(buffer.Slice(at, Math.Min(MostCompressed, buffer.Length - at)), cancellationToken)).ConfigureAwait(false);
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

    // On a loop, which no wait may block: the end of a GZipStream, for example, that is disposed there.
    private void WriteNow(ReadOnlySpan<byte> data)
    {
        while (!data.IsEmpty)
        {
            ReadOnlySpan<byte> part = data[..Math.Min(data.Length, MostCompressed)];
            SendResult result = Session.BytesPending + part.Length + WebSocketFrames.MostHeadBytes > Session.SendLimitBytes && Session.IsConnected ? SendResult.Full : Session.SendBinary(part);
            if (result == SendResult.Full)
            {
                throw new InvalidOperationException("The send queue has no room, and a synchronous write would block the loop, and all its connections: await WriteAsync instead. "
                    + "A stream on top of this one that writes its end when it is disposed, such as GZipStream, is disposed by await using.");
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

    /// <summary>Ends this half by a close frame, behind what was written. Reading goes on; later writes throw. Any thread.</summary>
    public void FinishSending() => Session.FinishSending();

    /// <summary>Ends the connection now, without a close frame. Any thread.</summary>
    public void Abort() => Session.Abort();

    /// <summary>Closes with 1000; in the handler of a route the end of the handler closes, with the status that says how it ended. Never blocks, so any thread.</summary>
    /// <param name="disposing">True from <see cref="IDisposable.Dispose"/>.</param>
    protected override void Dispose(bool disposing)
    {
        if (disposing && Interlocked.Exchange(ref _isDisposed, 1) == 0)
        {
            // It may be disposed because its handler throws: what the peer has would look whole.
            if (!_inbox.HasHandler) Session.Close();
            _inbox.End(new ObjectDisposedException(nameof(WebSocketStream)));
        }

        base.Dispose(disposing);
    }

    /// <summary>
    /// Closes with 1000, and completes when the connection has ended: all is sent, and the peer has answered, within <see cref="WebSocketOptions.CloseTimeout"/>. In the handler
    /// of a route it completes at once, and the end of the handler closes.
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
            throw new NetworkException(new NetworkError(0, ErrorCategory.Timeout, $"It was not done within {timeoutMs} ms (ReadTimeout, WriteTimeout)."), e);
        }
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

    /// <summary>Longest time that a synchronous read waits, in milliseconds; then it throws <see cref="NetworkException"/> with category <see cref="ErrorCategory.Timeout"/>, and the stream goes on. From 1; -1 (the default) is without limit.</summary>
    public override int ReadTimeout
    {
        get => _readTimeoutMs;
        set => _readTimeoutMs = Checked(value);
    }

    /// <summary>Longest time that a synchronous write waits for room, in milliseconds; then it throws as a read does. From 1; -1 (the default) is without limit.</summary>
    public override int WriteTimeout
    {
        get => _writeTimeoutMs;
        set => _writeTimeoutMs = Checked(value);
    }

    private static int Checked(int timeoutMs)
    {
        if (timeoutMs is <= 0 and not Timeout.Infinite) throw new ArgumentOutOfRangeException(nameof(timeoutMs), timeoutMs, "From 1 ms, or -1 for no limit.");
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

    /// <summary>Id and peer, for logs.</summary>
    public override string ToString() => Session.ToString();
}
