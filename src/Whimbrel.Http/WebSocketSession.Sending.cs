using System.Buffers;
using System.Runtime.CompilerServices;
using System.Text;
using System.Text.Unicode;
using Whimbrel.Buffers;
using Whimbrel.Http.Parsing;
using Whimbrel.Http.WebSockets;

namespace Whimbrel.Http;

// Outgoing messages. Each is one send of the core with head and payload, queued whole or not at all, from any thread.
public partial class WebSocketSession
{
    private const int SmallBytes = 512;
    private const int MostWithContext = 64 * 1024;

    private bool _pongWaits;
    private byte[]? _lastPing;

    /// <summary>Sends a text message.</summary>
    /// <param name="utf8">Text in UTF-8, checked and copied. Peers close the connection for invalid UTF-8.</param>
    /// <exception cref="ArgumentException">The text is not UTF-8. Nothing was sent.</exception>
    public SendResult SendText(ReadOnlySpan<byte> utf8)
    {
        CheckText(utf8);
        return SendMessage(WebSocketOpcode.Text, utf8);
    }

    /// <summary>Sends a text message.</summary>
    /// <param name="text">The text. An unpaired surrogate becomes U+FFFD.</param>
    public SendResult SendText(ReadOnlySpan<char> text)
    {
        using Utf8Text utf8 = new(text, stackalloc byte[Utf8Text.SmallBytes]);
        return SendMessage(WebSocketOpcode.Text, utf8.Bytes);
    }

    /// <summary>Sends a text message.</summary>
    /// <param name="text">The text. An unpaired surrogate becomes U+FFFD.</param>
    public SendResult SendText(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return SendText(text.AsSpan());
    }

    /// <summary>Sends a binary message.</summary>
    /// <param name="data">Payload; copied.</param>
    public SendResult SendBinary(ReadOnlySpan<byte> data) => SendMessage(WebSocketOpcode.Binary, data);

    /// <summary>Sends a text message, waiting for room in the queue. When the task completes the message is queued, not
    /// sent.</summary>
    /// <param name="utf8">Text in UTF-8, checked. May be reused when the task completes.</param>
    /// <param name="cancellationToken">Cancels the wait.</param>
    /// <exception cref="ArgumentException">The text is not UTF-8. Nothing was sent.</exception>
    public ValueTask<SendResult> SendTextAsync(ReadOnlyMemory<byte> utf8, CancellationToken cancellationToken = default)
    {
        CheckText(utf8.Span);
        return SendMessageAsync(WebSocketOpcode.Text, utf8, cancellationToken);
    }

    /// <summary>Sends a text message, waiting for room in the queue. When the task completes the message is queued, not
    /// sent.</summary>
    /// <param name="text">The text. An unpaired surrogate becomes U+FFFD.</param>
    /// <param name="cancellationToken">Cancels the wait.</param>
    public ValueTask<SendResult> SendTextAsync(string text, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(text);
        byte[] utf8 = ArrayPool<byte>.Shared.Rent(Encoding.UTF8.GetByteCount(text));
        int length = Encoding.UTF8.GetBytes(text, utf8);
        return GiveBack(utf8, SendMessageAsync(WebSocketOpcode.Text, utf8.AsMemory(0, length), cancellationToken));
    }

    /// <summary>Sends a binary message, waiting for room in the queue. When the task completes the message is queued,
    /// not sent.</summary>
    /// <param name="data">Payload. May be reused when the task completes.</param>
    /// <param name="cancellationToken">Cancels the wait.</param>
    public ValueTask<SendResult> SendBinaryAsync(ReadOnlyMemory<byte> data,
        CancellationToken cancellationToken = default) =>
        SendMessageAsync(WebSocketOpcode.Binary, data, cancellationToken);

    /// <summary>Sends a ping. The peer's pong is passed to <see cref="OnPong"/>.</summary>
    /// <param name="payload">Up to 125 bytes.</param>
    /// <exception cref="ArgumentOutOfRangeException">The payload is longer.</exception>
    public SendResult SendPing(ReadOnlySpan<byte> payload = default) => SendControl(WebSocketOpcode.Ping, payload);

