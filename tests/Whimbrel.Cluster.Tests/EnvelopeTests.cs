using Whimbrel.Clusters;

namespace Whimbrel.Tests;

public sealed class EnvelopeTests
{
    private static readonly byte[] s_key = [.. Enumerable.Range(1, 16).Select(static i => (byte)i)];

    private static byte[] Make(byte[] key, string group = "lobby", string payload = "hello", EnvelopeKind kind = EnvelopeKind.Broadcast)
    {
        byte[] bytes = new byte[Envelope.Length(3, group.Length, payload.Length, key.Length > 0)];
        Envelope.Write(bytes, kind, 0x1122334455667788, 7, "one"u8, System.Text.Encoding.ASCII.GetBytes(group), System.Text.Encoding.ASCII.GetBytes(payload), key.Length > 0);
        Envelope.Seal(bytes, 42, key);
        return bytes;
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void What_is_written_is_read(bool isSigned)
    {
        byte[] key = isSigned ? s_key : [];
        Assert.Equal(EnvelopeResult.Read, Envelope.TryRead(Make(key), key, out Envelope read));
        Assert.Equal((EnvelopeKind.Broadcast, 0x1122334455667788ul, 7u, 42ul), (read.Kind, read.Instance, read.Epoch, read.Sequence));
        Assert.True(read.Node.SequenceEqual("one"u8) && read.Group.SequenceEqual("lobby"u8) && read.Payload.SequenceEqual("hello"u8));
    }

    [Fact]
    public void A_signed_envelope_is_refused_at_every_cut_and_with_every_bit_changed()
    {
        byte[] whole = Make(s_key);
        for (int length = 0; length < whole.Length; length++) Assert.NotEqual(EnvelopeResult.Read, Envelope.TryRead(whole.AsSpan(0, length), s_key, out _));
        for (int bit = 0; bit < whole.Length * 8; bit++)
        {
            byte[] changed = [.. whole];
            changed[bit / 8] ^= (byte)(1 << (bit % 8));
            Assert.NotEqual(EnvelopeResult.Read, Envelope.TryRead(changed, s_key, out _));
        }

        Assert.Equal(EnvelopeResult.Refused, Envelope.TryRead(Make([]), s_key, out _));
    }

    [Fact]
    public void A_plain_envelope_cut_in_its_head_or_names_is_refused()
    {
        byte[] whole = Make([]);
        for (int length = 0; length < Envelope.HeadBytes + 3 + 5; length++) Assert.Equal(EnvelopeResult.Refused, Envelope.TryRead(whole.AsSpan(0, length), default, out _));
    }

    [Fact]
    public void Another_version_is_told_apart()
    {
        byte[] bytes = Make([]);
        bytes[0] = 2;
        Assert.Equal(EnvelopeResult.UnknownVersion, Envelope.TryRead(bytes, default, out _));
    }

    [Fact]
    public void Random_bytes_never_throw()
    {
        foreach (int seed in Seeds.Some(20))
        {
            Random random = new(seed);
            for (int i = 0; i < 2_000; i++)
            {
                byte[] bytes = Make(random.Next(2) == 0 ? s_key : []);
                for (int n = random.Next(6); n >= 0; n--) bytes[random.Next(bytes.Length)] = (byte)random.Next(256);
                bytes[0] = 1;
                if (Envelope.TryRead(bytes.AsSpan(0, random.Next(bytes.Length + 1)), default, out Envelope read) != EnvelopeResult.Read) continue;
                Assert.InRange(read.Group.Length, 0, Envelope.MostGroupBytes);
            }
        }
    }

    [Theory]
    [InlineData("lobby", "app.group.lobby")]
    [InlineData("a.b *>", "app.group.a=2Eb=20=2A=3E")]
    [InlineData("é", "app.group.=C3=A9")]
    [InlineData("=", "app.group.=3D")]
    public void A_name_has_a_subject_that_no_broker_reads_anything_into(string name, string subject) => Assert.Equal(subject, Subjects.OfGroup("app", name));
}
