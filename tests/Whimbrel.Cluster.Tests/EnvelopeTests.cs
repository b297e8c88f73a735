using Whimbrel.Clusters;

namespace Whimbrel.Tests;

public sealed class EnvelopeTests
{
    private static readonly byte[] s_key = [.. Enumerable.Range(1, 16).Select(static i => (byte)i)];

    private static byte[] Make(byte[] key, params string[] messages)
    {
        byte[] payload = Messages(messages is [] ? ["hello"] : messages);
        byte[] bytes = new byte[Envelope.Length(3, 5, payload.Length, key.Length > 0)];
        Envelope.Write(bytes, EnvelopeKind.Broadcast, 0x1122334455667788, 7, "one"u8, "lobby"u8, payload,
            key.Length > 0);
        Envelope.Seal(bytes, 42, key);
        return bytes;
    }

    private static byte[] Messages(params string[] messages)
    {
        byte[] payload = new byte[messages.Sum(static m => Envelope.MessageLength(m.Length))];
        int at = 0;
        foreach (string message in messages)
        {
            Envelope.WriteMessage(payload.AsSpan(at), System.Text.Encoding.ASCII.GetBytes(message));
            at += Envelope.MessageLength(message.Length);
        }

        return payload;
    }

    [Theory]
    [InlineData(1, 1)]
    [InlineData(127, 1)]
    [InlineData(128, 2)]
    [InlineData(16_383, 2)]
    [InlineData(16_384, 3)]
    [InlineData((1 << 21) - 1, 3)]
    [InlineData(1 << 21, 4)]
    [InlineData(16 << 20, 4)]
    public void A_broadcast_of_any_length_follows_its_length(int length, int before)
    {
        byte[] message = new byte[length], payload = new byte[Envelope.MessageLength(length)];
        Random.Shared.NextBytes(message);
        Envelope.WriteMessage(payload, message);
        Assert.Equal(before, payload.Length - length);
        ReadOnlySpan<byte> rest = payload;
        Assert.True(Envelope.TryTakeMessage(ref rest, out ReadOnlySpan<byte> read));
        Assert.True(read.SequenceEqual(message) && rest.IsEmpty);
        for (int cut = 0; cut < before + 1; cut++)
        {
            rest = payload.AsSpan(0, cut);
            Assert.Equal(cut == payload.Length, Envelope.TryTakeMessage(ref rest, out _));
        }
    }

    [Fact]
    public void Several_broadcasts_in_one_envelope_are_read_one_by_one_and_cut_ones_are_refused_at_every_byte()
    {
        string[] messages = ["a", new string('b', 200), "cc"];
        byte[] whole = Make([], messages);
        Assert.Equal(EnvelopeResult.Read, Envelope.TryRead(whole, default, out Envelope read));
        Assert.Equal(3, read.Count);
        ReadOnlySpan<byte> rest = read.Payload;
        foreach (string message in messages)
        {
            Assert.True(Envelope.TryTakeMessage(ref rest, out ReadOnlySpan<byte> next));
            Assert.Equal(message, System.Text.Encoding.ASCII.GetString(next));
        }

        Assert.True(rest.IsEmpty);
        int at = whole.Length - Messages(messages).Length;
        int[] ends = [at + 2, at + 2 + 202, whole.Length];
        for (int length = at; length < whole.Length; length++)
            Assert.Equal(ends.Contains(length) ? EnvelopeResult.Read : EnvelopeResult.Refused,
                Envelope.TryRead(whole.AsSpan(0, length), default, out _));
        Assert.Equal(EnvelopeResult.Refused, Envelope.TryRead(Make([], "a", "", "c"), default, out _));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_written_value_is_read_back(bool isSigned)
    {
        byte[] key = isSigned ? s_key : [];
        Assert.Equal(EnvelopeResult.Read, Envelope.TryRead(Make(key), key, out Envelope read));
        Assert.Equal((EnvelopeKind.Broadcast, 0x1122334455667788ul, 7u, 42ul),
            (read.Kind, read.Instance, read.Epoch, read.Sequence));
        Assert.True(read.Node.SequenceEqual("one"u8) && read.Group.SequenceEqual("lobby"u8)
            && read.Payload[1..].SequenceEqual("hello"u8) && read.Payload[0] == 5);
    }

    [Fact]
    public void A_signed_envelope_is_refused_at_every_cut_and_with_every_bit_changed()
    {
        byte[] whole = Make(s_key);
        for (int length = 0; length < whole.Length; length++)
            Assert.NotEqual(EnvelopeResult.Read, Envelope.TryRead(whole.AsSpan(0, length), s_key, out _));
        for (int bit = 0; bit < whole.Length * 8; bit++)
        {
            byte[] changed = [.. whole];
            changed[bit / 8] ^= (byte)(1 << (bit % 8));
            Assert.NotEqual(EnvelopeResult.Read, Envelope.TryRead(changed, s_key, out _));
        }

        Assert.Equal(EnvelopeResult.NotSigned, Envelope.TryRead(Make([]), s_key, out _));
    }

    [Fact]
    public void A_plain_envelope_cut_in_its_head_or_names_is_refused()
    {
        byte[] whole = Make([]);
        for (int length = 0; length < Envelope.HeadBytes + 3 + 5; length++)
            Assert.Equal(EnvelopeResult.Refused, Envelope.TryRead(whole.AsSpan(0, length), default, out _));
    }

    [Fact]
    public void Another_version_is_recognized()
    {
        byte[] bytes = Make([]);
        foreach (byte version in (byte[])[0, 1, 3, 255])
        {
            bytes[0] = version;
            Assert.Equal(EnvelopeResult.UnknownVersion, Envelope.TryRead(bytes, default, out _));
        }
    }

    [Fact]
    public void Random_bytes_never_throw()
    {
        foreach (int seed in Seeds.Some(20))
        {
            Random random = new(seed);
            for (int i = 0; i < 2_000; i++)
            {
                byte[] bytes = Make(random.Next(2) == 0 ? s_key : [],
                    [.. Enumerable.Range(0, random.Next(5)).Select(static i => new string('m', 1 + (i * 70)))]);
                for (int n = random.Next(6); n >= 0; n--) bytes[random.Next(bytes.Length)] = (byte)random.Next(256);
                bytes[0] = Envelope.CurrentVersion;
                if (Envelope.TryRead(bytes.AsSpan(0, random.Next(bytes.Length + 1)), default, out Envelope read)
                    != EnvelopeResult.Read)
                    continue;
                Assert.InRange(read.Group.Length, 0, Envelope.MostGroupBytes);
                ReadOnlySpan<byte> rest = read.Payload;
                for (int left = read.Count; left > 0; left--) Assert.True(Envelope.TryTakeMessage(ref rest, out _));
                Assert.True(read.Count == 0 || rest.IsEmpty);
            }
        }
    }

    [Theory]
    [InlineData("lobby", "app.group.lobby")]
    [InlineData("a.b *>", "app.group.a=2Eb=20=2A=3E")]
    [InlineData("é", "app.group.=C3=A9")]
    [InlineData("=", "app.group.=3D")]
    public void The_subject_of_a_group_contains_no_special_characters_of_any_broker(string name, string subject) =>
        Assert.Equal(subject, Subjects.OfGroup("app", name));
}
