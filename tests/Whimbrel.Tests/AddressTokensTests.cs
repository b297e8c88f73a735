using System.Net;
using System.Security.Cryptography;

namespace Whimbrel.Tests;

public class AddressTokensTests
{
    private const long NowMs = 1_700_000_000_000;
    private static readonly TimeSpan s_minute = TimeSpan.FromMinutes(1);
    private static readonly DatagramPeer s_peer = new(IPAddress.Parse("192.0.2.1"), 4242);

    private static byte[] Key(int number) => SHA256.HashData([(byte)number]);

    private static byte[] Token(AddressTokens tokens, DatagramPeer peer, long nowMs = NowMs, byte[]? bound = null)
    {
        byte[] token = new byte[AddressTokens.TokenBytes];
        tokens.Write(token, peer, nowMs, bound);
        return token;
    }

    [Fact]
    public void A_token_is_good_for_its_peer_until_its_time_is_over()
    {
        AddressTokens tokens = new(s_minute);
        byte[] token = Token(tokens, s_peer);
        Assert.Equal(AddressTokenCheck.Valid, tokens.Check(token, s_peer, NowMs));
        Assert.Equal(AddressTokenCheck.Valid, tokens.Check(token, s_peer, NowMs + 59_999));
        Assert.Equal(AddressTokenCheck.Expired, tokens.Check(token, s_peer, NowMs + 60_000));
        Assert.Equal(AddressTokenCheck.Expired, tokens.Check(token, s_peer, NowMs - 1));
        Assert.Equal(AddressTokenCheck.Valid,
            tokens.Check(token, new DatagramPeer(IPAddress.Parse("::ffff:192.0.2.1"), 4242), NowMs));
    }

    [Theory]
    [InlineData("192.0.2.2", 4242)]
    [InlineData("192.0.2.1", 4243)]
    [InlineData("::c000:201", 4242)]
    [InlineData("c000:201::", 4242)]
    public void A_token_is_wrong_for_any_other_peer(string address, int port)
    {
        AddressTokens tokens = new(s_minute);
        byte[] token = Token(tokens, s_peer);
        Assert.Equal(AddressTokenCheck.Wrong,
            tokens.Check(token, new DatagramPeer(IPAddress.Parse(address), port), NowMs));
        Assert.Equal(AddressTokenCheck.Wrong, tokens.Check(token, default, NowMs));
    }

    [Fact]
    public void A_link_local_address_counts_with_its_interface()
    {
        AddressTokens tokens = new(s_minute);
        DatagramPeer one = new(new IPAddress(IPAddress.Parse("fe80::1").GetAddressBytes(), 1), 7);
        DatagramPeer other = new(new IPAddress(IPAddress.Parse("fe80::1").GetAddressBytes(), 2), 7);
        Assert.Equal(AddressTokenCheck.Valid, tokens.Check(Token(tokens, one), one, NowMs));
        Assert.Equal(AddressTokenCheck.Wrong, tokens.Check(Token(tokens, one), other, NowMs));
    }

    [Fact]
    public void Every_changed_bit_makes_it_wrong()
    {
        AddressTokens tokens = new(s_minute, Key(1));
        byte[] token = Token(tokens, s_peer);
        for (int bit = 0; bit < token.Length * 8; bit++)
        {
            byte[] changed = [.. token];
            changed[bit / 8] ^= (byte)(1 << (bit % 8));
            Assert.Equal(AddressTokenCheck.Wrong, tokens.Check(changed, s_peer, NowMs));
        }
    }

    [Fact]
    public void Any_invalid_bytes_are_rejected_without_an_exception()
    {
        AddressTokens tokens = new(s_minute);
        foreach (int seed in Seeds.Some(5))
        {
            Random random = new(seed);
            for (int i = 0; i < 500; i++)
            {
                byte[] bytes = new byte[i % 3 == 0 ? AddressTokens.TokenBytes : random.Next(100)];
                random.NextBytes(bytes);
                // The number of the key is not secret.
                if (bytes.Length > 0) bytes[0] = 0;
                Assert.Equal(AddressTokenCheck.Wrong, tokens.Check(bytes, s_peer, NowMs));
            }
        }

        Assert.Equal(AddressTokenCheck.Wrong,
            tokens.Check(Token(tokens, s_peer), s_peer, NowMs, new byte[AddressTokens.MaxBoundBytes + 1]));
    }

    [Fact]
    public void A_token_is_good_for_what_it_was_bound_to()
    {
        AddressTokens tokens = new(s_minute);
        byte[] token = Token(tokens, s_peer, bound: "connection 7"u8.ToArray());
        Assert.Equal(AddressTokenCheck.Valid, tokens.Check(token, s_peer, NowMs, "connection 7"u8));
        Assert.Equal(AddressTokenCheck.Wrong, tokens.Check(token, s_peer, NowMs, "connection 8"u8));
        Assert.Equal(AddressTokenCheck.Wrong, tokens.Check(token, s_peer, NowMs));
        byte[] most = new byte[AddressTokens.MaxBoundBytes];
        Assert.Equal(AddressTokenCheck.Valid, tokens.Check(Token(tokens, s_peer, bound: most), s_peer, NowMs, most));
        Assert.Throws<ArgumentException>(() => Token(tokens, s_peer, bound: new byte[AddressTokens.MaxBoundBytes + 1]));
    }

