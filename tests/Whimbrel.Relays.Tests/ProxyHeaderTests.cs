using System.Buffers;
using System.Net;
using System.Net.Sockets;
using System.Text;
using Whimbrel.Tests;

namespace Whimbrel.Relays.Tests;

// Headers as bytes: read in arbitrary pieces, written, and read again.
public sealed class ProxyHeaderTests
{
    public static TheoryData<string, string> Vectors => ProxyVectors.All;

    private static string Outcome(ReadOnlySpan<byte> bytes, out int length, int limit = ProxyHeader.DefaultLimit) =>
        ProxyHeader.Read(bytes, out ProxyHeader? header, out length, out ProxyFault fault, limit) switch
        {
            OperationStatus.Done => header!.ToString(),
            OperationStatus.InvalidData => fault.ToString(),
            OperationStatus.NeedMoreData => "more",
            var other => throw new InvalidOperationException($"{other}"),
        };

    [Theory]
    [MemberData(nameof(Vectors))]
    public void Each_header_says_the_same_however_it_comes(string hex, string outcome)
    {
        byte[] bytes = Convert.FromHexString(hex);
        Assert.Equal(outcome, Outcome(bytes, out int length));
        bool isHeader = !Enum.TryParse<ProxyFault>(outcome, out _);
        Assert.Equal(isHeader ? bytes.Length : 0, length);

        // Bytes after the header are not examined.
        Assert.Equal(outcome, Outcome([.. bytes, .. "GET / HTTP/1.1\r\n"u8], out length));
        Assert.Equal(isHeader ? bytes.Length : 0, length);

        // A prefix yields no result or the same result, and a result does not change with more bytes.
        bool isSaid = false;
        for (int i = 0; i <= bytes.Length; i++)
        {
            string part = Outcome(bytes.AsSpan(0, i), out _);
            if (part == "more")
            {
                Assert.False(isSaid, $"after {i} bytes more were wanted again");
                continue;
            }

            Assert.Equal(outcome, part);
            isSaid = true;
            if (isHeader) Assert.Equal(bytes.Length, i);
        }
    }

    [Fact]
    public void A_peer_that_speaks_its_protocol_directly_is_known_by_its_first_byte_that_differs()
    {
        Assert.Equal(nameof(ProxyFault.NotAHeader), Outcome("G"u8, out _));
        Assert.Equal("more", Outcome("PROX"u8, out _));
        Assert.Equal(nameof(ProxyFault.NotAHeader), Outcome("PROXX"u8, out _));
        Assert.Equal("more", Outcome("\r"u8, out _));
        Assert.Equal(nameof(ProxyFault.NotAHeader), Outcome("\r\n\r\nG"u8, out _));
        Assert.Equal("more", Outcome([], out _));
    }

    [Theory]
    [InlineData("192.0.2.7:1", "203.0.113.1:2", "192.0.2.7:1 to 203.0.113.1:2")]
    [InlineData("[2001:db8::1]:1", "[::1]:65535", "[2001:db8::1]:1 to [::1]:65535")]
    [InlineData("192.0.2.7:1", "[::1]:2", "[::ffff:192.0.2.7]:1 to [::1]:2")]
    public void A_written_header_is_read_back_in_both_versions(string source, string destination, string text)
    {
        ProxyHeader header = new(IPEndPoint.Parse(source), IPEndPoint.Parse(destination));
        ArrayBufferWriter<byte> line = new(), plain = new(), whole = new();
        header.WriteLine(line);
        header.Write(plain);
        header.Write(whole, hasChecksum: true);
        foreach (ArrayBufferWriter<byte> written in (ArrayBufferWriter<byte>[])[line, plain, whole])
        {
            Assert.Equal(text, Outcome(written.WrittenSpan, out int length));
            Assert.Equal(written.WrittenCount, length);
        }

        Assert.Equal(plain.WrittenCount + 7, whole.WrittenCount);
        byte[] damaged = whole.WrittenSpan.ToArray();
        damaged[17] ^= 1;
        Assert.Equal(nameof(ProxyFault.Checksum), Outcome(damaged, out _));
    }

