using System.Text;

namespace Whimbrel.Http.Tests.Parsing;

/// <summary>Seeded requests as bytes: most are valid, others have a few bytes changed. Allocates nothing per message,
/// so that millions take seconds.</summary>
internal sealed class ByteMessages(Random random, string[] lines, string[] fields, string[] chunks, string[] strange)
{
    private const int MostFields = 4;

    private readonly byte[][] _lines = Encode(lines);
    private readonly byte[][] _fields = Encode(fields);
    private readonly byte[][] _chunks = Encode(chunks);
    private readonly byte[][] _strange = Encode(strange);
    private readonly byte[] _bytes = new byte[4096];
    private int _length;

    /// <summary>One or two messages. Valid until the next call.</summary>
    internal ReadOnlySpan<byte> Next()
    {
        _length = 0;
        for (int count = random.Next(1, 3); count > 0; count--) AppendMessage();
        for (int changes = random.Next(4) - 1; changes > 0 && _length > 0; changes--) Change();
        return _bytes.AsSpan(0, _length);
    }

    private void AppendMessage()
    {
        if (random.Next(10) == 0) Append("\r\n"u8);
        Append(_lines[random.Next(random.Next(2) == 0 ? 3 : _lines.Length)]);
        Append("\r\n"u8);
        bool hasHost = false, isChunked = false;
        int body = 0;
        for (int count = random.Next(MostFields); count > 0; count--)
        {
            int field = random.Next(_fields.Length);
            hasHost |= fields[field].StartsWith("Host", StringComparison.OrdinalIgnoreCase);
            isChunked |= fields[field] == "Transfer-Encoding: chunked";
            body = fields[field] switch { "Content-Length: 3" => 3, "Content-Length: 12" => 12, _ => body };
            Append(_fields[field]);
            Append("\r\n"u8);
        }

        if (!hasHost && random.Next(8) > 0) Append("Host: h:80\r\n"u8);
        Append("\r\n"u8);
        Append("GET / HTTP/1"u8[..body]);
        if (!isChunked) return;
        for (int count = random.Next(4); count > 0; count--) Append(_chunks[random.Next(_chunks.Length)]);
        Append("0\r\n"u8);
        if (random.Next(3) == 0) Append("X-T: 1\r\n"u8);
        Append("\r\n"u8);
    }

    private void Change()
    {
        int at = random.Next(_length);
        switch (random.Next(4))
        {
            case 0:
                Replace(at, Math.Min(random.Next(1, 4), _length - at), default);
                break;
            case 1:
                Replace(at, 0, _strange[random.Next(_strange.Length)]);
                break;
            case 2:
                _length = at;
                break;
            default:
                _bytes[at] = (byte)random.Next(256);
                break;
        }
    }

    private void Replace(int at, int count, ReadOnlySpan<byte> by)
    {
        _bytes.AsSpan(at + count, _length - at - count).CopyTo(_bytes.AsSpan(at + by.Length));
        by.CopyTo(_bytes.AsSpan(at));
        _length += by.Length - count;
    }

    private void Append(ReadOnlySpan<byte> bytes)
    {
        bytes.CopyTo(_bytes.AsSpan(_length));
        _length += bytes.Length;
    }

    private static byte[][] Encode(string[] texts) => [.. texts.Select(Encoding.Latin1.GetBytes)];
}
