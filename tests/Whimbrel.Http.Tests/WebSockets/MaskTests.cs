using Whimbrel.Http.Parsing;

namespace Whimbrel.Http.Tests.WebSockets;

public sealed class MaskTests
{
    [Fact]
    public void Every_length_is_masked_byte_by_byte_in_place_and_while_it_is_copied()
    {
        byte[] key = [0x37, 0xFA, 0x21, 0x3D];
        uint number = BitConverter.ToUInt32(key);
        for (int offset = 0; offset < 5; offset++)
        {
            for (int length = 0; length <= 300; length++)
            {
                byte[] source = new byte[offset + length + 1], target = new byte[offset + length + 1];
                new Random(length).NextBytes(source);
                byte[] expected = [.. source];
                for (int i = 0; i < length; i++) expected[offset + i] ^= key[i & 3];
                WebSocketMask.Copy(source.AsSpan(offset, length), target.AsSpan(offset), number);
                Assert.Equal(expected.AsSpan(offset, length), target.AsSpan(offset, length));
                Assert.Equal(0, target[^1]);
                WebSocketMask.Apply(source.AsSpan(offset, length), number);
                Assert.Equal(expected, source);
            }
        }
    }

    [Fact]
    public void A_payload_in_pieces_is_masked_as_if_it_were_one()
    {
        byte[] source = new byte[200];
        new Random(3).NextBytes(source);
        byte[] whole = [.. source];
        WebSocketMask.Apply(whole, 0xDEADBEEF);
        for (int cut = 0; cut <= source.Length; cut++)
        {
            byte[] pieces = [.. source];
            WebSocketMask.Apply(pieces.AsSpan(0, cut), 0xDEADBEEF);
            WebSocketMask.Apply(pieces.AsSpan(cut), WebSocketMask.Rotate(0xDEADBEEF, cut));
            Assert.Equal(whole, pieces);
        }
    }

    [Fact]
    public void A_target_that_is_too_small_is_refused() =>
        Assert.Throws<ArgumentException>(() => WebSocketMask.Copy(new byte[2], new byte[1], 0));
}