    [Fact]
    public void Extensions_come_in_their_order_and_the_known_ones_by_name()
    {
        byte[] tls = Convert.FromHexString("03 00000000".Replace(" ", "") + ProxyVectors.Part(0x21,
            Convert.ToHexString("TLSv1.3"u8)) + ProxyVectors.Part(0x22, Convert.ToHexString("anna"u8))
            + ProxyVectors.Part(0x23, Convert.ToHexString("AES"u8)));
        ProxyHeader header = new(IPEndPoint.Parse("192.0.2.7:1"), IPEndPoint.Parse("203.0.113.1:2"))
        {
            Extensions =
            [
                new(ProxyExtension.Authority, "chat.example"u8.ToArray()), new(0xE5, new byte[] { 1, 2, 3 }),
                new(ProxyExtension.Alpn, "h2"u8.ToArray()),
                new(ProxyExtension.UniqueId, new byte[128]), new(ProxyExtension.Tls, tls), new(0xE5, default),
            ],
        };
        ArrayBufferWriter<byte> written = new();
        header.Write(written, hasChecksum: true);
        Assert.Equal(OperationStatus.Done,
            ProxyHeader.Read(written.WrittenSpan, out ProxyHeader? read, out int length, out _));
        Assert.Equal(written.WrittenCount, length);
        Assert.Equal([2, 0xE5, 1, 5, 0x20, 0xE5, 3], read!.Extensions.Select(static e => e.Type));
        Assert.Equal(new byte[] { 1, 2, 3 }, read.Extensions[1].Value.ToArray());
        Assert.Equal(("chat.example", "h2", 2), (read.Authority, read.ApplicationProtocol, read.Version));
        Assert.Equal(new ProxyTls(true, true, true, "TLSv1.3", "anna", "AES"), read.Tls);
        Assert.Throws<InvalidOperationException>(() => read.Write(new ArrayBufferWriter<byte>()));
        Assert.Throws<InvalidOperationException>(() => header.WriteLine(new ArrayBufferWriter<byte>()));
    }

    [Theory]
    [InlineData(128, ProxyFault.None)]
    [InlineData(129, ProxyFault.Extension)]
    public void An_identity_has_up_to_128_bytes(int length, ProxyFault expected)
    {
        ArrayBufferWriter<byte> written = new();
        new ProxyHeader(IPEndPoint.Parse("192.0.2.7:1"), IPEndPoint.Parse("203.0.113.1:2"))
        {
            Extensions = [new(ProxyExtension.UniqueId, new byte[length])]
        }.Write(written);
        ProxyHeader.Read(written.WrittenSpan, out _, out _, out ProxyFault fault);
        Assert.Equal(expected, fault);
    }

    // Values from the vendors' documentation.
    [Fact]
    public void Fields_of_the_clouds_are_read_by_name_and_a_field_of_another_shape_is_not_taken_for_one()
    {
        static ProxyHeader With(params ProxyExtension[] extensions)
        {
            ArrayBufferWriter<byte> written = new();
            new ProxyHeader(IPEndPoint.Parse("192.0.2.7:1"), IPEndPoint.Parse("203.0.113.1:2"))
            {
                Extensions = extensions
            }.Write(written);
            Assert.Equal(OperationStatus.Done,
                ProxyHeader.Read(written.WrittenSpan, out ProxyHeader? read, out _, out _));
            return read!;
        }

        ProxyHeader header = With(
            new(ProxyExtension.Aws, (byte[])[1, .. "vpce-08d2bf15fac5001c9"u8]),
            new(ProxyExtension.Azure, new byte[] { 1, 0x55, 0x02, 0x00, 0x24 }),
            new(ProxyExtension.Gcp, new byte[] { 0, 2, 0, 0, 0, 0, 0, 9 }),
            new(ProxyExtension.UniqueId, new byte[] { 7, 8 }),
            new(ProxyExtension.NetworkNamespace, "blue"u8.ToArray()));
        Assert.Equal(("vpce-08d2bf15fac5001c9", 0x24000255u, 0x0002000000000009ul),
            (header.AwsEndpointId, header.AzureLinkId!.Value, header.GcpConnectionId!.Value));
        Assert.Equal(new byte[] { 7, 8 }, header.UniqueId!.Value.ToArray());
        Assert.Equal("blue", header.NetworkNamespace);

        // Types from 0xE0 on are free for any vendor: another layout is another vendor's field, and not an error.
        ProxyHeader other = With(new(ProxyExtension.Aws, new byte[] { 2, 65 }),
            new(ProxyExtension.Azure, new byte[] { 1, 2, 3 }), new(ProxyExtension.Gcp, new byte[7]));
        Assert.Equal((null, null, null, null),
            (other.AwsEndpointId, other.AzureLinkId, other.GcpConnectionId, other.NetworkNamespace));
        Assert.Null(other.UniqueId);
        Assert.Equal(3, other.Extensions.Count);
    }

    [Fact]
    public void The_clients_TLS_comes_with_its_keys_and_its_certificate()
    {
        string inner = ProxyVectors.Part(0x24, Convert.ToHexString("SHA256"u8)) + ProxyVectors.Part(0x25,
            Convert.ToHexString("RSA2048"u8)) + ProxyVectors.Part(0x28, "30820A") + ProxyVectors.Part(0x2F, "00");
        ProxyHeader header = new(IPEndPoint.Parse("192.0.2.7:1"), IPEndPoint.Parse("203.0.113.1:2"))
        {
            Extensions = [new(ProxyExtension.Tls, Convert.FromHexString("0300000000" + inner))],
        };
        ProxyTls tls = header.Tls!;
        Assert.Equal(("SHA256", "RSA2048", null), (tls.SignatureAlgorithm, tls.KeyAlgorithm, tls.Version));
        Assert.Equal(Convert.FromHexString("30820A"), tls.Certificate.ToArray());
    }

