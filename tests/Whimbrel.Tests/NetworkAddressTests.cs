using System.Net;
using System.Net.NetworkInformation;
using System.Net.Sockets;

namespace Whimbrel.Tests;

// The common form of addresses: meaning, and messages for invalid text.
public sealed class NetworkAddressTests
{
    [Theory]
    [InlineData("tcp://localhost:80", "localhost", 80)]
    [InlineData("TCP://LocalHost:80", "localhost", 80)]
    [InlineData("tcp://example.org.:1", "example.org.", 1)]
    [InlineData("tcp://my_host-1:65535", "my_host-1", 65535)]
    [InlineData("tcp://127.0.0.1:0", "127.0.0.1", 0)]
    [InlineData("tcp://[::1]:80", "::1", 80)]
    [InlineData("tcp://[0:0:0:0:0:0:0:1]:80", "::1", 80)]
    [InlineData("tcp://*:80", "*", 80)]
    [InlineData("tcp://1.example:80", "1.example", 80)]
    [InlineData("tcp://bücher.example:80", "xn--bcher-kva.example", 80)]
    public void A_host_and_a_port_are_read(string text, string host, int port)
    {
        NetworkAddress address = NetworkAddress.Parse(text);
        Assert.Equal(("tcp", host, port, null), (address.Scheme, address.Host, address.Port, address.Service));
        Assert.Equal(host == "*", address.IsWildcard);
    }

    [Theory]
    [InlineData("unix:/run/a.sock", "/run/a.sock")]
    [InlineData("unix:a.sock", "a.sock")]
    [InlineData("unix:///run/a.sock", "/run/a.sock")]
    [InlineData("UNIX:/Run/A b%20c", "/Run/A b%20c")]
    [InlineData("unix:@name", "@name")]
    public void A_path_is_taken_as_it_stands(string text, string path)
    {
        NetworkAddress address = NetworkAddress.Parse(text);
        Assert.Equal(("unix", path, -1), (address.Scheme, address.Host, address.Port));
        Assert.Equal(path, ((UnixDomainSocketEndPoint)address.ToEndPoint()).ToString());
    }

    [Theory]
    [InlineData("tcp://localhost:80")]
    [InlineData("tcp://[::1]:80")]
    [InlineData("tcp://*:0")]
    [InlineData("tcp://localhost:http")]
    [InlineData("unix:/a")]
    [InlineData("unix:@a")]
    [InlineData("memory://Any text")]
    public void Its_text_parses_to_the_same_address(string text)
    {
        NetworkAddress address = NetworkAddress.Parse(text);
        Assert.Equal(text, address.ToString());
        NetworkAddress again = NetworkAddress.Parse(address.ToString());
        Assert.Equal(address, again);
        Assert.Equal(address.GetHashCode(), again.GetHashCode());
        Assert.NotEqual(address, NetworkAddress.Parse("tcp://localhost:81"));
    }

    [Theory]
    [InlineData("http://127.0.0.1:8080", "tcp://127.0.0.1:8080")]
    [InlineData("HTTP://*", "tcp://*:80")]
    [InlineData("http://+:80", "tcp://*:80")]
    [InlineData("http://+", "tcp://*:80")]
    [InlineData("http://localhost:5000/", "tcp://localhost:5000")]
    [InlineData("https://[::1]", "tls://[::1]:443")]
    [InlineData("https://+:8443", "tls://*:8443")]
    public void Addresses_of_HTTP_mean_the_same_as_those_of_the_core(string text, string same) =>
        Assert.Equal(NetworkAddress.Parse(same), NetworkAddress.Parse(text));

    [Fact]
    public void It_gives_what_sockets_take()
    {
        Assert.Equal(new IPEndPoint(IPAddress.Loopback, 0), NetworkAddress.Parse("tcp://127.0.0.1:0").ToEndPoint());
        Assert.Equal(new IPEndPoint(IPAddress.IPv6Loopback, 0), NetworkAddress.Parse("tcp://[::1]:0").ToEndPoint());
        Assert.Equal(new DnsEndPoint("localhost", 80), NetworkAddress.Parse("tcp://localhost:80").ToEndPoint());
        Assert.Equal(new IPEndPoint(Socket.OSSupportsIPv6 ? IPAddress.IPv6Any : IPAddress.Any, 0),
            NetworkAddress.Parse("tcp://*:0").ToEndPoint());
        Assert.Throws<NotSupportedException>(() => NetworkAddress.Parse("memory://a").ToEndPoint());
    }

    [Fact]
    public void An_IPv4_address_in_the_form_of_IPv6_is_given_as_IPv4() =>
        Assert.Equal(new IPEndPoint(IPAddress.Loopback, 0),
            NetworkAddress.Parse("tcp://[::ffff:127.0.0.1]:0").ToEndPoint());

