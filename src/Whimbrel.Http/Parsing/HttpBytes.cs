using System.Buffers;
using System.Net;
using System.Text;

namespace Whimbrel.Http.Parsing;

/// <summary>Sets of allowed bytes, and strict parsers of small elements.</summary>
internal static class HttpBytes
{
    private const int MaxDigits = 19;

    /// <summary>Bytes of a token.</summary>
    internal static readonly SearchValues<byte> Token =
        SearchValues.Create("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"u8);

    /// <summary>Control characters except HTAB: the first of them in a line is its end, or an error.</summary>
    internal static readonly SearchValues<byte> NotInLine =
        SearchValues.Create(Where(static b => (b < 0x20 && b != '\t') || b == 0x7F));

    /// <summary>Path bytes that need no check: visible ASCII except <c>"#%&lt;&gt;?</c>.</summary>
    internal static readonly SearchValues<byte> PlainPath =
        SearchValues.Create(Where(static b => b is > 0x20 and < 0x7F && !"\"#%<>?"u8.Contains(b)));

    /// <summary>Query bytes: a single percent sign is allowed, as browsers send it.</summary>
    internal static readonly SearchValues<byte> Query =
        SearchValues.Create(Where(static b => b is > 0x20 and < 0x7F && !"\"#<>"u8.Contains(b)));

    private static readonly SearchValues<byte> s_hostName =
        SearchValues.Create("-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"u8);
    private static readonly SearchValues<byte> s_ipLiteral = SearchValues.Create(".:0123456789ABCDEFabcdef"u8);

    private static byte[] Where(Func<byte, bool> isIn)
    {
        List<byte> found = [];
        for (int b = 0; b < 256; b++)
        {
            if (isIn((byte)b)) found.Add((byte)b);
        }

        return [.. found];
    }

    internal static bool IsToken(ReadOnlySpan<byte> text) => !text.IsEmpty && !text.ContainsAnyExcept(Token);

    internal static bool IsToken(ReadOnlySpan<char> text)
    {
        foreach (char c in text)
        {
            if (c > 0x7F || !Token.Contains((byte)c)) return false;
        }

        return !text.IsEmpty;
    }

    /// <summary>
    /// Returns how many of the first bytes are in the set. Searches of fewer than 16 bytes go byte by byte, which takes
    /// longer than 16 at once. So the following bytes are passed as well, in which a byte outside the set ends the
    /// search soon.
    /// </summary>
    internal static int LengthOf(SearchValues<byte> set, ReadOnlySpan<byte> bytes, int length)
    {
        int found = bytes.IndexOfAnyExcept(set);
        return found < 0 || found > length ? length : found;
    }

    /// <summary>Removes spaces and tabs at both ends. 0x85 and 0xA0 are no white space.</summary>
    internal static ReadOnlySpan<byte> Trim(ReadOnlySpan<byte> text)
    {
        int start = 0, end = text.Length;
        while (start < end && text[start] is (byte)' ' or (byte)'\t') start++;
        while (end > start && text[end - 1] is (byte)' ' or (byte)'\t') end--;
        return text[start..end];
    }

    /// <summary>Parses digits only, up to 19 of them and 63 bits.</summary>
    internal static bool TryParseLength(ReadOnlySpan<byte> digits, out long value)
    {
        value = 0;
        if (digits.IsEmpty || digits.Length > MaxDigits) return false;
        ulong sum = 0; // 19 digits are less than 2^64
        foreach (byte b in digits)
        {
            uint digit = (uint)(b - '0');
            if (digit > 9) return false;
            sum = sum * 10 + digit;
        }

        value = (long)sum;
        return sum <= long.MaxValue;
    }

    /// <summary>Returns the value of a hexadecimal digit, or -1.</summary>
    internal static int HexOf(byte digit) => digit switch
    {
        >= (byte)'0' and <= (byte)'9' => digit - '0',
        >= (byte)'a' and <= (byte)'f' => digit - 'a' + 10,
        >= (byte)'A' and <= (byte)'F' => digit - 'A' + 10,
        _ => -1,
    };

    /// <summary>
    /// Returns whether the text is a host name or an address, with an optional port. Stricter than the RFC: no percent
    /// signs, commas and the like, which no resolvable name has, and no user.
    /// </summary>
    internal static bool IsAuthority(ReadOnlySpan<byte> text, bool needsPort = false) =>
        IsAuthority(text, text.Length, needsPort);

    /// <summary>Returns the same for the first bytes; the bytes after them speed up searches (see
    /// <see cref="LengthOf"/>).</summary>
    internal static bool IsAuthority(ReadOnlySpan<byte> bytes, int length, bool needsPort = false)
    {
        ReadOnlySpan<byte> text = bytes[..length];
        int hostEnd;
        if (text.StartsWith("["u8))
        {
            hostEnd = text.IndexOf((byte)']') + 1;
            if (hostEnd == 0) return false;
            ReadOnlySpan<byte> address = text[1..(hostEnd - 1)];
            if (address.ContainsAnyExcept(s_ipLiteral) || !address.Contains((byte)':')
                || !IPAddress.IsValidUtf8(address))
                return false;
        }
        else
        {
            hostEnd = LengthOf(s_hostName, bytes, length);
            if (hostEnd == 0) return false;
        }

        if (hostEnd == text.Length) return !needsPort;
        return text[hostEnd] == ':' && text.Length - hostEnd <= 6
            && TryParseLength(text[(hostEnd + 1)..], out long port) && port <= ushort.MaxValue;
    }

    /// <summary>Takes the next element of a comma-separated list; empty ones are skipped. Returns false at the
    /// end.</summary>
    internal static bool TryNextElement(ref ReadOnlySpan<byte> list, out ReadOnlySpan<byte> element)
    {
        element = default;
        while (!list.IsEmpty && element.IsEmpty)
        {
            int comma = list.IndexOf((byte)',');
            element = Trim(comma < 0 ? list : list[..comma]);
            list = comma < 0 ? default : list[(comma + 1)..];
        }

        return !element.IsEmpty;
    }
}
