using System.IO.Compression;
using System.Text;
using Whimbrel.Http.WebSockets;
using Whimbrel.Tests;

namespace Whimbrel.Http.Tests.WebSockets;

public sealed class DeflateTests
{
    private const int Most = 1 << 20;

    private static byte[] Inflate(Inflater inflater, ReadOnlySpan<byte> data, int most = Most)
    {
        MessageBuffer target = default;
        Assert.Equal(Inflater.Outcome.Fine, inflater.Add(data, isLast: true, ref target, most));
        byte[] bytes = target.Span.ToArray();
        target.Release();
        return bytes;
    }

    private static byte[] Deflate(Deflater deflater, params ReadOnlySpan<byte[]> pieces)
    {
        MessageBuffer target = default;
        for (int i = 0; i < pieces.Length; i++) deflater.Add(pieces[i], i == pieces.Length - 1, ref target);
        byte[] bytes = target.Span.ToArray();
        target.Release();
        return bytes;
    }

    [Theory]
    [InlineData("F248CDC9C90700")] // RFC 7692, 7.2.3.1
    [InlineData("000500FAFF48656C6C6F00")] // 7.2.3.3: a block without compression
    [InlineData("F348CDC9C9070000")] // 7.2.3.4: a block that says it is the last
    [InlineData("F24805000000FFFFCAC9C90700")] // 7.2.3.5: two blocks
    public void The_examples_of_the_RFC_say_Hello(string hex)
    {
        using Inflater inflater = new(15, forgets: false);
        Assert.Equal("Hello"u8.ToArray(), Inflate(inflater, Convert.FromHexString(hex)));
    }

    [Fact]
    public void The_second_Hello_with_a_context_is_shorter_and_without_it_is_not()
    {
        using Deflater deflater = new(6, 15, 8);
        byte[] hello = "Hello"u8.ToArray();
        byte[] first = Deflate(deflater, hello);
        deflater.Recall(hello);
        byte[] second = Deflate(deflater, hello);
        Assert.True(second.Length < first.Length, $"{first.Length} {second.Length}");
        Assert.Equal(first, Deflate(deflater, hello));
        using Inflater inflater = new(15, forgets: false);
        Assert.Equal(hello, Inflate(inflater, first));
        Assert.Equal(hello, Inflate(inflater, second));
    }

    [Theory]
    [InlineData(9, 512)]
    [InlineData(12, 4096)]
    [InlineData(15, 4096)]
    public void A_context_is_the_end_of_all_messages_up_to_4_KiB_and_up_to_its_window(int bits, int most)
    {
        Random random = new(bits);
        DeflateHistory history = default;
        byte[] all = [];
        for (int i = 0; i < 200; i++)
        {
            byte[] message = new byte[i % 10 == 0 ? most + (i / 10 % 3) - 1 : random.Next(most)];
            random.NextBytes(message);
            history.Add(message, bits);
            all = [.. all, .. message];
            all = all[Math.Max(0, all.Length - most)..];
            Assert.Equal(all, history.Span.ToArray());
        }

        history.Forget();
        Assert.True(history.Span.IsEmpty);
    }

    [Fact]
    public void Messages_of_all_kinds_come_back_with_every_window_in_pieces_and_whole()
    {
        foreach (int seed in Seeds.Some(2))
        {
            Random random = new(seed);
            for (int bits = 8; bits <= 15; bits++)
            {
                for (int kind = 0; kind < 2; kind++)
                {
                    using Deflater deflater = new(random.Next(1, 10), Math.Max(bits, 9), random.Next(1, 10));
                    DeflateHistory history = default;
                    using Inflater inflater = new(Math.Max(bits, 9), kind == 1);
                    for (int run = 0; run < 60; run++)
                    {
                        byte[] message =
                            new byte[random.Next(4) == 0 ? 0 : random.Next(random.Next(2) == 0 ? 50 : 50_000)];
                        if (random.Next(3) > 0) random.NextBytes(message);
                        if (random.Next(3) == 0) message.AsSpan(message.Length / 2).Fill(7);
                        int cut = random.Next(message.Length + 1);
                        if (kind == 0) deflater.Recall(history.Span);
                        byte[] packed = random.Next(2) == 0
                            ? Deflate(deflater, message)
                            : Deflate(deflater, message[..cut], message[cut..]);
                        MessageBuffer target = default;
                        int split = random.Next(packed.Length + 1);
                        Assert.Equal(Inflater.Outcome.Fine,
                            inflater.Add(packed.AsSpan(0, split), false, ref target, Most));
                        Assert.Equal(Inflater.Outcome.Fine, inflater.Add(packed.AsSpan(split), true, ref target, Most));
                        Assert.True(message.AsSpan().SequenceEqual(target.Span),
                            $"seed {seed}, bits {bits}, run {run}");
                        target.Release();
                        if (kind == 0) history.Add(message, Math.Max(bits, 9));
                        Assert.InRange(history.Span.Length, 0,
                            Math.Min(DeflateHistory.MostBytes, 1 << Math.Max(bits, 9)));
                    }

                    history.Forget();
                }
            }
        }
    }

