using System.Buffers;
using System.Globalization;
using System.Runtime.CompilerServices;
using System.Text;
using Whimbrel.Http.Compression;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

// Responses written in pieces. Writes are combined in one buffer, [head][chunk line][bytes], which is sent when it is
// full or flushed. A piece that would fill it is sent after it, from the writer's memory. The wait for room in the send
// queue is the back-pressure.
internal sealed partial class ServerAnswer
{
    private const int BufferBytes = 16 * 1024;
    private const int ChunkLine = 6; // four digits, so that the line is written when the chunk is complete
    private const int LargeChunkLine = 7; // five digits: 128 KiB at most
    private const int LineEnd = 2;
    private const int RoomAfterHead = 1024; // of the buffer's capacity, if fields would fill it

    internal long BodyLength
    {
        get => Pieces.Announced;
        set
        {
            ArgumentOutOfRangeException.ThrowIfLessThan(value, -1);
            MustBeOpen();
            Pieces.Announced = value;
        }
    }

    internal bool IsEventStream { get; private set; }

    // A member that waits leaves the gate itself, before the code after its await runs. With generation 0 the caller
    // stays inside.

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    internal async ValueTask WriteAsync(ReadOnlyMemory<byte> data, long generation, CancellationToken cancellationToken)
    {
        try
        {
            BeginWriting();
            if (Pieces.Announced >= 0 && (Pieces.Left -= data.Length) < 0)
                throw new InvalidOperationException(
                    $"The body becomes longer than BodyLength, which is {Pieces.Announced}.");
            if (_isHead) return;
            Pieces.IsCut = true; // until it is consumed completely
            if (Pieces.Encoder is not null)
            {
                await EncodeAsync(data, EncoderStep.Take, cancellationToken).ConfigureAwait(false);
                Pieces.IsCut = false;
                return;
            }

            if (Pieces.Framing == HttpFraming.Length) data = PartOf(data);
            BodyBytes += data.Length;
            while (data.Length >= BufferBytes)
            {
                int large = Math.Min(data.Length, WholeBytes);
                await SendLargeAsync(data[..large], cancellationToken).ConfigureAwait(false);
                data = data[large..];
            }

            while (true)
            {
                int count = Math.Min(data.Length, Pieces.Capacity - LineEnd - Pieces.Length);
                data.Span[..count].CopyTo(Pieces.Buffer.AsSpan(Pieces.Length));
                Pieces.Length += count;
                data = data[count..];
                if (data.IsEmpty) break;
                await SendBufferAsync(cancellationToken).ConfigureAwait(false);
            }

            Pieces.IsCut = false;
        }
        finally
        {
            if (generation != 0) _exchange.LeaveWriter(generation);
        }
    }

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    internal async ValueTask FlushAsync(long generation, CancellationToken cancellationToken)
    {
        try
        {
            if (_progress == Progress.Open && !CanHaveBody)
            {
                Bytes(default);
                return;
            }

            BeginWriting();
            if (Pieces.Encoder is not null)
                await EncodeAsync(default, EncoderStep.Flush, cancellationToken).ConfigureAwait(false);
            await SendBufferAsync(cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            if (generation != 0) _exchange.LeaveWriter(generation);
        }
    }

    internal async ValueTask SendEventAsync(string data, string? type, string? id, long generation,
        CancellationToken cancellationToken)
    {
        try
        {
            if (_progress == Progress.Open)
            {
                if (!_hasContentType) Add("Content-Type", "text/event-stream");
                Add("Cache-Control", "no-cache");
            }
            else if (_progress == Progress.Writing && !_hasContentType)
            {
                throw new InvalidOperationException("The head was sent without Content-Type: text/event-stream, so no "
                    + "EventSource would read the event. Send an event first, which sends that head; or call "
                    + "response.Add(\"Content-Type\", \"text/event-stream\") before the flush.");
            }

            IsEventStream = true;
            StringBuilder text = new();
            if (type is not null) text.Append(CultureInfo.InvariantCulture, $"event: {type}\n");
            if (id is not null) text.Append(CultureInfo.InvariantCulture, $"id: {id}\n");
            foreach (string line in data.Split(["\r\n", "\n", "\r"], StringSplitOptions.None))
                text.Append(CultureInfo.InvariantCulture, $"data: {line}\n");
            await WriteAsync(Encoding.UTF8.GetBytes(text.Append('\n').ToString()), 0, cancellationToken)
                .ConfigureAwait(false);
            await FlushAsync(0, cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            _exchange.LeaveWriter(generation);
        }
    }

    internal void AddTrailer(string name, string value)
    {
        ArgumentNullException.ThrowIfNull(name);
        ArgumentNullException.ThrowIfNull(value);
        if (_progress is Progress.Ending or Progress.Done || Pieces.Announced >= 0)
            throw new InvalidOperationException("A trailer needs a chunked body that is not complete yet.");
        if (HttpBytes.IsToken(name) && !HttpBodyReader.MayTrail(KnownFields.Find(Encoding.ASCII.GetBytes(name))))
            throw new ArgumentException($"{name} is not allowed after the body.", nameof(name));
        int written;
        while (!HttpWriter.TryWriteField(Pieces.Trailers.AsSpan(Pieces.TrailerBytes), name, value, out written))
            Array.Resize(ref Pieces.Trailers, (Pieces.TrailerBytes + written) * 2);
        Pieces.TrailerBytes += written;
    }

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    internal async ValueTask EndAsync(long generation)
    {
        try
        {
            switch (_progress)
            {
                case Progress.Open:
                    Empty();
                    return;
                case Progress.Ending:
                    await SendLaterAsync().ConfigureAwait(false);
                    break;
                case Progress.Writing:
                    await EndWritingAsync().ConfigureAwait(false);
                    break;
                default:
                    return;
            }

            Complete(Progress.Done);
        }
        catch
        {
            _hasFailed = true;
            throw;
        }
        finally
        {
            _exchange.LeaveWriter(generation);
        }
    }

    // ------------------------------------------------------------------ the buffer

    private void BeginWriting()
    {
        if (_progress == Progress.Writing)
        {
            if (Pieces.IsCut)
                throw new InvalidOperationException("A write was cancelled before all of its data was accepted, or is "
                    + "not complete yet: the response cannot continue.");
            return;
        }

        MustBeOpen();
        if (!CanHaveBody) throw new InvalidOperationException($"An answer with status {_status} has no body.");
        Pieces.Left = Pieces.Announced;
        Span<byte> line = stackalloc byte[RangeLine];
        BeginPart(line, out int lineLength);
        bool isCoded = BeginCoding();
        Pieces.Framing = Pieces.Announced >= 0 && !isCoded ? HttpFraming.Length : _isOld ? HttpFraming.UntilClose
            : HttpFraming.Chunked;
        if (Pieces.Framing == HttpFraming.UntilClose) _wantsClose = true;
        bool isPersistent = Decide(isWhole: false);
        int room = HeadRoom + Pieces.FieldBytes + lineLength;
        Pieces.Capacity = Math.Max(BufferBytes, room + RoomAfterHead);
        Pieces.Buffer = ArrayPool<byte>.Shared.Rent(Pieces.Capacity);
        Pieces.Length = WriteHead(Pieces.Buffer, Pieces.Framing,
            Pieces.Framing == HttpFraming.Length ? Pieces.PartEnd - Pieces.PartStart : -1, isPersistent, default,
            default, line[..lineLength]);
        _progress = Progress.Writing;
        BeginChunk();
    }

    private void BeginChunk()
    {
        if (Pieces.Framing != HttpFraming.Chunked || _isHead) return;
        Pieces.ChunkStart = Pieces.Length;
        Pieces.Length += ChunkLine;
    }

    private void EndChunk()
    {
        if (Pieces.Framing != HttpFraming.Chunked || _isHead) return;
        int bytes = Pieces.Length - Pieces.ChunkStart - ChunkLine;
        if (bytes == 0)
        {
            Pieces.Length = Pieces.ChunkStart; // an empty chunk would end the body
            return;
        }

        Span<byte> line = Pieces.Buffer.AsSpan(Pieces.ChunkStart, ChunkLine);
        bytes.TryFormat(line, out _, "x4", CultureInfo.InvariantCulture);
        "\r\n"u8.CopyTo(line[4..]);
        "\r\n"u8.CopyTo(Pieces.Buffer.AsSpan(Pieces.Length));
        Pieces.Length += LineEnd;
    }

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    private async ValueTask SendBufferAsync(CancellationToken cancellationToken)
    {
        int written = Pieces.Length;
        EndChunk();
        if (Pieces.Length > 0)
        {
            Session.WatchSending();
            try
            {
                Check(await Session.SendAsync(Pieces.Buffer.AsMemory(0, Pieces.Length), cancellationToken)
                    .ConfigureAwait(false));
            }
            catch (OperationCanceledException)
            {
                Pieces.Length = written; // none of it was sent, and its chunk is open again
                throw;
            }
        }

        Pieces.Length = 0;
        BeginChunk();
    }

    /// <summary>Sends the buffer, followed by a piece in the writer's memory, which is not copied if the kernel accepts
    /// it at once.</summary>
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    private async ValueTask SendLargeAsync(ReadOnlyMemory<byte> piece, CancellationToken cancellationToken)
    {
        bool isChunked = Pieces.Framing == HttpFraming.Chunked;
        if (isChunked)
        {
            if (Pieces.Length + LineEnd + LargeChunkLine > Pieces.Buffer!.Length)
                await SendBufferAsync(cancellationToken).ConfigureAwait(false);
            EndChunk();
            piece.Length.TryFormat(Pieces.Buffer.AsSpan(Pieces.Length), out int digits, "x",
                CultureInfo.InvariantCulture);
            "\r\n"u8.CopyTo(Pieces.Buffer.AsSpan(Pieces.Length + digits));
            Pieces.Length += digits + LineEnd;
        }

        Session.WatchSending();
        ReadOnlyMemory<byte> kept = Pieces.Buffer.AsMemory(0, Pieces.Length);
        Check(await Session.SendAsync(Outgoing.Pieces([kept, piece]), cancellationToken).ConfigureAwait(false));
        Pieces.Length = 0;
        if (!isChunked) return;
        "\r\n"u8.CopyTo(Pieces.Buffer); // the end of the piece's chunk is sent with the next data
        Pieces.Length = LineEnd;
        BeginChunk();
    }

    private async ValueTask EndWritingAsync()
    {
        if (Pieces.IsCut)
        {
            Session.Abort();
            throw new InvalidOperationException(
                "A write was cancelled before all of its data was accepted. The connection was aborted.");
        }

        if (Pieces.Announced >= 0 && Pieces.Left > 0 && !_isHead)
        {
            // The peer waits for more bytes than there are.
            Session.Abort();
            throw new InvalidOperationException($"The body is {Pieces.Left} bytes shorter than BodyLength, which is "
                + $"{Pieces.Announced}. The connection was aborted.");
        }

        if (Pieces.Encoder is not null) await EndEncoderAsync().ConfigureAwait(false);
        EndChunk();
        if (Pieces.Framing == HttpFraming.Chunked && !_isHead)
        {
            int last = 5 + Pieces.TrailerBytes;
            if (Pieces.Length + last > Pieces.Buffer!.Length)
            {
                if (Pieces.Length > 0)
                    Check(await Session.SendAsync(Pieces.Buffer.AsMemory(0, Pieces.Length)).ConfigureAwait(false));
                Pieces.Length = 0;
                if (last > Pieces.Buffer.Length)
                {
                    ArrayPool<byte>.Shared.Return(Pieces.Buffer);
                    Pieces.Buffer = null; // if Rent throws, the buffer is returned only once
                    Pieces.Buffer = ArrayPool<byte>.Shared.Rent(last);
                }
            }

            "0\r\n"u8.CopyTo(Pieces.Buffer.AsSpan(Pieces.Length));
            Pieces.Trailers.AsSpan(0, Pieces.TrailerBytes).CopyTo(Pieces.Buffer.AsSpan(Pieces.Length + 3));
            "\r\n"u8.CopyTo(Pieces.Buffer.AsSpan(Pieces.Length + 3 + Pieces.TrailerBytes));
            Pieces.Length += last;
        }

        if (Pieces.Length > 0)
        {
            Session.WatchSending();
            await Session.SendAsync(Pieces.Buffer.AsMemory(0, Pieces.Length)).ConfigureAwait(false);
        }
    }

    private static void Check(SendResult result)
    {
        if (result != SendResult.Queued) throw new IOException($"The answer could not be sent: {result}.");
    }

    // ------------------------------------------------------------------ a large body from memory

    private void KeepForLater(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body)
    {
        Pieces.LaterLength = head.Length + body.Length;
        Pieces.Later = ArrayPool<byte>.Shared.Rent(Pieces.LaterLength);
        head.CopyTo(Pieces.Later);
        body.CopyTo(Pieces.Later.AsSpan(head.Length));
    }

    private async ValueTask SendLaterAsync()
    {
        if (Pieces.File is { } file)
        {
            await SendFileLaterAsync(file).ConfigureAwait(false);
            return;
        }

        if (_isKeptPlain)
        {
            await SendPlainLaterAsync().ConfigureAwait(false);
            return;
        }

        for (int at = 0; at < Pieces.LaterLength; at += WholeBytes)
        {
            Session.WatchSending();
            if (await Session.SendAsync(Pieces.Later.AsMemory(at, Math.Min(WholeBytes, Pieces.LaterLength - at)))
                .ConfigureAwait(false) != SendResult.Queued)
                return;
        }
    }

    // ------------------------------------------------------------------ memory

    private void BeginPieces()
    {
        ref AnswerPieces pieces = ref Pieces;
        pieces.Announced = -1;
        pieces.Length = pieces.TrailerBytes = pieces.FieldBytes = 0;
        pieces.File = pieces.FileType = null;
        _isKeptPlain = _varies = _mayDivide = pieces.IsCut = false;
    }

    private void ReleasePieces()
    {
        ReleaseEncoder();
        ref AnswerPieces pieces = ref Pieces;
        if (pieces.Fields is { } fields) ArrayPool<byte>.Shared.Return(fields);
        if (pieces.Buffer is { } buffer) ArrayPool<byte>.Shared.Return(buffer);
        if (pieces.Later is { } later) ArrayPool<byte>.Shared.Return(later);
        pieces.Fields = pieces.Buffer = pieces.Later = pieces.Trailers = null;
        pieces.Stream = null;
    }
}