    [Theory]
    [InlineData("01", "00000000", true, false, false)]
    [InlineData("01", "00000001", true, false, false)]
    [InlineData("03", "00000001", true, true, false)]
    [InlineData("05", "00000000", true, true, true)]
    [InlineData("00", "00000000", false, false, false)]
    public void A_certificate_is_verified_only_when_there_is_one(string flags, string verify, bool isEncrypted,
        bool hasCertificate, bool isVerified)
    {
        ProxyHeader header = new(IPEndPoint.Parse("192.0.2.7:1"), IPEndPoint.Parse("203.0.113.1:2"))
        {
            Extensions = [new(ProxyExtension.Tls, Convert.FromHexString(flags + verify))],
        };
        Assert.Equal(new ProxyTls(isEncrypted, hasCertificate, isVerified, null, null, null), header.Tls);
    }

    [Fact]
    public void Paths_and_the_proxys_own_connections_are_written_and_read_again()
    {
        foreach (string path in (string[])["/run/client", "\0abstract", "@relative", "/" + new string('x', 106)])
        {
            ProxyHeader header = new(new UnixDomainSocketEndPoint(path), new UnixDomainSocketEndPoint("/run/server"));
            ArrayBufferWriter<byte> written = new();
            header.Write(written);
            Assert.Equal(OperationStatus.Done,
                ProxyHeader.Read(written.WrittenSpan, out ProxyHeader? read, out _, out _));
            Assert.Equal(header.Source, read!.Source);
            Assert.Equal(header.Destination, read.Destination);
            ArrayBufferWriter<byte> line = new();
            header.WriteLine(line);
            Assert.Equal("PROXY UNKNOWN\r\n", Encoding.ASCII.GetString(line.WrittenSpan));
        }

        ArrayBufferWriter<byte> local = new();
        ProxyHeader.Local.Write(local);
        Assert.Equal("local", Outcome(local.WrittenSpan, out int length));
        Assert.Equal(16, length);
        Assert.Throws<InvalidOperationException>(() => ProxyHeader.Local.WriteLine(new ArrayBufferWriter<byte>()));
        Assert.Throws<ArgumentException>(() => new ProxyHeader(new UnixDomainSocketEndPoint("/a"),
            IPEndPoint.Parse("1.2.3.4:5")));
        Assert.Throws<ArgumentException>(() => new ProxyHeader(new DnsEndPoint("a", 1), IPEndPoint.Parse("1.2.3.4:5")));
    }

    [Fact]
    public void The_limit_holds_at_its_byte()
    {
        byte[] bytes = Convert.FromHexString(ProxyVectors.Header("21", "11",
            "C0000207CB007101DC0401BB" + ProxyVectors.Part(4, "0102")));
        Assert.Equal("192.0.2.7:56324 to 203.0.113.1:443", Outcome(bytes, out _, bytes.Length));
        Assert.Equal(nameof(ProxyFault.TooLong), Outcome(bytes, out _, bytes.Length - 1));
        Assert.Throws<ArgumentOutOfRangeException>(static () => Outcome([], out _, 15));
        Assert.Throws<ArgumentOutOfRangeException>(static () => Outcome([], out _, ProxyHeader.MaxLength + 1));
        Assert.Equal("more",
            Outcome(Convert.FromHexString(ProxyVectors.Signature + "2100FFFF"), out _, ProxyHeader.MaxLength));
    }

    // Valid headers with one or two bytes changed, truncated or doubled, compared with the reference reader, which
    // always reads the whole.
    [Fact]
    public void Random_bytes_are_judged_as_by_a_plain_reader_and_in_any_pieces()
    {
        byte[][] good = [.. ProxyVectors.All.Select(static r => Convert.FromHexString(r.Data.Item1))
            .Where(static b => b.Length < 400)];
        foreach (int seed in Seeds.Some(8))
        {
            Random random = new(seed);
            for (int i = 0; i < 25_000; i++)
            {
                byte[] bytes = Change(good[random.Next(good.Length)], random);
                string outcome = Outcome(bytes, out int length);
                Assert.Equal(PlainProxyReader.Outcome(bytes, out int plainLength), outcome);
                Assert.Equal(plainLength, length);
                int cut = random.Next(bytes.Length + 1);
                string part = Outcome(bytes.AsSpan(0, cut), out _);
                if (part != "more") Assert.Equal(outcome, part);
            }
        }
    }

    private static byte[] Change(byte[] from, Random random)
    {
        List<byte> bytes = [.. from];
        for (int changes = random.Next(4); changes > 0 && bytes.Count > 0; changes--)
        {
            int at = random.Next(bytes.Count);
            switch (random.Next(5))
            {
                case 0: bytes[at] = (byte)random.Next(256); break;
                case 1: bytes[at] ^= (byte)(1 << random.Next(8)); break;
                case 2: bytes.RemoveAt(at); break;
                case 3: bytes.Insert(at, bytes[random.Next(bytes.Count)]); break;
                default: bytes.RemoveRange(at, bytes.Count - at); break;
            }
        }

        return [.. bytes];
    }
}