    [Fact]
    public void DEFLATE_data_of_NET_is_decompressed()
    {
        byte[] text = Encoding.ASCII.GetBytes(string.Join(' ', Enumerable.Range(0, 5000)));
        MemoryStream packed = new();
        using (DeflateStream stream = new(packed, CompressionLevel.SmallestSize, leaveOpen: true)) stream.Write(text);
        using Inflater inflater = new(15, forgets: false);
        // its last block is marked as the last: RFC 7692, 7.2.3.4
        for (int i = 0; i < 3; i++) Assert.Equal(text, Inflate(inflater, [.. packed.ToArray(), 0]));
    }

    [Theory]
    [InlineData(1000, 1000, true)]
    [InlineData(1000, 999, false)]
    [InlineData(10_000_000, 65_536, false)]
    [InlineData(0, 0, true)]
    [InlineData(1, 0, false)]
    public void A_message_of_the_limit_is_taken_and_one_byte_more_is_not(int length, int limit, bool fits)
    {
        using Deflater deflater = new(9, 15, 8);
        using Inflater inflater = new(15, forgets: false);
        byte[] packed = Deflate(deflater, new byte[length]);
        MessageBuffer target = default;
        Inflater.Outcome outcome = inflater.Add(packed, true, ref target, limit);
        Assert.Equal(fits ? Inflater.Outcome.Fine : Inflater.Outcome.TooLarge, outcome);
        Assert.InRange(target.Length, 0, limit + 1);
        target.Release();
    }

    [Theory]
    [InlineData("FF")] // a block of a kind that does not exist
    [InlineData("000500FAFE48656C6C6F00")] // the length and its complement disagree
    [InlineData("4B04A3E1FFFF")]
    public void Invalid_DEFLATE_data_is_refused(string hex)
    {
        using Inflater inflater = new(15, forgets: false);
        MessageBuffer target = default;
        Assert.Equal(Inflater.Outcome.Malformed, inflater.Add(Convert.FromHexString(hex), true, ref target, Most));
        target.Release();
    }

    // Less than a complete message must be rejected: delivering its beginning would be a silent loss.
    [Theory]
    [InlineData("F248CDC9C90700", -1, "")]
    [InlineData("000500FAFF48656C6C6F00", 1, "")] // one zero is the empty message
    // without its last byte, which belongs to the empty block required after a final block
    [InlineData("F348CDC9C9070000", -1, "")]
    // cut before the tail of the first flush, it is a valid message of two letters
    [InlineData("F24805000000FFFFCAC9C90700", 4, "He")]
    public void A_truncated_message_is_refused(string hex, int shorterLength, string shorter)
    {
        byte[] whole = Convert.FromHexString(hex);
        for (int length = 0; length < whole.Length; length++)
        {
            foreach (bool forgets in (bool[])[false, true])
            {
                using Inflater inflater = new(15, forgets);
                MessageBuffer target = default;
                Inflater.Outcome outcome = inflater.Add(whole.AsSpan(0, length), true, ref target, Most);
                bool isShorter = length == shorterLength;
                Assert.Equal((isShorter ? Inflater.Outcome.Fine : Inflater.Outcome.Malformed, length),
                    (outcome, length));
                if (isShorter) Assert.Equal(shorter, Encoding.ASCII.GetString(target.Span));
                target.Release();
            }
        }
    }

    // All block types, long matches, windows: a message cut at any byte but the last is rejected, or yields a prefix of
    // the text.
    [Fact]
    public void A_cut_in_any_message_is_refused_or_gives_a_beginning_of_it_that_ends_with_a_block()
    {
        foreach (int seed in Seeds.Some(2))
        {
            Random random = new(seed);
            for (int run = 0; run < 40; run++)
            {
                byte[] message = new byte[random.Next(1, 3000)];
                random.NextBytes(message);
                if (run % 2 == 0) message.AsSpan().Fill((byte)run);
                if (run % 4 == 1) for (int i = 0; i < message.Length; i++) message[i] &= 7;
                using Deflater deflater = new(random.Next(1, 10), random.Next(9, 16), random.Next(1, 10));
                byte[] packed = Deflate(deflater, message);
                for (int length = random.Next(3); length < packed.Length; length += random.Next(1, 9))
                {
                    using Inflater inflater = new(15, forgets: false);
                    MessageBuffer target = default;
                    Inflater.Outcome outcome = inflater.Add(packed.AsSpan(0, length), true, ref target, Most);
                    if (outcome != Inflater.Outcome.Malformed)
                    {
                        Assert.True(outcome == Inflater.Outcome.Fine && message.AsSpan().StartsWith(target.Span)
                            && target.Length < message.Length,
                            $"seed {seed}, run {run}, cut at {length} of {packed.Length}: {outcome}");
                    }

                    target.Release();
                }

                using Inflater whole = new(15, forgets: false);
                Assert.Equal(message, Inflate(whole, packed));
            }
        }
    }

    [Fact]
    public void Any_bytes_lead_to_an_outcome()
    {
        foreach (int seed in Seeds.Some(2))
        {
            Random random = new(seed);
            for (int run = 0; run < 5000; run++)
            {
                using Inflater inflater = new(15, run % 2 == 0);
                byte[] bytes = new byte[random.Next(1, 60)];
                random.NextBytes(bytes);
                MessageBuffer target = default;
                _ = inflater.Add(bytes, true, ref target, 10_000);
                Assert.InRange(target.Length, 0, 10_001);
                target.Release();
            }
        }
    }
}
