using System.Text;

namespace Whimbrel.Http.Parsing;

/// <summary>What a Range field asks for.</summary>
internal enum RangeWish
{
    /// <summary>All of it: the field is none that we know, is broken, or asks for too much.</summary>
    Whole,

    /// <summary>One part or several.</summary>
    Parts,

    /// <summary>Parts, none of which there is: 416.</summary>
    Unsatisfiable,
}

/// <summary>
/// Range fields against the length of a body (RFC 9110, 14). A field may be passed over, so what is broken, has more than
/// <see cref="Most"/> parts, or asks for more bytes than there are, is answered with the whole: nobody can ask for a file a hundred times at once.
/// </summary>
internal static class HttpRanges
{
    /// <summary>Parts of one answer.</summary>
    internal const int Most = 16;

    /// <param name="value">The value of the field.</param>
    /// <param name="length">Bytes of the body.</param>
    /// <param name="parts">Room for <see cref="Most"/>: the parts, in the order of the field.</param>
    /// <param name="count">How many there are.</param>
    internal static RangeWish Read(ReadOnlySpan<byte> value, long length, Span<HttpRange> parts, out int count)
    {
        count = 0;
        if (length == 0) return RangeWish.Whole; // there is nothing to divide
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

    /// <summary>False: broken. An empty part: right, and there is no such part.</summary>
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

    /// <summary>Digits, as many as there are: what has more than 63 bits is larger than any body.</summary>
    private static bool TryNumber(ReadOnlySpan<byte> digits, out long number)
    {
        number = 0;
        if (digits.IsEmpty || digits.ContainsAnyExceptInRange((byte)'0', (byte)'9')) return false;
        if (!HttpBytes.TryParseLength(digits.TrimStart((byte)'0'), out number) && digits.ContainsAnyExcept((byte)'0')) number = long.MaxValue;
        return true;
    }
}
