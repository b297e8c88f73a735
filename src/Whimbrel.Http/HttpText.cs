using System.Buffers;
using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>Decoding of paths and queries.</summary>
internal static class HttpText
{
    private const int SmallText = 256;

    /// <summary>Decodes percent-encoding that the reader has checked.</summary>
    internal static ReadOnlySpan<byte> Decode(ReadOnlySpan<byte> text) =>
        text.Contains((byte)'%') ? Decode(text, new byte[text.Length]) : text;

    /// <summary>Decodes into memory of the caller, at least as long as the text.</summary>
    internal static ReadOnlySpan<byte> Decode(ReadOnlySpan<byte> text, Span<byte> plain)
    {
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

        return plain[..length];
    }

    // ------------------------------------------------------------------ queries and forms

    /// <summary>Decodes a query or form text: a plus sign is a space, and a percent sign without two hexadecimal digits
    /// stands for itself. Invalid UTF-8 becomes U+FFFD.</summary>
    internal static string DecodePlus(ReadOnlySpan<byte> text)
    {
        if (text.IndexOfAny((byte)'%', (byte)'+') < 0) return Encoding.UTF8.GetString(text);
        byte[]? rented = null;
        Span<byte> plain =
            text.Length <= SmallText ? stackalloc byte[SmallText] : rented = ArrayPool<byte>.Shared.Rent(text.Length);
        int length = 0;
        while (TryNext(ref text, out byte next)) plain[length++] = next;
        string decoded = Encoding.UTF8.GetString(plain[..length]);
        if (rented is not null) ArrayPool<byte>.Shared.Return(rented);
        return decoded;
    }

    /// <summary>Returns whether the encoded text stands for the given bytes.</summary>
    internal static bool IsPlus(ReadOnlySpan<byte> written, ReadOnlySpan<byte> meant)
    {
        foreach (byte b in meant)
        {
            if (!TryNext(ref written, out byte next) || next != b) return false;
        }

        return written.IsEmpty;
    }

    private static bool TryNext(ref ReadOnlySpan<byte> text, out byte next)
    {
        next = 0;
        if (text.IsEmpty) return false;
        next = text[0];
        if (next == '+') next = (byte)' ';
        else if (next == '%' && text.Length > 2 && HttpBytes.HexOf(text[1]) is >= 0 and int high
            && HttpBytes.HexOf(text[2]) is >= 0 and int low)
        {
            next = (byte)((high << 4) | low);
            text = text[2..];
        }

        text = text[1..];
        return true;
    }
}
