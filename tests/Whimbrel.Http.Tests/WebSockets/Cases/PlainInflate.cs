namespace Whimbrel.Http.Tests.WebSockets.Cases;

/// <summary>
/// Reference decompressor of RFC 1951 and 7692, bit by bit. Throws for data that a peer must not send, including copies
/// from outside the window.
/// </summary>
/// <param name="bits">The largest negotiated window, as a power of two.</param>
/// <param name="forgets">No context takeover.</param>
internal sealed class PlainInflate(int bits, bool forgets)
{
    internal static readonly int[] Lengths = [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59,
        67, 83, 99, 115, 131, 163, 195, 227, 258];
    internal static readonly int[] LengthBits = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4,
        5, 5, 5, 5, 0];
    internal static readonly int[] Distances = [1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385,
        513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577];
    internal static readonly int[] DistanceBits = [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10,
        10, 11, 11, 12, 12, 13, 13];

    private static readonly int[] _order = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

    private static readonly Code _fixedLiterals =
        new([.. Enumerable.Range(0, 288).Select(static i => i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8)]);
    private static readonly Code _fixedDistances = new([.. Enumerable.Repeat(5, 30)]);

    private readonly List<byte> _all = [];
    private byte[] _data = [];
    private long _at;

    /// <summary>Index of the last table entry that is not larger.</summary>
    internal static int IndexOf(int[] table, int number)
    {
        int index = Array.BinarySearch(table, number);
        return index >= 0 ? index : ~index - 1;
    }

    internal byte[] Unpack(ReadOnlySpan<byte> message)
    {
        if (forgets) _all.Clear();
        int before = _all.Count;
        _data = [.. message, 0, 0, 0xFF, 0xFF];
        _at = 0;
        bool isLast = false;
        // A final block is padded to a full byte, and the tail is not part of its data.
        while (!isLast && _at < 8L * _data.Length)
        {
            isLast = Read(1) == 1;
            switch (Read(2))
            {
                case 0: Stored(); break;
                case 1: Packed(_fixedLiterals, _fixedDistances); break;
                case 2: Dynamic(); break;
                default: throw new InvalidDataException("a block of a kind that does not exist");
            }
        }

        byte[] bytes = [.. _all.Skip(before)];
        if (_all.Count > 1 << 18) _all.RemoveRange(0, _all.Count - (1 << bits));
        return bytes;
    }

    private int Read(int count)
    {
        int value = 0;
        for (int i = 0; i < count; i++, _at++)
        {
            if (_at >= 8L * _data.Length) throw new InvalidDataException("it ends inside");
            value |= (_data[_at >> 3] >> (int)(_at & 7) & 1) << i;
        }

        return value;
    }

    private void Stored()
    {
        _at = (_at + 7) / 8 * 8;
        int length = Read(16);
        if ((Read(16) ^ length) != 0xFFFF) throw new InvalidDataException("a length and its complement disagree");
        for (int i = 0; i < length; i++) _all.Add((byte)Read(8));
    }

    private void Dynamic()
    {
        int literals = Read(5) + 257, distances = Read(5) + 1, codes = Read(4) + 4;
        int[] lengths = new int[19];
        for (int i = 0; i < codes; i++) lengths[_order[i]] = Read(3);
        Code code = new(lengths);
        List<int> all = [];
        while (all.Count < literals + distances)
        {
            int symbol = Symbol(code);
            if (symbol < 16) all.Add(symbol);
            else if (symbol == 16) all.AddRange(Enumerable.Repeat(all[^1], 3 + Read(2)));
            else all.AddRange(Enumerable.Repeat(0, symbol == 17 ? 3 + Read(3) : 11 + Read(7)));
        }

        Packed(new Code([.. all.Take(literals)]), new Code([.. all.Skip(literals)]));
    }

    private void Packed(Code literals, Code distances)
    {
        while (true)
        {
            int symbol = Symbol(literals);
            if (symbol == 256) return;
            if (symbol < 256)
            {
                _all.Add((byte)symbol);
                continue;
            }

            int length = Lengths[symbol - 257] + Read(LengthBits[symbol - 257]);
            symbol = Symbol(distances);
            int distance = Distances[symbol] + Read(DistanceBits[symbol]);
            if (distance > 1 << bits)
                throw new InvalidDataException($"a copy from {distance} bytes before, with a window of {1 << bits}");
            if (distance > _all.Count)
                throw new InvalidDataException($"a copy from {distance} bytes before, of {_all.Count}");
            for (int i = 0; i < length; i++) _all.Add(_all[^distance]);
        }
    }

    /// <summary>Codes in the order of their lengths, and of symbols with one length.</summary>
    private sealed class Code
    {
        internal readonly int[] Counts = new int[16];
        internal readonly int[] Symbols;

        internal Code(int[] lengths)
        {
            foreach (int length in lengths) Counts[length]++;
            Symbols = [.. Enumerable.Range(0, lengths.Length).Where(i => lengths[i] > 0).OrderBy(i => lengths[i])];
            Counts[0] = 0;
        }
    }

    private int Symbol(Code code)
    {
        int value = 0, first = 0, index = 0;
        int[] counts = code.Counts;
        byte[] data = _data;
        for (int length = 1; length < 16; length++, _at++)
        {
            if (_at >= 8L * data.Length) throw new InvalidDataException("it ends inside");
            value |= data[_at >> 3] >> (int)(_at & 7) & 1;
            int count = counts[length];
            if (value - first < count)
            {
                _at++;
                return code.Symbols[index + value - first];
            }

            index += count;
            first = (first + count) << 1;
            value <<= 1;
        }

        throw new InvalidDataException("a code that does not exist");
    }
}
