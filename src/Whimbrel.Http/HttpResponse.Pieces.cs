using System.Buffers;
using System.Globalization;
using System.Runtime.CompilerServices;
using System.Text;
using Whimbrel.Http.Compression;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

// Answers that are written piece by piece. What is written gathers in one buffer, [head][chunk line][bytes], which leaves when it is
// full or flushed; a piece that would fill it leaves behind it from its writer's memory. The wait for room in the send queue is the
// back-pressure.
public sealed partial class HttpResponse
{
    private const int BufferBytes = 16 * 1024;
    private const int ChunkLine = 6; // four digits, so that the line is written when the chunk is known
    private const int LargeChunkLine = 7; // five digits: 128 KiB at most
    private const int LineEnd = 2;

    private HttpResponseStream? _stream;
    private HttpFraming _framing;
    private byte[]? _buffer;
    private byte[]? _later;
    private byte[]? _trailers;
    private int _length;
    private int _chunkStart;
    private int _laterLength;
    private int _trailerBytes;
    private long _left;
    private long _announced;
    private bool _isCut;

    /// <summary>How long the body will be: it is then sent as it is, and must become exactly so long. -1 (the default): not known, so it is sent in chunks. Before anything is sent.</summary>
    public long BodyLength
    {
        get => _announced;
        set
        {
            ArgumentOutOfRangeException.ThrowIfLessThan(value, -1);
            MustBeOpen();
            _announced = value;
        }
    }

    /// <summary>The body as a stream to write to. Its FlushAsync is <see cref="FlushAsync"/>; the answer ends with its handler, or <see cref="EndAsync"/>.</summary>
    public Stream Body => _stream ??= new HttpResponseStream(this);

    internal bool IsEventStream { get; private set; }

    /// <summary>Writes a piece of the body. It leaves when 16 KiB have gathered, at a flush, and at the end. Waits while the peer takes nothing.</summary>
    /// <param name="data">Free to be reused when this completes.</param>
    /// <param name="cancellationToken">Gives up waiting. Nobody knows then how much of the piece was sent: the answer cannot go on, and its connection is aborted.</param>
    /// <exception cref="IOException">The connection has ended.</exception>
    /// <exception cref="InvalidOperationException">The answer is complete, or has another length than was said.</exception>
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    public async ValueTask WriteAsync(ReadOnlyMemory<byte> data, CancellationToken cancellationToken = default)
    {
        BeginWriting();
        if (_announced >= 0 && (_left -= data.Length) < 0) throw new InvalidOperationException($"The body becomes longer than BodyLength, which is {_announced}.");
        if (_isHead) return;
        _isCut = true; // until it is taken whole
        if (_encoder is not null)
        {
            await EncodeAsync(data, EncoderStep.Take, cancellationToken).ConfigureAwait(false);
            _isCut = false;
            return;
        }

        if (_framing == HttpFraming.Length) data = PartOf(data);
        BodyBytes += data.Length;
        while (data.Length >= BufferBytes)
        {
            int large = Math.Min(data.Length, WholeBytes);
            await SendLargeAsync(data[..large], cancellationToken).ConfigureAwait(false);
            data = data[large..];
        }

        while (true)
        {
            int count = Math.Min(data.Length, BufferBytes - LineEnd - _length);
            data.Span[..count].CopyTo(_buffer.AsSpan(_length));
            _length += count;
            data = data[count..];
            if (data.IsEmpty) break;
            await SendBufferAsync(cancellationToken).ConfigureAwait(false);
        }

        _isCut = false;
    }

    /// <summary>Sends what was written so far; the head, if nothing was, which is all of an answer whose status has no body.</summary>
    /// <param name="cancellationToken">Gives up waiting.</param>
    /// <exception cref="IOException">The connection has ended.</exception>
    public ValueTask FlushAsync(CancellationToken cancellationToken = default)
    {
        if (_progress == Progress.Open && !CanHaveBody)
        {
            Bytes(default);
            return default;
        }

        BeginWriting();
        return _encoder is null ? SendBufferAsync(cancellationToken) : FlushEncoderAsync(cancellationToken);
    }