    /// <summary>Sends an unsolicited pong, as a sign of life.</summary>
    /// <param name="payload">Up to 125 bytes.</param>
    /// <exception cref="ArgumentOutOfRangeException">The payload is longer.</exception>
    public SendResult SendPong(ReadOnlySpan<byte> payload = default) => SendControl(WebSocketOpcode.Pong, payload);

    /// <summary>Class that selects the form in which <see cref="WebSocketBroadcasts"/> writes broadcasts for this
    /// session.</summary>
    protected sealed override int MemberClass => WebSocketBroadcasts.ClassOf(_role, _deflate?.Terms);

    /// <inheritdoc/>
    protected sealed override string? BroadcastRefusal =>
        "a WebSocketSession is among the members, and its peer would take the bytes for a broken frame. Use "
        + "BroadcastText or BroadcastBinary (using Whimbrel.Http), which write frames for it and plain bytes for "
        + "others. A group of a cluster does so by ClusterOptions.Deliver.";

    // ------------------------------------------------------------------ frames

    /// <summary>Throws for text that a peer would reject by failing the connection (RFC 6455, 8.1).</summary>
    internal static void CheckText(ReadOnlySpan<byte> utf8)
    {
        if (!Utf8.IsValid(utf8)) ThrowNotText();
    }

    private static void ThrowNotText() =>
        throw new ArgumentException("The text is not UTF-8, and a peer would close the connection with 1007. Nothing "
            + "was sent. Send bytes that are no text with SendBinary or BroadcastBinary.", "utf8");

    private SendResult SendControl(WebSocketOpcode opcode, ReadOnlySpan<byte> payload)
    {
        ArgumentOutOfRangeException.ThrowIfGreaterThan(payload.Length, WebSocketReader.MostControlBytes,
            nameof(payload));
        if (IsOnLoop) return IsClosing ? SendResult.Closed : SendSmall(opcode, payload);
        if (!TryEnterSend()) return SendResult.Closed;
        try
        {
            return SendSmall(opcode, payload);
        }
        finally
        {
            LeaveSend();
        }
    }

    // A refused pong would end the connection of a slow reader. So the pong waits for room, and of the pings received
    // meanwhile only the last is answered (RFC 6455, 5.5.3). The session's thread.
    private void Answer(ReadOnlySpan<byte> ping)
    {
        if (_pongWaits)
        {
            _lastPing = ping.ToArray();
            return;
        }

        byte[] frame = ArrayPool<byte>.Shared.Rent(SmallBytes);
        ValueTask<SendResult> sending =
            SendAsync(frame.AsMemory(0, _writer.WriteFrame(frame, WebSocketOpcode.Pong, ping)));
        if (sending.IsCompletedSuccessfully)
        {
            ArrayPool<byte>.Shared.Return(frame);
            return;
        }

        _pongWaits = true;
        _ = AnswerLast(GiveBackAfter(sending, frame));
    }

    private async Task AnswerLast(ValueTask<SendResult> sending)
    {
        if (await sending.ConfigureAwait(false) != SendResult.Queued) return;
        Post(static s =>
        {
            WebSocketSession session = (WebSocketSession)s!;
            session._pongWaits = false;
            if (session._lastPing is not { } ping) return;
            session._lastPing = null;
            if (!session.IsClosing) session.Answer(ping);
        }, this);
    }

    private SendResult SendSmall(WebSocketOpcode opcode, ReadOnlySpan<byte> payload)
    {
        Span<byte> frame = stackalloc byte[SmallBytes + WebSocketWriter.MostHeadBytes];
        return Send(frame[.._writer.WriteFrame(frame, opcode, payload)]);
    }

    private SendResult SendMessage(WebSocketOpcode opcode, ReadOnlySpan<byte> payload)
    {
        if (IsOnLoop)
            return IsClosing ? SendResult.Closed : _isInPieces ? SendResult.Refused : SendWhole(opcode, payload);
        if (!TryEnterSend()) return SendResult.Closed;
        try
        {
            return _isInPieces ? SendResult.Refused : SendWhole(opcode, payload);
        }
        finally
        {
            LeaveSend();
        }
    }

