using System.Globalization;

namespace Whimbrel.Http;

/// <summary>
/// Request body written by a function: unframed if its length is known, otherwise in chunks. Small writes are combined.
/// The wait for room in the send queue is the back-pressure. One thread at a time, never the loop's.
/// </summary>
internal sealed class HttpRequestBody(HttpExchange exchange, long length) : OneWayStream(isRead: false)
{
    private const int GatherBytes = 16 * 1024;
    private const int LineRoom = 16; // end of the previous chunk, eight digits, line end

    private readonly byte[] _line = new byte[LineRoom];
    private byte[]? _gathered;
    private int _count;
    private long _written;
    private bool _hasChunk;

    public override long Position
    {
        get => _written;
        set => throw new NotSupportedException();
    }

    public override async ValueTask WriteAsync(ReadOnlyMemory<byte> buffer,
        CancellationToken cancellationToken = default)
    {
        if (buffer.IsEmpty) return;
        if (length >= 0 && buffer.Length > length - _written)
            throw new InvalidOperationException($"The body becomes longer than was said, which is {length}.");
        _written += buffer.Length;
        if (_count + buffer.Length > GatherBytes) await SendGatheredAsync(cancellationToken).ConfigureAwait(false);
        if (buffer.Length >= GatherBytes)
        {
            await SendPieceAsync(buffer, cancellationToken).ConfigureAwait(false);
            return;
        }

        _gathered ??= new byte[GatherBytes];
        buffer.Span.CopyTo(_gathered.AsSpan(_count));
        _count += buffer.Length;
    }

    public override Task WriteAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken) =>
        WriteAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();

    public override void Write(byte[] buffer, int offset, int count) =>
        WriteAsync(buffer.AsMemory(offset, count)).AsTask().GetAwaiter().GetResult();

    public override void Flush() => FlushAsync(CancellationToken.None).GetAwaiter().GetResult();

    public override Task FlushAsync(CancellationToken cancellationToken) =>
        SendGatheredAsync(cancellationToken).AsTask();

    /// <summary>Sends the rest, and ends the body.</summary>
    internal async ValueTask EndAsync(CancellationToken stop)
    {
        if (length >= 0 && _written != length)
            throw new InvalidOperationException($"The body has {_written} bytes, and {length} were said.");
        await SendGatheredAsync(stop).ConfigureAwait(false);
        exchange.GivesLast();
        if (length >= 0) return;
        ReadOnlyMemory<byte> end = _hasChunk ? "\r\n0\r\n\r\n"u8.ToArray() : "0\r\n\r\n"u8.ToArray();
        Check(await exchange.Session.SendAsync(end, stop).ConfigureAwait(false));
    }

    private ValueTask SendGatheredAsync(CancellationToken stop)
    {
        if (_count == 0) return default;
        int count = _count;
        _count = 0;
        return SendPieceAsync(_gathered.AsMemory(0, count), stop);
    }

    private async ValueTask SendPieceAsync(ReadOnlyMemory<byte> piece, CancellationToken stop)
    {
        if (length >= 0)
        {
            if (_written == length && _count == 0) exchange.GivesLast();
            Check(await exchange.Session.SendAsync(piece, stop).ConfigureAwait(false));
            return;
        }

        int line = _hasChunk ? 2 : 0;
        "\r\n"u8[..line].CopyTo(_line);
        piece.Length.TryFormat(_line.AsSpan(line), out int digits, "x", CultureInfo.InvariantCulture);
        line += digits;
        "\r\n"u8.CopyTo(_line.AsSpan(line));
        _hasChunk = true;
        ReadOnlyMemory<byte> size = _line.AsMemory(0, line + 2);
        ValueTask<SendResult> sending = exchange.Session.SendAsync(Outgoing.Pieces([size, piece]), stop);
        Check(await sending.ConfigureAwait(false));
    }

    private void Check(SendResult result)
    {
        if (result == SendResult.Queued) return;
        exchange.EndSend();
        throw new IOException("The connection has ended before the body of the request was sent.");
    }
}
