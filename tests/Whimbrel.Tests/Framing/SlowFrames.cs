namespace Whimbrel.Tests.Framing;

// Reference reader, as simple as possible: byte by byte, from the beginning each time, with numbers that cannot
// overflow.
internal sealed record SlowFrames(string Name, FrameFormat Format, int Prefix = 0, bool Little = false,
    bool Itself = false, int Header = 0, string? Delimiter = null, bool Keep = false, bool Varint = false)
{
    internal const int Limit = 20;
    internal const int Empty = 3;

    internal static readonly SlowFrames[] All =
    [
        Prefixed(1), Prefixed(2), Prefixed(2, little: true), Prefixed(4), Prefixed(4, little: true, itself: true),
        Prefixed(8), Prefixed(8, little: true, header: 2), Prefixed(1, itself: true, header: 3),
        new("varint", FrameFormat.VarintPrefix(0, Limit, Empty), Varint: true),
        new("varint after a header", FrameFormat.VarintPrefix(2, Limit, Empty), Header: 2, Varint: true),
        Ended("\n"), Ended("ab", keep: true), Ended("aab"), Ended("aa"),
        new("line", FrameFormat.Line(Limit, Empty)),
        new("fixed", FrameFormat.FixedSize(5)),
    ];

    private static SlowFrames Prefixed(int bytes, bool little = false, bool itself = false, int header = 0) =>
        new($"prefix {bytes} {little} {itself} {header}",
            FrameFormat.LengthPrefix(bytes, little, itself, header, Limit, Empty), bytes, little, itself, header);

    private static SlowFrames Ended(string by, bool keep = false) =>
        new($"delimiter {by} {keep}",
            FrameFormat.Delimited(System.Text.Encoding.ASCII.GetBytes(by), keep, Limit, Empty), Delimiter: by,
            Keep: keep);

    // The messages, each as start and length; the error, if any; and the start of the incomplete frame.
    internal FrameError Find(ReadOnlySpan<byte> all, Span<(int Start, int Length)> found, out int count, out int rest)
    {
        (count, rest) = (0, 0);
        int empty = 0;
        while (true)
        {
            FrameError error = Next(all, rest, out int start, out int length, out int end);
            if (error != FrameError.None || end < 0) return error;
            bool isEmpty = length - (Keep ? Delimiter!.Length : 0) == 0;
            empty = isEmpty ? empty + 1 : 0;
            if (empty > Empty) return FrameError.TooManyEmpty;
            found[count++] = (start, length);
            rest = end;
        }
    }

    private FrameError Next(ReadOnlySpan<byte> all, int at, out int start, out int length, out int end)
    {
        (start, length, end) = (at + Header, 0, -1);
        if (Name == "fixed") return Take(all, at, 5, ref length, ref end, int.MaxValue);
        if (Name == "line" || Delimiter is not null) return NextEnded(all, at, out start, out length, out end);
        UInt128 number = 0;
        if (Varint)
        {
            int shift = 0;
            while (true)
            {
                if (start >= all.Length) return FrameError.None;
                if (shift >= 63) return FrameError.LengthOverflow;
                byte next = all[start++];
                number += (UInt128)(next % 128) << shift;
                shift += 7;
                if (next < 128) break;
            }
        }
        else
        {
            if (all.Length < start + Prefix) return FrameError.None;
            for (int i = 0; i < Prefix; i++) number = (number * 256) + all[Little ? start + Prefix - 1 - i : start + i];
            start += Prefix;
            if (number >> 63 != 0) return FrameError.LengthOverflow;
            if (Itself && number < (UInt128)Prefix) return FrameError.LengthTooSmall;
            if (Itself) number -= (UInt128)Prefix;
        }

        return Take(all, start, number, ref length, ref end, Limit);
    }

    private static FrameError Take(ReadOnlySpan<byte> all, int start, UInt128 number, ref int length,
        ref int end, int limit)
    {
        if (number > (UInt128)limit) return FrameError.TooLong;
        length = (int)number;
        if (start + length <= all.Length) end = start + length;
        return FrameError.None;
    }

    private FrameError NextEnded(ReadOnlySpan<byte> all, int at, out int start, out int length, out int end)
    {
        (start, length, end) = (at, 0, -1);
        string by = Delimiter ?? "\n";
        for (int i = at; i <= all.Length; i++)
        {
            bool isLine = Delimiter is null;
            if (i + by.Length > all.Length) return FrameError.None;
            bool isHere = true;
            for (int k = 0; k < by.Length; k++) isHere &= all[i + k] == by[k];
            // After the last possible place; the CR of a line is the additional byte.
            if (!isHere && i - at == Limit + (isLine ? 1 : 0)) return FrameError.TooLong;
            if (!isHere) continue;
            length = i - at;
            if (isLine && length > 0 && all[i - 1] == '\r') length--;
            if (length > Limit) return FrameError.TooLong;
            if (Keep) length += by.Length;
            end = i + by.Length;
            return FrameError.None;
        }

        return FrameError.None;
    }
}
