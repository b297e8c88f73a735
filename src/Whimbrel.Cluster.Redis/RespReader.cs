using System.Buffers;
using System.Buffers.Text;
using System.Runtime.InteropServices;

namespace Whimbrel.Clusters;

/// <summary>
/// Parser of RESP, without I/O: bytes in, one value out. Reads all types of RESP2 and RESP3 except those of unknown
/// length (<c>$?</c>, <c>*?</c>), which no server sends; attributes are skipped. A value is parsed without recursion,
/// and again when more bytes have arrived, bounded by the limits below.
/// </summary>
internal static class RespReader
{
    /// <summary>Maximum length of a line, with its end.</summary>
    internal const int MostLineBytes = 4096;

    /// <summary>Maximum nesting depth.</summary>
    internal const int MostDepth = 8;

    /// <summary>Maximum number of elements of a value, on all levels.</summary>
    internal const int MostElements = 4096;

    /// <summary>Maximum bytes of a value in addition to its largest bulk.</summary>
    internal const int MostAroundBulk = 64 * 1024;

    private const int LeastValueBytes = 3; // _ CR LF
    private const int MostShownBytes = 60;

    private static readonly SearchValues<byte> s_ofDoubles = SearchValues.Create("0123456789+-.eE"u8);

    /// <summary>Reads the first value.</summary>
    /// <param name="input">Bytes from the beginning of a value.</param>
    /// <param name="mostBulk">Maximum length of a bulk, at most 1 GB. Larger bulks are not assembled.</param>
    internal static RespItem Read(ReadOnlySpan<byte> input, int mostBulk)
    {
        Span<int> left = stackalloc int[MostDepth + 1]; // number of outstanding values, by depth
        left[0] = 1;
        Head first = default;
        int depth = 0, at = 0, bodyAt = 0, elements = 1;
        long waiting = 1; // the same, on all levels
        bool isPush = false;
        while (true)
        {
            Head head = ReadHead(input[at..]);
            if (head.Kind == RespKind.Incomplete) return Incomplete(input, at + (waiting * LeastValueBytes), mostBulk);
            if (head.Kind == RespKind.Malformed) return Malformed(input);
            bool isWanted = depth == 0 && !head.IsAttribute;
            if (isWanted)
            {
                first = head;
                bodyAt = at + head.Length;
                isPush = head.Kind == RespKind.Push;
            }

            if (!head.IsAttribute)
            {
                left[depth]--;
                waiting--;
            }

            at += head.Length;
            if (head.HasBody)
            {
                if (head.Body > mostBulk)
                    return isPush && depth == 1 && left[1] == 0
                        ? new RespItem { Kind = RespKind.TooLarge, Length = at, More = head.Body + 2 }
                        : Malformed(input);
                if (input.Length - at < head.Body + 2)
                    return Incomplete(input, at + head.Body + 2 + (waiting * LeastValueBytes), mostBulk);
                if (!input.Slice(at + head.Body, 2).SequenceEqual("\r\n"u8)
                    || (head.Kind == RespKind.Verbatim && (head.Body < 4 || input[at + 3] != ':')))
                    return Malformed(input);
                at += head.Body + 2;
            }
            else if (head.Count > 0)
            {
                elements += head.Count;
                waiting += head.Count;
                if (elements > MostElements || ++depth > MostDepth) return Malformed(input);
                left[depth] = head.Count;
            }

            while (depth > 0 && left[depth] == 0) depth--;
            if (depth == 0 && left[0] == 0) break;
        }

        ReadOnlySpan<byte> body = first.IsAggregate ? input[bodyAt..at] : first.HasBody ? input[bodyAt..(at - 2)]
            : first.Text;
        return new RespItem { Kind = first.Kind, Length = at, Count = first.Count, Body = body };
    }

    /// <summary>Takes the first value from the body of a complete value.</summary>
    internal static RespItem Next(ref ReadOnlySpan<byte> body)
    {
        RespItem item = Read(body, 1_000_000_000);
        body = body[item.Length..];
        return item;
    }

    private static RespItem Incomplete(ReadOnlySpan<byte> input, long least, int mostBulk) =>
        least > (long)mostBulk + MostAroundBulk
            ? Malformed(input)
            : new RespItem { More = Math.Max((int)least, input.Length + 1) };

    private static RespItem Malformed(ReadOnlySpan<byte> input) =>
        new() { Kind = RespKind.Malformed, Body = input.Length > MostShownBytes ? input[..MostShownBytes] : input };

