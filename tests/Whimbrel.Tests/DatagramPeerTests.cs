using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;

namespace Whimbrel.Tests;

/// <summary>A peer is a value: it reports its end point's data, and equals peers with the same meaning.</summary>
public sealed class DatagramPeerTests
{
    [Theory]
    [InlineData("127.0.0.1", 80)]
    [InlineData("255.255.255.255", 65_535)]
    [InlineData("0.0.0.0", 0)]
    [InlineData("::1", 80)]
    [InlineData("2001:db8::1:2:3", 1)]
    [InlineData("fe80::1%3", 9)]
    public void An_address_goes_in_and_comes_out(string text, int port)
    {
        IPEndPoint endPoint = new(IPAddress.Parse(text), port);
        DatagramPeer peer = new(endPoint);
        Assert.Equal(endPoint, peer.ToEndPoint());
        Assert.Equal((port, endPoint.AddressFamily, endPoint.ToString()), (peer.Port, peer.Family, peer.ToString()));
        Assert.Equal(peer, new DatagramPeer(endPoint.Address, port));
        Assert.Equal(peer.GetHashCode(), new DatagramPeer(endPoint).GetHashCode());
        Assert.NotEqual(peer, peer.WithPort(port ^ 1));
        Span<byte> bytes = stackalloc byte[16];
        Assert.True(peer.TryWriteAddress(bytes, out int count));
        Assert.Equal(endPoint.Address.GetAddressBytes(), bytes[..count].ToArray());
        Assert.False(peer.IsNone);
        Assert.Null(peer.Path);
    }

    [Fact]
    public void IPv4_in_the_form_of_IPv6_is_IPv4()
    {
        DatagramPeer mapped = new(IPAddress.Parse("::ffff:10.1.2.3"), 7);
        Assert.Equal(new DatagramPeer(IPAddress.Parse("10.1.2.3"), 7), mapped);
        Assert.Equal(AddressFamily.InterNetwork, mapped.Family);
    }

    [Theory]
    [InlineData("/tmp/a.sock")]
    [InlineData("/tmp/ü")]
    public void A_path_goes_in_and_comes_out(string path)
    {
        DatagramPeer peer = new(new UnixDomainSocketEndPoint(path));
        Assert.Equal((path, path, AddressFamily.Unix), (peer.Path, peer.ToString(), peer.Family));
        Assert.Equal(path, peer.ToEndPoint()!.ToString());
        Assert.Equal(peer, new DatagramPeer(new UnixDomainSocketEndPoint(path)));
        Assert.NotEqual(peer, new DatagramPeer(new UnixDomainSocketEndPoint(path + "x")));
    }

    [Fact]
    public void An_abstract_name_keeps_its_form()
    {
        DatagramPeer peer = new(new UnixDomainSocketEndPoint("\0name"));
        Assert.Equal("@name", peer.Path);
        Assert.Equal(new UnixDomainSocketEndPoint("\0name").ToString(), peer.ToEndPoint()!.ToString());
    }

    [Fact]
    public void Groups_and_the_empty_peer_are_recognized()
    {
        Assert.True(new DatagramPeer(IPAddress.Parse("224.0.0.1"), 1).IsMulticast);
        Assert.True(new DatagramPeer(IPAddress.Parse("239.255.255.255"), 1).IsMulticast);
        Assert.True(new DatagramPeer(IPAddress.Parse("ff02::1"), 1).IsMulticast);
        Assert.False(new DatagramPeer(IPAddress.Parse("223.255.255.255"), 1).IsMulticast);
        Assert.False(new DatagramPeer(IPAddress.Parse("240.0.0.0"), 1).IsMulticast);
        Assert.True(default(DatagramPeer).IsNone);
        Assert.Null(default(DatagramPeer).ToEndPoint());
        Assert.Equal("no peer", default(DatagramPeer).ToString());
        Assert.Throws<ArgumentException>(() => new DatagramPeer(new DnsEndPoint("localhost", 1)));
        Assert.Throws<ArgumentOutOfRangeException>(() => new DatagramPeer(IPAddress.Loopback, 65_536));
        Assert.Equal(32, Unsafe.SizeOf<DatagramPeer>());
    }
}
