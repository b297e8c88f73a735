using System.Net.Sockets;
using System.Text;
using CSharpServer;
using Whimbrel.Compat.Tests.Connections;

namespace Whimbrel.Compat.Tests.CSharp;

// Addresses, families and options of CSharpServer's classes.
public sealed class CSharpOptionTests : IDisposable
{
    private readonly Service _service = new();
    private readonly Log _log = new();

    public CSharpOptionTests() => Assert.True(_service.Start());

    public void Dispose() => _service.Dispose();

    private sealed class AnyServer(Service service, TcpEndpoint endpoint) : TcpServer(service, endpoint)
    {
        internal int Errors { get; private set; }

        protected override TcpSession CreateSession() => new EchoSession(this);

        protected override void OnError(int error, string category, string message) => Errors++;
    }

    private sealed class EchoSession(TcpServer server) : TcpSession(server)
    {
        protected override void OnReceived(byte[] buffer, long size) => SendAsync(buffer);
    }

    private sealed class AnyEcho(Service service, UdpEndpoint endpoint) : UdpServer(service, endpoint)
    {
        internal int Errors { get; private set; }

        protected override void OnStarted() => ReceiveAsync();

        protected override void OnReceived(UdpEndpoint endpoint, byte[] buffer, long size) =>
            SendAsync(endpoint, buffer);

        protected override void OnSent(UdpEndpoint endpoint, long sent) => ReceiveAsync();

        protected override void OnError(int error, string category, string message) => Errors++;
    }

    [Theory]
    [InlineData(InternetProtocol.IPv4, "127.0.0.1")]
    [InlineData(InternetProtocol.IPv6, "::1")]
    [InlineData(InternetProtocol.IPv6, "127.0.0.1")] // an IPv4 address, accepted by the same socket
    public void Both_families_reach_the_server_of_all_addresses(InternetProtocol protocol, string address)
    {
        Assert.SkipUnless(protocol == InternetProtocol.IPv4 || Socket.OSSupportsIPv6, "This machine has no IPv6.");
        using AnyServer server = new(_service, new TcpEndpoint(0, protocol));
        using AnyEcho echo = new(_service, new UdpEndpoint(0, protocol));
        Assert.True(server.Start() && echo.Start());
        Assert.Equal(protocol == InternetProtocol.IPv4 ? "0.0.0.0" : "::", server.Address);
        Assert.Equal(server.Address, echo.Address);
        using TcpEndpoint tcp = new(address, server.Port);
        using UdpEndpoint udp = new(address, echo.Port);
        using RecordingClient client = new(_service, _log, address, server.Port);
        Assert.Equal($"{(address.Contains(':', StringComparison.Ordinal) ? $"[{address}]" : address)}:{server.Port}",
            new TcpEndpoint(tcp).ToString());
        Assert.True(client.ConnectAsync());
        _log.Until("client: connected True");
        Assert.True(client.SendAsync("stream"));
        _log.Until("client: received stream");
        using CSharpServer.UdpClient asking = new(_service, new UdpEndpoint(udp));
        Assert.Equal((address, echo.Port, ""), (asking.Address, asking.Port, asking.Scheme));
        Assert.True(asking.Connect());
        for (int i = 0; i < 3; i++)
        {
            string text = $"datagram {i}";
            Assert.Equal(text.Length, asking.SendSync(text));
            byte[] buffer = new byte[100];
            using UdpEndpoint peer = new(0, InternetProtocol.IPv4);
            Assert.Equal(text.Length, asking.Receive(peer, buffer, Log.Patience));
            Assert.Equal(text, Encoding.UTF8.GetString(buffer, 0, text.Length));
            Assert.Equal(udp.ToString(), peer.ToString());
        }
    }