    private static Head ReadHead(ReadOnlySpan<byte> input)
    {
        ReadOnlySpan<byte> within = input.Length > MostLineBytes ? input[..MostLineBytes] : input;
        // The type is checked before its line is complete, so that another protocol is rejected at once.
        if (within.IsEmpty) return default;
        if (!"+-:$*_,#!=(%~>|"u8.Contains(within[0])) return Wrong;
        int end = within.IndexOf((byte)'\n');
        if (end < 0) return within.Length == MostLineBytes ? Wrong : default;
        if (end < 2 || within[..end].IndexOf((byte)'\r') != end - 1) return Wrong;
        ReadOnlySpan<byte> text = within[1..(end - 1)];
        int length = end + 1;
        return (char)within[0] switch
        {
            '+' => Line(RespKind.Text, text, length, true),
            '-' => Line(RespKind.Error, text, length, true),
            ':' => Line(RespKind.Number, text, length, IsInteger(text) && text.Length <= 20
                && Utf8Parser.TryParse(text, out long _, out int used) && used == text.Length),
            '(' => Line(RespKind.BigNumber, text, length, IsInteger(text)),
            ',' => Line(RespKind.Double, text, length, IsDouble(text)),
            '#' => Line(RespKind.Boolean, text, length, text.Length == 1 && text[0] is (byte)'t' or (byte)'f'),
            '_' => Line(RespKind.Null, text, length, text.IsEmpty),
            '$' when text.SequenceEqual("-1"u8) => Line(RespKind.Null, default, length, true),
            '*' when text.SequenceEqual("-1"u8) => Line(RespKind.Null, default, length, true),
            '$' => Sized(RespKind.Bulk, text, length),
            '!' => Sized(RespKind.Error, text, length),
            '=' => Sized(RespKind.Verbatim, text, length),
            '*' => Several(RespKind.Array, text, length, 1),
            '~' => Several(RespKind.Set, text, length, 1),
            '>' => Several(RespKind.Push, text, length, 1),
            '%' => Several(RespKind.Map, text, length, 2),
            _ => Several(RespKind.Map, text, length, 2) with { IsAttribute = true },
        };
    }

    private static Head Wrong => new() { Kind = RespKind.Malformed };

    private static Head Line(RespKind kind, ReadOnlySpan<byte> text, int length, bool isRight) =>
        isRight ? new Head { Kind = kind, Length = length, Text = text } : Wrong;

    private static Head Sized(RespKind kind, ReadOnlySpan<byte> text, int length) =>
        TryCount(text, out int body) ? new Head { Kind = kind, Length = length, Body = body, HasBody = true } : Wrong;

    private static Head Several(RespKind kind, ReadOnlySpan<byte> text, int length, int each) =>
        TryCount(text, out int count) && count <= MostElements
            ? new Head { Kind = kind, Length = length, Count = count * each, IsAggregate = true }
            : Wrong;

    // Nine digits at most, so that additions cannot overflow.
    private static bool TryCount(ReadOnlySpan<byte> text, out int count)
    {
        count = 0;
        return text.Length is > 0 and <= 9 && !text.ContainsAnyExceptInRange((byte)'0', (byte)'9')
            && Utf8Parser.TryParse(text, out count, out int _);
    }

    private static bool IsInteger(ReadOnlySpan<byte> text)
    {
        if (!text.IsEmpty && text[0] is (byte)'-' or (byte)'+') text = text[1..];
        return !text.IsEmpty && !text.ContainsAnyExceptInRange((byte)'0', (byte)'9');
    }

    private static bool IsDouble(ReadOnlySpan<byte> text) =>
        text.SequenceEqual("inf"u8) || text.SequenceEqual("-inf"u8) || text.SequenceEqual("nan"u8)
        || (!text.ContainsAnyExcept(s_ofDoubles) && Utf8Parser.TryParse(text, out double _, out int used)
            && used == text.Length);

    /// <summary>The first line of a value.</summary>
    [StructLayout(LayoutKind.Auto)]
    private readonly ref struct Head
    {
        internal RespKind Kind { get; init; }

        internal int Length { get; init; }

        internal ReadOnlySpan<byte> Text { get; init; }

        /// <summary>Number of bytes that follow, before a line end.</summary>
        internal int Body { get; init; }

        internal bool HasBody { get; init; }

        /// <summary>Number of values that follow.</summary>
        internal int Count { get; init; }

        internal bool IsAggregate { get; init; }

        /// <summary>Whether it is an attribute of the following value.</summary>
        internal bool IsAttribute { get; init; }
    }
}
