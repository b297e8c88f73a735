namespace Whimbrel.Http.Tests.WebSockets.Cases;

/// <summary>
/// Reference compressor of RFC 1951 and 7692: one block with the fixed codes. Slow, and short enough to be verified by
/// reading.
/// </summary>
/// <param name="bits">The window as a power of two, used completely.</param>
/// <param name="forgets">No context takeover.</param>
internal sealed class PlainDeflate(int bits, bool forgets)
{
    private readonly int[] _places = new int[1 << 16];
    private readonly List<byte> _out = [];
    private byte[] _before = [];
    private int _bits;
    private int _count;

    internal byte[] Pack(ReadOnlySpan<byte> message)
    {
        byte[] data = [.. _before, .. message];
        Array.Fill(_places, -1);
        _out.Clear();
        for (int i = 0; i < _before.Length && i + 2 < data.Length; i++) _places[Place(data, i)] = i;
        Write(0b010, 3); // not the final block, fixed codes
        for (int at = _before.Length; at < data.Length;)
        {
            int length = 0, distance = 0;
            int place = at + 2 < data.Length ? _places[Place(data, at)] : -1;
            if (place >= 0 && at - place <= 1 << bits)
            {
                distance = at - place;
                while (length < 258 && at + length < data.Length && data[place + length] == data[at + length]) length++;
            }

            int next = at + Math.Max(1, length);
            if (length < 3) Literal(data[at]);
            else Copy(length, distance);
            for (; at < next; at++)
            {
                if (at + 2 < data.Length) _places[Place(data, at)] = at;
            }
        }

        Symbol(256);
        Write(0, 3); // an empty block; its four bytes after the header are not sent
        if (_count > 0) Write(0, 8 - _count);
        if (!forgets) _before = data.Length <= 1 << bits ? data : data[^(1 << bits)..];
        return [.. _out];
    }

    // Hash slot of the last position with these three bytes. Collisions are possible; the caller compares the bytes.
    private static int Place(byte[] data, int at) =>
        (int)((uint)((data[at] << 16 | data[at + 1] << 8 | data[at + 2]) * 0x9E37_79B1) >> 16);

    private void Literal(byte value) => Symbol(value);

    private void Symbol(int symbol)
    {
        if (symbol < 144) Code(0x30 + symbol, 8);
        else if (symbol < 256) Code(0x190 + symbol - 144, 9);
        else if (symbol < 280) Code(symbol - 256, 7);
        else Code(0xC0 + symbol - 280, 8);
    }

    private void Copy(int length, int distance)
    {
        int symbol = PlainInflate.IndexOf(PlainInflate.Lengths, length);
        Symbol(257 + symbol);
        Write(length - PlainInflate.Lengths[symbol], PlainInflate.LengthBits[symbol]);
        symbol = PlainInflate.IndexOf(PlainInflate.Distances, distance);
        Code(symbol, 5);
        Write(distance - PlainInflate.Distances[symbol], PlainInflate.DistanceBits[symbol]);
    }

    // Huffman codes are written most significant bit first, numbers least significant bit first.
    private void Code(int code, int length)
    {
        int reversed = 0;
        for (int i = 0; i < length; i++) reversed = reversed << 1 | (code >> i & 1);
        Write(reversed, length);
    }

    private void Write(int value, int length)
    {
        _bits |= value << _count;
        for (_count += length; _count >= 8; _count -= 8)
        {
            _out.Add((byte)_bits);
            _bits >>= 8;
        }
    }
}
