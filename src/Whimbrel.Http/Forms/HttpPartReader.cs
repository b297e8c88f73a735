using System.Buffers;
using System.Runtime.CompilerServices;
using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// Brings the parts of a body one after the other: a <see cref="MultipartReader"/> with a stream under it and one buffer between them, which is the
/// pool's again when the last part has been read or nobody reads on. One call at a time.
/// </summary>
internal sealed class HttpPartReader(HttpSession session, Stream body, MultipartReader reader)
{
    private const int BufferBytes = 16 * 1024;

    private byte[]? _buffer;
    private int _start;
    private int _end;
    private int _dataLeft;
    private HttpPart? _part;

    /// <summary>The next part; null at the end of the body. What was not read of the one before is passed over.</summary>
    internal async ValueTask<HttpPart?> NextAsync(CancellationToken cancellationToken)
    {
        _buffer ??= ArrayPool<byte>.Shared.Rent(BufferBytes);
        while (true)
        {
            MultipartReading reading = reader.Read(_buffer.AsSpan(_start, _end - _start), out int taken);
            int at = _start;
            _start += taken;
            switch (reading)
            {
                case MultipartReading.Part:
                    return _part = new HttpPart(this, TextOf(at, reader.Name, isQuoted: true), reader.FileName is { } file ? SafeName(TextOf(at, file, isQuoted: true)) : null, reader.ContentType is { } type ? TextOf(at, type, isQuoted: false) : null);
                case MultipartReading.Broken:
                    throw Broken();
                case MultipartReading.NeedMore when !await FillAsync(cancellationToken).ConfigureAwait(false):
                    _part = null;
                    return reader.Finish() ? null : throw Broken();
            }
        }
    }

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    internal async ValueTask<int> ReadAsync(HttpPart part, Memory<byte> into, CancellationToken cancellationToken)
    {
        if (_buffer is null) throw new InvalidOperationException("The form is not read any more: its parts are valid inside await foreach.");
        // One that is over has no bytes left.
        while (_dataLeft == 0 && part == _part)
        {
            MultipartReading reading = reader.Read(_buffer.AsSpan(_start, _end - _start), out int taken);
            switch (reading)
            {
                case MultipartReading.Data:
                    _dataLeft = reader.Length;
                    continue; // they are taken when somebody has them
                case MultipartReading.PartEnd:
                    _start += taken;
                    _part = null;
                    continue;
                case MultipartReading.Broken:
                    throw Broken();
            }

            _start += taken;
            if (await FillAsync(cancellationToken).ConfigureAwait(false)) continue;
            reader.Finish();
            throw Broken();
        }

        if (part != _part) return 0;
        int count = Math.Min(_dataLeft, into.Length);
        _buffer.AsSpan(_start, count).CopyTo(into.Span);
        _start += count;
        _dataLeft -= count;
        return count;
    }

    /// <summary>Nobody reads on.</summary>
    internal void End()
    {
        _part = null;
        if (_buffer is { } buffer) ArrayPool<byte>.Shared.Return(buffer);
        _buffer = null;
    }

    internal HttpProtocolException Mistake(int status, string text) => session.Mistake(status, text);

    private HttpProtocolException Broken() => Mistake(MultipartReader.StatusOf(reader.Rule), MultipartReader.TextOf(reader.Rule));

    private async ValueTask<bool> FillAsync(CancellationToken cancellationToken)
    {
        // What is left is a part of a head or of a boundary: both are shorter than the buffer.
        _buffer.AsSpan(_start, _end - _start).CopyTo(_buffer);
        _end -= _start;
        _start = 0;
        int count = await body.ReadAsync(_buffer.AsMemory(_end), cancellationToken).ConfigureAwait(false);
        _end += count;
        return count > 0;
    }

    private string TextOf(int at, Range place, bool isQuoted)
    {
        string text = Encoding.UTF8.GetString(_buffer.AsSpan(at + place.Start.Value, place.End.Value - place.Start.Value));
        return isQuoted && text.Contains('\\', StringComparison.Ordinal) ? Unquote(text) : text;
    }

    private static string Unquote(string text)
    {
        StringBuilder plain = new(text.Length);
        for (int i = 0; i < text.Length; i++)
        {
            if (text[i] == '\\' && i + 1 < text.Length && text[i + 1] is '"' or '\\') i++;
            plain.Append(text[i]);
        }

        return plain.ToString();
    }

    /// <summary>What is behind the last of all that divides paths somewhere, and is a name: not a directory, nothing that a system cuts off.</summary>
    private static string SafeName(string name) => name[(name.AsSpan().LastIndexOfAny('/', '\\', ':') + 1)..].TrimEnd('.', ' ');
}
