using System.Text;

namespace Whimbrel.Http.Parsing;

/// <summary>Result of a Range field.</summary>
internal enum RangeWish
{
    /// <summary>The whole body: the field is unknown, malformed, or asks for too much.</summary>
    Whole,

    /// <summary>One or more ranges.</summary>
    Parts,

    /// <summary>Ranges that are all outside of the body: 416.</summary>
    Unsatisfiable,
}

/// <summary>
/// Range fields against the length of a body (RFC 9110, 14). A server may ignore the field. So a malformed field, more
/// than <see cref="Most"/> ranges, or more bytes than the body has, get the whole body: a client cannot request a file
/// a hundred times at once.
/// </summary>
internal static class HttpRanges
{
    /// <summary>Largest number of ranges of one response.</summary>
    internal const int Most = 16;

    /// <param name="value">Value of the field.</param>
    /// <param name="length">Length of the body in bytes.</param>
    /// <param name="parts">Buffer for <see cref="Most"/> ranges, in the order of the field.</param>
    /// <param name="count">Number of ranges.</param>
    internal static RangeWish Read(ReadOnlySpan<byte> value, long length, Span<HttpRange> parts, out int count)
    {
        count = 0;
        if (length == 0) return RangeWish.Whole; // an empty body has no ranges
        int equals = value.IndexOf((byte)'=');
        if (equals < 0 || !Ascii.EqualsIgnoreCase(value[..equals], "bytes"u8)) return RangeWish.Whole;
        ReadOnlySpan<byte> list = value[(equals + 1)..];
        long left = length;
        int wishes = 0;
        while (HttpBytes.TryNextElement(ref list, out ReadOnlySpan<byte> element))
        {
            if (++wishes > Most || !TryRead(element, length, out HttpRange part)) return Nothing(out count);
            if (part.Length == 0) continue;
            if (part.Length > left) return Nothing(out count);
            left -= part.Length;
            parts[count++] = part;
        }

        if (wishes == 0) return RangeWish.Whole;
        return count == 0 ? RangeWish.Unsatisfiable : RangeWish.Parts;
    }

    private static RangeWish Nothing(out int count)
    {
        count = 0;
        return RangeWish.Whole;
    }

    /// <summary>Reads one range. Returns false if it is malformed; an empty range is outside of the body.</summary>
    private static bool TryRead(ReadOnlySpan<byte> element, long length, out HttpRange part)
    {
        part = default;
        int dash = element.IndexOf((byte)'-');
        if (dash < 0) return false;
        ReadOnlySpan<byte> first = element[..dash], last = element[(dash + 1)..];
        if (first.IsEmpty)
        {
            if (!TryNumber(last, out long suffix)) return false;
            suffix = Math.Min(suffix, length);
            part = new HttpRange(length - suffix, suffix);
            return true;
        }

        long to = long.MaxValue;
        if (!TryNumber(first, out long from) || (!last.IsEmpty && !TryNumber(last, out to)) || to < from) return false;
        if (from < length) part = new HttpRange(from, Math.Min(to, length - 1) - from + 1);
        return true;
    }

    /// <summary>Parses any number of digits. A number of more than 63 bits is larger than any body.</summary>
    private static bool TryNumber(ReadOnlySpan<byte> digits, out long number)
    {
        number = 0;
        if (digits.IsEmpty || digits.ContainsAnyExceptInRange((byte)'0', (byte)'9')) return false;
        if (!HttpBytes.TryParseLength(digits.TrimStart((byte)'0'), out number) && digits.ContainsAnyExcept((byte)'0'))
            number = long.MaxValue;
        return true;
    }
}
