using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>Text in paths and queries.</summary>
internal static class HttpText
{
    /// <summary>Takes percent signs away, which the reader has checked.</summary>
    internal static ReadOnlySpan<byte> Decode(ReadOnlySpan<byte> text)
    {
        if (!text.Contains((byte)'%')) return text;
        byte[] plain = new byte[text.Length];
        int length = 0;
        for (int at = 0; at < text.Length; at++)
        {
            if (text[at] != '%') plain[length++] = text[at];
            else
            {
                plain[length++] = (byte)((HttpBytes.HexOf(text[at + 1]) << 4) | HttpBytes.HexOf(text[at + 2]));
                at += 2;
            }
        }

        return plain.AsSpan(0, length);
    }
}
