using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using System.Text;
using Whimbrel.Connections;
using Whimbrel.Linux;

namespace Whimbrel.Tests;

// Safe: addresses are written into buffers of the largest size, events into room for one event of the larger layout.
public sealed unsafe class LinuxTests
{
    public static TheoryData<string> Addresses =>
        ["0.0.0.0:0", "127.0.0.1:1", "255.255.255.255:65535", "[::]:0", "[::1]:80", "[2001:db8::ff00:42:8329]:65535",
            "[fe80::1%7]:443", "[fe80::1%4294967295]:1"];

    private static byte[] Encode(EndPoint endPoint)
    {
        byte* address = stackalloc byte[SocketAbi.MaxAddressBytes];
        uint length = AddressCodec.Encode(endPoint, address);
        return new ReadOnlySpan<byte>(address, (int)length).ToArray();
    }

    private static EndPoint? Decode(byte[] bytes)
    {
        fixed (byte* p = bytes) return AddressCodec.Decode(p, (uint)bytes.Length).ToEndPoint();
    }

    [Theory]
    [MemberData(nameof(Addresses))]
    public void An_address_comes_back_from_the_kernel_form(string text)
    {
        IPEndPoint endPoint = IPEndPoint.Parse(text);
        Assert.Equal(endPoint, Decode(Encode(endPoint)));
        Assert.Equal(endPoint, PeerAddress.Of(endPoint).ToEndPoint());
        Assert.Equal(((IPEndPoint?)Decode(Encode(endPoint)))!.Address.AddressFamily, endPoint.AddressFamily);
    }

    [Fact]
    public void The_kernel_form_of_an_address_is_the_same_as_the_runtimes()
    {
        foreach (string text in Addresses.Select(row => row.Data))
        {
            IPEndPoint endPoint = IPEndPoint.Parse(text);
            SocketAddress expected = endPoint.Serialize();
            Assert.Equal(expected.Buffer.Span[..expected.Size].ToArray(), Encode(endPoint));
        }
    }

    [Fact]
    public void A_mapped_address_is_given_as_IPv4()
    {
        IPEndPoint mapped = new(IPAddress.Parse("::ffff:10.1.2.3"), 0);
        Assert.Equal(new IPEndPoint(IPAddress.Parse("10.1.2.3"), 0), PeerAddress.Of(mapped).ToEndPoint());
    }

    [Theory]
    [InlineData("/tmp/x")]
    [InlineData("/tmp/été.sock")]
    public void A_unix_path_ends_with_a_zero(string path)
    {
        byte[] bytes = Encode(new UnixDomainSocketEndPoint(path));
        byte[] utf8 = Encoding.UTF8.GetBytes(path);
        Assert.Equal(2 + utf8.Length + 1, bytes.Length);
        Assert.Equal(SocketAbi.AF_UNIX, BitConverter.ToUInt16(bytes));
        Assert.Equal([.. utf8, (byte)0], bytes[2..]);
    }

    [Fact]
    public void The_longest_unix_path_fits()
    {
        byte[] bytes = Encode(new UnixDomainSocketEndPoint("/" + new string('p', SocketAbi.MaxUnixPathBytes - 1)));
        Assert.Equal(2 + SocketAbi.MaxUnixPathBytes + 1, bytes.Length);
        Assert.Equal(0, bytes[^1]);
    }

    [Fact]
    public void An_abstract_name_begins_with_a_zero_and_has_none_at_its_end()
    {
        byte[] bytes = Encode(new UnixDomainSocketEndPoint("\0whimbrel"));
        Assert.Equal([0, .. "whimbrel"u8], bytes[2..]);
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(7)]
    public void A_truncated_address_is_rejected(int length)
    {
        byte[] bytes = Encode(new IPEndPoint(IPAddress.Loopback, 0));
        fixed (byte* p = bytes) Assert.True(AddressCodec.Decode(p, (uint)length).IsEmpty);
    }

    [Fact]
    public void A_peer_without_a_name_has_no_end_point()
    {
        Assert.Null(default(PeerAddress).ToEndPoint());
        Assert.Null(Decode([1, 0]));
        Assert.True(PeerAddress.Of(new UnixDomainSocketEndPoint("/tmp/x")).IsEmpty);
        Assert.Equal(SocketAbi.AF_UNIX, AddressCodec.FamilyOf(new UnixDomainSocketEndPoint("/tmp/x")));
        Assert.Equal(SocketAbi.AF_INET6, AddressCodec.FamilyOf(new IPEndPoint(IPAddress.IPv6Any, 0)));
        Assert.Equal(SocketAbi.AF_INET, AddressCodec.FamilyOf(new IPEndPoint(IPAddress.Any, 0)));
    }

    [Fact]
    public void Structures_have_the_kernels_sizes()
    {
        Assert.Equal(12, sizeof(EpollEventPacked));
        Assert.Equal(16, sizeof(EpollEventAligned));
        Assert.Equal(16, sizeof(IoVector));
        Assert.Equal(56, sizeof(MessageHeader));
        Assert.Equal(8, sizeof(Linux.LingerOption));
    }

    [Fact]
    public void Both_layouts_of_an_event_have_their_fields_where_the_kernel_does()
    {
        EpollEventPacked packed = default;
        Assert.Equal(4, (byte*)&packed.Data - (byte*)&packed);
        EpollEventAligned aligned = default;
        Assert.Equal(8, (byte*)&aligned.Data - (byte*)&aligned);
        Assert.Equal(EpollEvents.IsPacked ? 12 : 16, EpollEvents.Size);
    }

    [Fact]
    public void Events_come_back_as_they_were_written()
    {
        byte* events = stackalloc byte[16 * 4];
        for (int i = 0; i < 4; i++)
            EpollEvents.Write(events + (i * EpollEvents.Size), (uint)i + 1, ulong.MaxValue - (uint)i);
        for (int i = 0; i < 4; i++)
        {
            EpollEvents.Read(events, i, out uint mask, out ulong data);
            Assert.Equal(((uint)i + 1, ulong.MaxValue - (uint)i), (mask, data));
        }
    }

    [Fact]
    public void The_codec_allocates_nothing_for_IP_peers()
    {
        byte[] bytes = Encode(new IPEndPoint(IPAddress.Loopback, 0));
        Assert.Equal(0, Allocated.By(() =>
        {
            fixed (byte* p = bytes)
            {
                for (int i = 0; i < 1000; i++) Assert.False(AddressCodec.Decode(p, (uint)bytes.Length).IsEmpty);
            }
        }));
    }
}