    /// <summary>Sends an event to an EventSource (server-sent events), and flushes. The first one sends the head, with <c>text/event-stream</c>.</summary>
    /// <param name="data">Its data; each of its lines becomes one.</param>
    /// <param name="type">Its type, without line ends; null for a message.</param>
    /// <param name="id">Its id, without line ends and NUL; null for none.</param>
    /// <param name="cancellationToken">Gives up waiting.</param>
    /// <exception cref="IOException">The connection has ended.</exception>
    public async ValueTask SendEventAsync(string data, string? type = null, string? id = null, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(data);
        CheckEventText(type, nameof(type));
        CheckEventText(id, nameof(id));
        if (_progress == Progress.Open)
        {
            if (!_hasContentType) Add("Content-Type", "text/event-stream");
            Add("Cache-Control", "no-cache");
            IsEventStream = true;
        }

        StringBuilder text = new();
        if (type is not null) text.Append(CultureInfo.InvariantCulture, $"event: {type}\n");
        if (id is not null) text.Append(CultureInfo.InvariantCulture, $"id: {id}\n");
        foreach (string line in data.Split(["\r\n", "\n", "\r"], StringSplitOptions.None)) text.Append(CultureInfo.InvariantCulture, $"data: {line}\n");
        await WriteAsync(Encoding.UTF8.GetBytes(text.Append('\n').ToString()), cancellationToken).ConfigureAwait(false);
        await FlushAsync(cancellationToken).ConfigureAwait(false);
    }

    private static void CheckEventText(string? text, string name)
    {
        if (text is not null && text.AsSpan().IndexOfAny('\r', '\n', '\0') >= 0) throw new ArgumentException("It has a line end or NUL, and would become another event.", name);
    }

    /// <summary>A field behind the body, which is chunked then. Before the end; a client of HTTP/1.0 does not get it.</summary>
    /// <param name="name">A token; nothing that frames, routes or authorises.</param>
    /// <param name="value">ASCII without control characters.</param>
    public void AddTrailer(string name, string value)
    {
        ArgumentNullException.ThrowIfNull(name);
        ArgumentNullException.ThrowIfNull(value);
        if (_progress is Progress.Ending or Progress.Done || _announced >= 0) throw new InvalidOperationException("A trailer stands behind a body in chunks that is not complete yet.");
        if (HttpBytes.IsToken(name) && !HttpBodyReader.MayTrail(KnownFields.Find(Encoding.ASCII.GetBytes(name)))) throw new ArgumentException($"{name} may not stand behind the body.", nameof(name));
        int written;
        while (!HttpWriter.TryWriteField(_trailers.AsSpan(_trailerBytes), name, value, out written)) Array.Resize(ref _trailers, (_trailerBytes + written) * 2);
        _trailerBytes += written;
    }

    /// <summary>Ends the answer: by itself when an awaited handler has ended. For answers that are given behind <see cref="HttpSession.OnRequest"/>.</summary>
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    public async ValueTask EndAsync()
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