    private SendResult SendWhole(WebSocketOpcode opcode, ReadOnlySpan<byte> payload)
    {
        if (IsWorthDeflating(payload.Length)) return SendDeflated(opcode, payload);
        return _writer.Masks ? SendMasked(opcode, payload) : SendPlain(opcode, payload);
    }

    private SendResult SendMasked(WebSocketOpcode opcode, ReadOnlySpan<byte> payload)
    {
        int length = _writer.FrameLength(payload.Length);
        byte[]? rented = null;
        Span<byte> frame =
            length <= SmallBytes ? stackalloc byte[SmallBytes] : rented = ArrayPool<byte>.Shared.Rent(length);
        try
        {
            return Send(frame[.._writer.WriteFrame(frame, opcode, payload)]);
        }
        finally
        {
            if (rented is not null) ArrayPool<byte>.Shared.Return(rented);
        }
    }

    private ValueTask<SendResult> SendMessageAsync(WebSocketOpcode opcode, ReadOnlyMemory<byte> payload,
        CancellationToken cancellationToken)
    {
        if (IsOnLoop)
            return IsClosing ? new(SendResult.Closed) : _isInPieces ? new(SendResult.Refused)
                : SendWholeAsync(opcode, payload, cancellationToken);
        if (!TryEnterSend()) return new(SendResult.Closed);
        try
        {
            return _isInPieces ? new(SendResult.Refused) : SendWholeAsync(opcode, payload, cancellationToken);
        }
        finally
        {
            LeaveSend();
        }
    }

    private ValueTask<SendResult> SendWholeAsync(WebSocketOpcode opcode, ReadOnlyMemory<byte> payload,
        CancellationToken cancellationToken)
    {
        if (IsWorthDeflating(payload.Length)
            && TrySendDeflatedAsync(opcode, payload, cancellationToken, out ValueTask<SendResult> deflated))
            return deflated;
        return SendFrameAsync(opcode, isFinal: true, payload, cancellationToken);
    }

    private ValueTask<SendResult> SendFrameAsync(WebSocketOpcode opcode, bool isFinal, ReadOnlyMemory<byte> payload,
        CancellationToken cancellationToken)
    {
        byte[] frame =
            ArrayPool<byte>.Shared.Rent(WebSocketWriter.MostHeadBytes + (_writer.Masks ? payload.Length : 0));
        int head = _writer.WriteHead(frame, opcode, isFinal, isCompressed: false, payload.Length, out uint key);
        ValueTask<SendResult> sending;
        if (_writer.Masks)
        {
            WebSocketMask.Copy(payload.Span, frame.AsSpan(head), key);
            sending = SendAsync(frame.AsMemory(0, head + payload.Length), cancellationToken);
        }
        else
        {
            sending = SendAsync(Outgoing.Pieces([frame.AsMemory(0, head), payload]), cancellationToken);
        }

        return GiveBack(frame, sending);
    }

    /// <summary>Returns the array to the pool when the send has completed.</summary>
    private static ValueTask<SendResult> GiveBack(byte[] frame, ValueTask<SendResult> sending)
    {
        if (!sending.IsCompleted) return GiveBackAfter(sending, frame);
        ArrayPool<byte>.Shared.Return(frame);
        return sending;
    }

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    private static async ValueTask<SendResult> GiveBackAfter(ValueTask<SendResult> sending, byte[] frame)
    {
        try
        {
            return await sending.ConfigureAwait(false);
        }
        finally
        {
            ArrayPool<byte>.Shared.Return(frame);
        }
    }

    // ------------------------------------------------------------------ compressed

    // zlib writes no window of 256 bytes, which a peer may demand: then messages are sent uncompressed.
    private bool IsWorthDeflating(int length) =>
        _deflate is not null && length >= _options!.Deflate!.LeastBytes && DeflateBits >= DeflateTerms.LeastWrittenBits;

    private bool Forgets =>
        _role == WebSocketRole.Server ? _deflate!.Terms.ServerForgets : _deflate!.Terms.ClientForgets;