    [Fact]
    public void Another_key_takes_over_and_the_tokens_of_the_one_before_stay_good()
    {
        AddressTokens tokens = new(s_minute, Key(1));
        byte[] first = Token(tokens, s_peer);
        tokens.Rotate();
        byte[] second = Token(tokens, s_peer);
        Assert.Equal(AddressTokenCheck.Valid, tokens.Check(first, s_peer, NowMs));
        Assert.Equal(AddressTokenCheck.Valid, tokens.Check(second, s_peer, NowMs));
        tokens.Rotate();
        Assert.Equal(AddressTokenCheck.Wrong, tokens.Check(first, s_peer, NowMs));
        Assert.Equal(AddressTokenCheck.Valid, tokens.Check(second, s_peer, NowMs));
        Assert.Throws<ArgumentException>(() => tokens.Rotate(Key(3), keyNumber: 2));
        for (int i = 0; i < 300; i++) tokens.Rotate();
        Assert.Equal(AddressTokenCheck.Valid, tokens.Check(Token(tokens, s_peer), s_peer, NowMs));
    }

    [Fact]
    public void Servers_with_one_key_take_each_others_tokens()
    {
        AddressTokens one = new(s_minute, Key(1), keyNumber: 9, clockSkew: TimeSpan.FromSeconds(2));
        AddressTokens other = new(s_minute, Key(1), keyNumber: 9, clockSkew: TimeSpan.FromSeconds(2));
        AddressTokens stranger = new(s_minute, Key(2), keyNumber: 9);
        byte[] token = Token(one, s_peer);
        Assert.Equal(AddressTokenCheck.Valid, other.Check(token, s_peer, NowMs - 2000));
        Assert.Equal(AddressTokenCheck.Expired, other.Check(token, s_peer, NowMs - 2001));
        Assert.Equal(AddressTokenCheck.Wrong, stranger.Check(token, s_peer, NowMs));
    }

    [Fact]
    public void The_bytes_are_those_that_the_description_says()
    {
        AddressTokens tokens = new(s_minute, Key(1), keyNumber: 5);
        byte[] token = Token(tokens, s_peer, nowMs: 0x010203040506, bound: [0xAA]);
        byte[] head = [5, 1, 2, 3, 4, 5, 6];
        // Family, address in 16 bytes, port, scope, and the bound data.
        byte[] text = [.. head, 2, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4242 >> 8, 4242 & 255, 0, 0,
            0, 0, 0xAA];
        Assert.Equal([.. head, .. HMACSHA256.HashData(Key(1), text)[..16]], token);
    }

    [Fact]
    public void The_clock_may_start_anywhere_and_exceed_the_range_of_the_token()
    {
        AddressTokens tokens = new(s_minute);
        foreach (long startMs in (long[])[0, int.MaxValue, uint.MaxValue, (1L << 48) - 5, (1L << 48) + 5])
        {
            byte[] token = Token(tokens, s_peer, startMs);
            Assert.Equal(AddressTokenCheck.Valid, tokens.Check(token, s_peer, startMs + 59_999));
            Assert.Equal(AddressTokenCheck.Expired, tokens.Check(token, s_peer, startMs + 60_000));
        }
    }

    [Fact]
    public void Creating_and_checking_tokens_allocates_nothing()
    {
        AddressTokens tokens = new(s_minute);
        byte[] token = Token(tokens, s_peer);
        Assert.Equal(0, Allocated.By(() =>
        {
            for (int i = 0; i < 100; i++)
            {
                tokens.Write(token, s_peer, NowMs);
                tokens.Check(token, s_peer, NowMs);
            }
        }));
    }

    [Fact]
    public void Mistakes_of_the_caller_throw()
    {
        Assert.Throws<ArgumentOutOfRangeException>(() => new AddressTokens(TimeSpan.Zero));
        Assert.Throws<ArgumentOutOfRangeException>(() => new AddressTokens(TimeSpan.FromDays(31)));
        Assert.Throws<ArgumentException>(() => new AddressTokens(s_minute, new byte[15]));
        Assert.Throws<ArgumentOutOfRangeException>(
            () => new AddressTokens(s_minute, Key(1), clockSkew: TimeSpan.FromMinutes(2)));
        AddressTokens tokens = new(s_minute);
        Assert.Throws<ArgumentException>(() => tokens.Write(new byte[AddressTokens.TokenBytes - 1], s_peer, 0));
        Assert.Throws<ArgumentException>(() => tokens.Write(new byte[AddressTokens.TokenBytes], default, 0));
    }
}