        _progress = Progress.Done;
        _session.AnswerDone();
    }

    // ------------------------------------------------------------------ the buffer

    private void BeginWriting()
    {
        if (_progress == Progress.Writing)
        {
            if (_isCut) throw new InvalidOperationException("A write was given up before all of its piece was taken, or is not complete yet: the answer cannot go on.");
            return;
        }

        MustBeOpen();
        if (!CanHaveBody) throw new InvalidOperationException($"An answer with status {_status} has no body.");
        _left = _announced;
        Span<byte> line = stackalloc byte[RangeLine];
        BeginPart(line, out int lineLength);
        bool isCoded = BeginCoding();
        _framing = _announced >= 0 && !isCoded ? HttpFraming.Length : _isOld ? HttpFraming.UntilClose : HttpFraming.Chunked;
        if (_framing == HttpFraming.UntilClose) _wantsClose = true;
        bool isPersistent = Decide(isWhole: false);
        int room = HeadRoom + _fieldBytes + lineLength;
        _buffer = ArrayPool<byte>.Shared.Rent(Math.Max(BufferBytes, room + ChunkLine + LineEnd + 1));
        _length = WriteHead(_buffer, _framing, _framing == HttpFraming.Length ? _partEnd - _partStart : -1, isPersistent, default, default, line[..lineLength]);
        _progress = Progress.Writing;
        BeginChunk();
        if (_length > BufferBytes - LineEnd - 1) throw new InvalidOperationException("The fields of the answer are too large to be written piece by piece.");
    }

    private void BeginChunk()
    {
        if (_framing != HttpFraming.Chunked || _isHead) return;
        _chunkStart = _length;
        _length += ChunkLine;
    }

    private void EndChunk()
    {
        if (_framing != HttpFraming.Chunked || _isHead) return;
        int bytes = _length - _chunkStart - ChunkLine;
        if (bytes == 0)
        {
            _length = _chunkStart; // one without bytes would be the last
            return;
        }

        Span<byte> line = _buffer.AsSpan(_chunkStart, ChunkLine);
        bytes.TryFormat(line, out _, "x4", CultureInfo.InvariantCulture);
        "\r\n"u8.CopyTo(line[4..]);
        "\r\n"u8.CopyTo(_buffer.AsSpan(_length));
        _length += LineEnd;
    }

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    private async ValueTask SendBufferAsync(CancellationToken cancellationToken)
    {
        int written = _length;
        EndChunk();
        if (_length > 0)
        {
            _session.WatchSending();
            try
            {
                Check(await _session.SendAsync(_buffer.AsMemory(0, _length), cancellationToken).ConfigureAwait(false));
            }
            catch (OperationCanceledException)
            {
                _length = written; // none of it has left, and its chunk is open again
                throw;
            }
        }

        _length = 0;
        BeginChunk();
    }

    /// <summary>What was written so far, and behind it a piece in the memory of who writes it, which is not copied when the system takes it at once.</summary>
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    private async ValueTask SendLargeAsync(ReadOnlyMemory<byte> piece, CancellationToken cancellationToken)
    {
        bool isChunked = _framing == HttpFraming.Chunked;
        if (isChunked)
        {
            if (_length + LineEnd + LargeChunkLine > _buffer!.Length) await SendBufferAsync(cancellationToken).ConfigureAwait(false);
            EndChunk();
            piece.Length.TryFormat(_buffer.AsSpan(_length), out int digits, "x", CultureInfo.InvariantCulture);
            "\r\n"u8.CopyTo(_buffer.AsSpan(_length + digits));
            _length += digits + LineEnd;
        }

        _session.WatchSending();
        Check(await _session.SendAsync(_buffer.AsMemory(0, _length), piece, cancellationToken).ConfigureAwait(false));
        _length = 0;
        if (!isChunked) return;
        "\r\n"u8.CopyTo(_buffer); // the end of the piece's chunk leaves with what follows
        _length = LineEnd;
        BeginChunk();
    }

    private async ValueTask EndWritingAsync()
    {
        if (_isCut)
        {
            _session.Abort();
            throw new InvalidOperationException("A write was given up before all of its piece was taken. The connection was aborted.");
        }

        if (_announced >= 0 && _left > 0 && !_isHead)
        {
            // The peer waits for more, and there is none.
            _session.Abort();
            throw new InvalidOperationException($"The body is {_left} bytes shorter than BodyLength, which is {_announced}. The connection was aborted.");
        }

        if (_encoder is not null) await EndEncoderAsync().ConfigureAwait(false);
        EndChunk();
        if (_framing == HttpFraming.Chunked && !_isHead)
        {
            int last = 5 + _trailerBytes;
            if (_length + last > _buffer!.Length)
            {
                if (_length > 0) Check(await _session.SendAsync(_buffer.AsMemory(0, _length)).ConfigureAwait(false));
                _length = 0;
                if (last > _buffer.Length)
                {
                    ArrayPool<byte>.Shared.Return(_buffer);
                    _buffer = null; // whatever Rent throws, it is given back once
                    _buffer = ArrayPool<byte>.Shared.Rent(last);
                }
            }

            "0\r\n"u8.CopyTo(_buffer.AsSpan(_length));
            _trailers.AsSpan(0, _trailerBytes).CopyTo(_buffer.AsSpan(_length + 3));
            "\r\n"u8.CopyTo(_buffer.AsSpan(_length + 3 + _trailerBytes));
            _length += last;
        }

        if (_length > 0)
        {
            _session.WatchSending();
            await _session.SendAsync(_buffer.AsMemory(0, _length)).ConfigureAwait(false);
        }
    }

    private static void Check(SendResult result)
    {
        if (result != SendResult.Queued) throw new IOException($"The answer could not be sent: {result}.");
    }

    // ------------------------------------------------------------------ a large body from memory

    private void KeepForLater(ReadOnlySpan<byte> head, ReadOnlySpan<byte> body)
    {
        _laterLength = head.Length + body.Length;
        _later = ArrayPool<byte>.Shared.Rent(_laterLength);
        head.CopyTo(_later);
        body.CopyTo(_later.AsSpan(head.Length));
    }

    private async ValueTask SendLaterAsync()
    {
        if (_file is { } file)
        {
            await SendFileLaterAsync(file).ConfigureAwait(false);
            return;
        }

        if (_isKeptPlain)
        {
            await SendPlainLaterAsync().ConfigureAwait(false);
            return;
        }

        for (int at = 0; at < _laterLength; at += WholeBytes)
        {
            _session.WatchSending();
            if (await _session.SendAsync(_later.AsMemory(at, Math.Min(WholeBytes, _laterLength - at))).ConfigureAwait(false) != SendResult.Queued) return;
        }
    }

    // ------------------------------------------------------------------ memory

    private void BeginPieces()
    {
        _announced = -1;
        _length = _trailerBytes = 0;
        _isKeptPlain = _varies = _isCut = false;
    }

    private void ReleasePieces()
    {
        if (_buffer is { } buffer) ArrayPool<byte>.Shared.Return(buffer);
        if (_later is { } later) ArrayPool<byte>.Shared.Return(later);
        _buffer = _later = _trailers = null;
        _stream = null;
        ReleaseEncoder();
    }
}