    private int DeflateBits => Math.Min(_options!.Deflate!.WindowBits,
        _role == WebSocketRole.Server ? _deflate!.Terms.ServerBits : _deflate!.Terms.ClientBits);

    private bool IsOnLoop => _isInline && Loop.IsCurrent;

    /// <summary>
    /// Whether a message is compressed without the context of earlier ones. With a context, messages must be queued in
    /// the order of compression. An awaited send of another thread is queued after the lock was left, and may have to
    /// wait. So from the first message of another thread on, each is compressed without context. The lock is held.
    /// </summary>
    private bool BeginsAnew()
    {
        DeflateContext deflate = _deflate!;
        if (Forgets || deflate.BeginsAnew) return true;
        if (IsOnLoop) return false;
        deflate.History.Forget();
        return deflate.BeginsAnew = true;
    }

    private SendResult SendDeflated(WebSocketOpcode opcode, ReadOnlySpan<byte> payload)
    {
        MessageBuffer packed = default;
        try
        {
            lock (_deflate!.Sending)
            {
                bool isAlone = BeginsAnew();
                int start = PackInFrame(opcode, payload, isAlone, ref packed);
                SendResult result = Send(packed.Span[start..]);
                // The peer does not have a refused message, so the next one must not refer to it.
                if (result == SendResult.Queued && !isAlone) _deflate.History.Add(payload, DeflateBits);
                return result;
            }
        }
        finally
        {
            packed.Release();
        }
    }

    /// <summary>Compresses a message into a frame. The lock is held.</summary>
    /// <returns>Offset of the frame in the buffer.</returns>
    private int PackInFrame(WebSocketOpcode opcode, ReadOnlySpan<byte> payload, bool isAlone, ref MessageBuffer packed)
    {
        Deflater deflater = Deflater.Rent(_options!.Deflate!.Level, DeflateBits, _options.Deflate.MemoryLevel);
        if (!isAlone) deflater.Recall(_deflate!.History.Span);
        // The head is written before the payload when its length is known.
        packed.Room(WebSocketWriter.MostHeadBytes);
        packed.Advance(WebSocketWriter.MostHeadBytes);
        deflater.Add(payload, isLast: true, ref packed);
        Deflater.Return(deflater);
        int length = packed.Length - WebSocketWriter.MostHeadBytes;
        int start = WebSocketWriter.MostHeadBytes - _writer.HeadLength(length);
        _writer.WriteHead(packed.Span[start..], opcode, isFinal: true, isCompressed: true, length, out uint key);
        if (_writer.Masks) WebSocketMask.Apply(packed.Span[WebSocketWriter.MostHeadBytes..], key);
        return start;
    }

    // Messages compressed with a context must be queued in the order of compression. So a message that may have to wait
    // is sent uncompressed.
    private bool TrySendDeflatedAsync(WebSocketOpcode opcode, ReadOnlyMemory<byte> payload,
        CancellationToken cancellationToken, out ValueTask<SendResult> sending)
    {
        sending = default;
        if (!Forgets && IsOnLoop)
        {
            if (payload.Length > MostWithContext || BytesPending > 0) return false;
            sending = new(SendDeflated(opcode, payload.Span));
            return true;
        }

        MessageBuffer packed = default;
        int start;
        lock (_deflate!.Sending) start = PackInFrame(opcode, payload.Span, BeginsAnew(), ref packed);

        sending = SendAsync(packed.Memory[start..], cancellationToken);
        if (sending.IsCompleted) packed.Release();
        else sending = GiveBackAfter(sending, packed);
        return true;
    }

    private SendResult SendPlain(WebSocketOpcode opcode, ReadOnlySpan<byte> payload)
    {
        Span<byte> head = stackalloc byte[WebSocketWriter.MostHeadBytes];
        int length = _writer.WriteHead(head, opcode, isFinal: true, isCompressed: false, payload.Length, out _);
        return Send(Outgoing.Pieces(head[..length], payload));
    }

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    private static async ValueTask<SendResult> GiveBackAfter(ValueTask<SendResult> sending, MessageBuffer packed)
    {
        try
        {
            return await sending.ConfigureAwait(false);
        }
        finally
        {
            packed.Release();
        }
    }
}