    [Fact]
    public void A_port_is_shared_only_by_sockets_that_request_it()
    {
        using AnyServer first = new(_service, new TcpEndpoint("127.0.0.1", 0));
        first.SetupReusePort(true);
        first.SetupReuseAddress(true);
        Assert.True(first.OptionReusePort && first.OptionReuseAddress && first.Start());
        using AnyServer second = new(_service, new TcpEndpoint("127.0.0.1", first.Port)),
            third = new(_service, new TcpEndpoint("127.0.0.1", first.Port));
        second.SetupReusePort(true);
        Assert.True(second.Start());
        Assert.False(third.Start());
        using AnyEcho one = new(_service, new UdpEndpoint("127.0.0.1", 0));
        one.SetupReusePort(true);
        Assert.True(one.OptionReusePort && one.Start());
        using AnyEcho two = new(_service, new UdpEndpoint("127.0.0.1", one.Port)),
            three = new(_service, new UdpEndpoint("127.0.0.1", one.Port));
        two.SetupReusePort(true);
        Assert.True(two.Start());
        Assert.False(three.Start());
        Assert.Equal((0, 0, 1), (first.Errors, second.Errors, third.Errors));
        Assert.Equal((0, 0, 1), (one.Errors, two.Errors, three.Errors));
    }

    [Fact]
    public void Options_return_the_set_values_and_start_with_the_original_defaults()
    {
        using AnyServer server = new(_service, new TcpEndpoint("127.0.0.1", 0));
        Assert.False(server.OptionKeepAlive || server.OptionNoDelay || server.OptionReuseAddress
            || server.OptionReusePort);
        server.SetupKeepAlive(true);
        server.SetupNoDelay(true);
        Assert.True(server.OptionKeepAlive && server.OptionNoDelay);
        Assert.True(server.Start());
        using RecordingClient client = new(_service, _log, "127.0.0.1", server.Port);
        Assert.Equal((8192, 0, 8192, 0), (client.OptionReceiveBufferSize, client.OptionReceiveBufferLimit,
            client.OptionSendBufferSize, client.OptionSendBufferLimit));
        client.SetupKeepAlive(true);
        client.SetupNoDelay(false);
        client.SetupSendBufferSize(1000);
        Assert.True(client.OptionKeepAlive && !client.OptionNoDelay && client.OptionSendBufferSize == 1000);
        Assert.True(client.Connect());
        Assert.Equal("echo", Ask("echo"));
        using AnyEcho echo = new(_service, new UdpEndpoint("127.0.0.1", 0));
        echo.SetupReceiveBufferSize(1);
        echo.SetupSendBufferSize(2);
        echo.SetupSendBufferLimit(3);
        echo.SetupReceiveBufferLimit(4);
        Assert.Equal((1, 2, 3, 4), (echo.OptionReceiveBufferSize, echo.OptionSendBufferSize, echo.OptionSendBufferLimit,
            echo.OptionReceiveBufferLimit));

        string Ask(string text)
        {
            Assert.Equal(text.Length, client.Send(text));
            return client.Receive(text.Length, Log.Patience);
        }
    }

    [Fact]
    public void An_invalid_address_throws_at_the_call()
    {
        Assert.Throws<FormatException>(() => new TcpServer(_service, "nobody", 1));
        Assert.Throws<FormatException>(() => new UdpServer(_service, "nobody", 1));
        Assert.Throws<ArgumentOutOfRangeException>(() => new UdpEndpoint("127.0.0.1", 70_000));
        Assert.Throws<ArgumentNullException>(() => new CSharpServer.UdpClient(null!, "127.0.0.1", 1));
        Assert.Throws<ArgumentNullException>(() => new UdpServer(_service, null!));
        // Where an exception would be too late, OnError is called.
        using UdpAsker client = new(_service, _log, "127.0.0.1", 70_000);
        Assert.False(client.Connect());
        Assert.Equal(["client: error 22 system", "client: disconnected False False"], _log.Lines);
        using RecordingClient stream = new(_service, new Log(), "127.0.0.1", 70_000);
        Assert.False(stream.Connect());
    }
}
