using System.Buffers;
using System.Runtime.CompilerServices;
using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// Reads the parts of a body one after the other: a <see cref="MultipartReader"/> over a stream with one pooled buffer,
/// which is returned at the end of the enumeration. One call at a time.
/// </summary>
internal sealed class HttpPartReader(HttpSession session, Stream body, MultipartReader reader)
{
    private const int BufferBytes = 16 * 1024;

    private byte[]? _buffer;
    private int _start;
    private int _end;
    private int _dataLeft;
    private HttpPart? _part;

    /// <summary>Returns the next part; null at the end of the body. Unread bytes of the previous part are
    /// skipped.</summary>
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
                    return _part = new HttpPart(this, TextOf(at, reader.Name, isQuoted: true),
                        reader.FileName is { } file ? SafeName(TextOf(at, file, isQuoted: true)) : null,
                        reader.ContentType is { } type ? TextOf(at, type, isQuoted: false) : null);
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
        if (_buffer is null)
            throw new InvalidOperationException(
                "The form is not read any more: its parts are valid inside await foreach.");
        // A part that has ended has no bytes left.
        while (_dataLeft == 0 && part == _part)
        {
            MultipartReading reading = reader.Read(_buffer.AsSpan(_start, _end - _start), out int taken);
            switch (reading)
            {
                case MultipartReading.Data:
                    _dataLeft = reader.Length;
                    continue; // they are consumed when they are copied
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

    /// <summary>Ends the enumeration, and returns the buffer.</summary>
    internal void End()
    {
        _part = null;
        if (_buffer is { } buffer) ArrayPool<byte>.Shared.Return(buffer);
        _buffer = null;
    }

    internal HttpProtocolException Mistake(int status, string text) => session.Mistake(status, text);

    private HttpProtocolException Broken() =>
        Mistake(MultipartReader.StatusOf(reader.Rule), MultipartReader.TextOf(reader.Rule));

    private async ValueTask<bool> FillAsync(CancellationToken cancellationToken)
    {
        // The rest is a part of a head or of a boundary: both are shorter than the buffer.
        _buffer.AsSpan(_start, _end - _start).CopyTo(_buffer);
        _end -= _start;
        _start = 0;
        int count = await body.ReadAsync(_buffer.AsMemory(_end), cancellationToken).ConfigureAwait(false);
        _end += count;
        return count > 0;
    }

    private string TextOf(int at, Range place, bool isQuoted)
    {
        string text = Encoding.UTF8.GetString(_buffer.AsSpan(at + place.Start.Value,
            place.End.Value - place.Start.Value));
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

    /// <summary>Returns the text after the last path separator of any system, without trailing characters that a system
    /// removes.</summary>
    private static string SafeName(string name) =>
        name[(name.AsSpan().LastIndexOfAny('/', '\\', ':') + 1)..].TrimEnd('.', ' ');
}