    [Fact]
    public void A_scope_is_a_number_or_the_name_of_an_interface()
    {
        Assert.Equal(7, ((IPEndPoint)NetworkAddress.Parse("tcp://[fe80::1%7]:80").ToEndPoint()).Address.ScopeId);
        NetworkInterface? any = NetworkInterface.GetAllNetworkInterfaces()
            .FirstOrDefault(static i => i.Supports(NetworkInterfaceComponent.IPv6));
        Assert.SkipWhen(any is null, "This machine has no interface with IPv6.");
        IPAddress address = ((IPEndPoint)NetworkAddress.Parse($"tcp://[fe80::1%{any.Name}]:80").ToEndPoint()).Address;
        Assert.Equal(any.GetIPProperties().GetIPv6Properties().Index, address.ScopeId);
    }

    [Fact]
    public void A_service_stands_for_its_port()
    {
        NetworkAddress address = NetworkAddress.Parse("tcp://localhost:http");
        Assert.Equal(("http", -1), (address.Service, address.Port));
        Assert.Equal(address, NetworkAddress.Parse("tcp://localhost:http"));
        Assert.NotEqual(address, NetworkAddress.Parse("tcp://localhost:https"));
        Assert.Equal(new DnsEndPoint("localhost", 80), address.ToEndPoint());
        Assert.Equal(443, ((IPEndPoint)NetworkAddress.Parse("tcp://127.0.0.1:HTTPS").ToEndPoint()).Port);
        FormatException e =
            Assert.Throws<FormatException>(() => NetworkAddress.Parse("tcp://localhost:htp-x").ToEndPoint());
        Assert.Contains("names the service 'htp-x', which is not in the list of services of this system; give its port "
            + "as a number", e.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void A_list_of_services_is_read_with_aliases_and_comments_and_its_first_entry_wins()
    {
        Dictionary<string, int> ports = ServiceNames.Read(["# all", "", "mine 1234/tcp our  yours # not this",
            "mine\t4321/tcp", "mine 99/udp", "x 0/tcp", "y 70000/tcp", "z tcp", "w /tcp", "http 8000/tcp"]);
        Assert.Equal((1234, 1234, 1234), (ports["mine"], ports["our"], ports["yours"]));
        Assert.Equal(8000, ports["http"]);
        Assert.Equal(443, ports["https"]);
        foreach (string absent in (string[])["x", "y", "z", "w", "not", "#"]) Assert.DoesNotContain(absent, ports.Keys);
    }

    [Theory]
    [InlineData(null, "it is missing; right would be tcp://host:port or unix:/path")]
    [InlineData("", "it is empty; right would be tcp://host:port or unix:/path")]
    [InlineData(" tcp://a:1", "it begins or ends with white space")]
    [InlineData("tcp://a:1\n", "it contains the character U+000A")]
    [InlineData("unix:/a\0b", "it contains the character U+0000")]
    [InlineData("127.0.0.1", "the scheme and the port are missing; right would be tcp://127.0.0.1:80")]
    [InlineData("[::1]", "the scheme and the port are missing; right would be tcp://[::1]:80")]
    [InlineData("udp://localhost:80", "'udp' is no scheme here: datagrams have a DatagramSocket (package "
        + "Whimbrel.Datagrams), which takes an IPEndPoint")]
    [InlineData("localhost:80", "the scheme is missing; right would be tcp://localhost:80")]
    [InlineData("/run/a.sock", "the scheme is missing; right would be unix:/run/a.sock")]
    [InlineData("://a:1", "the scheme is missing before '://'; right would be")]
    [InlineData("tcp:localhost:80", "'//' is missing after 'tcp:'; right would be tcp://localhost:80")]
    [InlineData("tcp:/localhost:80", "'//' is missing after 'tcp:'; right would be tcp://localhost:80")]
    [InlineData("ftp://localhost:80", "'ftp' is no scheme here, allowed tcp, tls, http, https, unix and memory")]
    [InlineData("http://localhost:80/chat", "'/chat' follows the port; an address ends there")]
    [InlineData("https://:443", "the host is missing; right would be https://localhost:443, or https://*:443 for every "
        + "address of this machine")]
    [InlineData("tcp://+:80", "'+' cannot be part of a host name")]
    [InlineData("tls://localhost", "the port is missing; right would be tls://localhost:80")]
    [InlineData("tcp://", "the host and the port are missing")]
    [InlineData("tcp://localhost", "the port is missing; right would be tcp://localhost:80")]
    [InlineData("tcp://[::1]", "the port is missing; right would be tcp://[::1]:80")]
    [InlineData("tcp://localhost:", "the port is missing after the ':'")]
    [InlineData("tcp://:80",
        "the host is missing; right would be tcp://localhost:80, or tcp://*:80 for every address of this machine")]
    [InlineData("tcp://localhost:80/", "'/' follows the port; an address ends there")]
    [InlineData("tcp://localhost:80/a?b", "'/a?b' follows the port; an address ends there")]
    [InlineData("tcp://me@localhost:80", "a user before '@' has no meaning here")]
    [InlineData("tcp://localhost:65536", "the port is 65536, allowed 0 to 65535")]
    [InlineData("tcp://localhost:99999999999999", "the port is 99999999999999, allowed 0 to 65535")]
    [InlineData("tcp://localhost:-1", "'-1' is neither a port from 0 to 65535 nor the name of a service")]
    [InlineData("tcp://localhost:a*b", "'a*b' is neither a port from 0 to 65535 nor the name of a service")]
    [InlineData("tcp://::1:80", "an IPv6 address stands in brackets; right would be tcp://[::1]:80")]
    [InlineData("tcp://a:b:80", "it has more than one ':'")]
    [InlineData("tcp://[::1:80", "the ']' after the IPv6 address is missing")]
    [InlineData("tcp://[::1]80", "'80' follows the ']'; right would be ':' and a port")]
    [InlineData("tcp://[127.0.0.1]:80", "'127.0.0.1' in brackets is no IPv6 address")]
    [InlineData("tcp://[]:80", "'' in brackets is no IPv6 address")]
    [InlineData("tcp://[::1%no-such-interface]:80", "this machine has no network interface 'no-such-interface'")]
    [InlineData("tcp://7:80", "'7' is no IPv4 address: that is four numbers from 0 to 255 without leading zeros")]
    [InlineData("tcp://010.0.0.1:80", "'010.0.0.1' is no IPv4 address")]
    [InlineData("tcp://1.2.3.256:80", "'1.2.3.256' is no IPv4 address")]
    [InlineData("tcp://1.2.3:80", "'1.2.3' is no IPv4 address")]
    [InlineData("tcp://0x7f000001:80", "'0x7f000001' is no IPv4 address")]
    [InlineData("tcp://a..b:80", "'a..b' has an empty part between its dots")]
    [InlineData("tcp://a b:80", "' ' cannot be part of a host name")]
    [InlineData("tcp://a,b:80", "',' cannot be part of a host name")]
    [InlineData("unix:", "the path is missing; right would be unix:/path")]
    [InlineData("unix:@", "the abstract name is missing; right would be unix:@name")]
    [InlineData("unix://host/path", "a host has no meaning for a Unix path; right would be unix:/host/path")]
    [InlineData("memory://", "the name is missing; right would be memory://name")]
    public void A_malformed_address_says_what_is_wrong_and_what_would_be_right(string? text, string expected)
    {
        Assert.False(NetworkAddress.TryParse(text, out NetworkAddress? address, out string? mistake));
        Assert.Null(address);
        Assert.StartsWith($"'{Diagnostics.Escaped.Of(text)}' is no address: {expected}", mistake,
            StringComparison.Ordinal);
        if (text is null) Assert.Throws<ArgumentNullException>(() => NetworkAddress.Parse(text!));
        else Assert.Equal(mistake, Assert.Throws<FormatException>(() => NetworkAddress.Parse(text)).Message);
    }

    [Fact]
    public void Lengths_are_limited_where_the_system_limits_them()
    {
        Assert.True(NetworkAddress.TryParse("unix:/" + new string('a', 106), out _));
        Assert.False(NetworkAddress.TryParse("unix:/" + new string('a', 107), out _, out string? mistake));
        Assert.Contains("the path has 108 bytes, allowed 1 to 107", mistake, StringComparison.Ordinal);
        Assert.True(NetworkAddress.TryParse($"tcp://{new string('a', 63)}:1", out _));
        Assert.False(NetworkAddress.TryParse($"tcp://{new string('a', 64)}:1", out _, out mistake));
        Assert.Contains("has 64 characters, allowed 1 to 63", mistake, StringComparison.Ordinal);
        string longest = string.Join('.', Enumerable.Repeat(new string('a', 63), 3)) + "." + new string('a', 61);
        Assert.True(NetworkAddress.TryParse($"tcp://{longest}:1", out _));
        Assert.False(NetworkAddress.TryParse($"tcp://{longest}a:1", out _, out mistake));
        Assert.Contains("the host name has 254 characters, allowed 1 to 253", mistake, StringComparison.Ordinal);
    }

    [Fact]
    public void No_text_makes_it_throw()
    {
        const string letters = "tcp:/unix@[]%*.0123456789aö \0#?fe8memory";
        for (int seed = 1; seed <= 50_000; seed++)
        {
            Random random = new(seed);
            string text = (random.Next(3) == 0 ? "" : "tcp://") + new string(
                [.. Enumerable.Range(0, random.Next(20)).Select(_ => letters[random.Next(letters.Length)])]);
            if (NetworkAddress.TryParse(text, out NetworkAddress? address, out string? mistake))
                Assert.Equal(address, NetworkAddress.Parse(address.ToString()));
            else Assert.StartsWith($"'{Diagnostics.Escaped.Of(text)}' is no address: ", mistake,
                StringComparison.Ordinal);
        }
    }
}
