using System.Net;
using System.Net.Sockets;
using System.Text;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.WebSockets;

// Host, port, path and TLS of a client follow from its address.
public sealed class ClientAddressTests
{
    // Never connected: nothing listens there.
    private static readonly IPEndPoint _one = IPEndPoint.Parse("127.0.0.1:8080");

    private static WebSocketClient Make(string address, ClientOptions options) =>
        new(address, options, static () => new WsSession());

    public static TheoryData<string, ClientOptions, string> Contradictions() => new()
    {
        { "ws://127.0.0.1:8080/", new ClientOptions { EndPoint = IPEndPoint.Parse("127.0.0.1:8081") },
            "127.0.0.1:8081 is another place" },
        { "ws://127.0.0.1:8080/", new ClientOptions { EndPoint = IPEndPoint.Parse("127.0.0.2:8080") },
            "127.0.0.2:8080 is another place" },
        { "ws://example.org/", new ClientOptions { EndPoint = _one }, "127.0.0.1:8080 is another place" },
        { "ws://example.org:8080/", new ClientOptions { EndPoint = new DnsEndPoint("example.net", 8080) },
            "example.net:8080 is another place" },
        { "ws://example.org:8080/", new ClientOptions { EndPoints = [_one, new DnsEndPoint("example.net", 8080)] },
            "example.net:8080 is another place" },
        { "ws://example.org:8080/", new ClientOptions { Address = "tcp://example.net:8080" },
            "example.net:8080 is another place" },
        { "ws://example.org:8080/", new ClientOptions { Address = "tls://example.org:8080" }, "write wss://" },
        { "ws://example.org:8080/", new ClientOptions { Address = "example.org" }, "ClientOptions.Address" },
        { "ws://example.org/", new ClientOptions { Tls = new TlsOptions() }, "write wss://" },
        { "wss://example.org:8080/", new ClientOptions { EndPoint = _one, Tls = new TlsOptions() },
            "set Tls.HostName to example.org" },
    };

    [Theory, MemberData(nameof(Contradictions))]
    public void Options_that_contradict_the_address_throw_at_the_constructor_with_the_cure(string address,
        ClientOptions options, string cure) =>
        Assert.Contains(cure, Assert.Throws<ArgumentException>(() => Make(address, options)).Message,
            StringComparison.Ordinal);

    [Fact]
    public void Rules_for_TLS_without_TLS_throw_at_the_short_constructor_as_well() =>
        Assert.Contains("write wss://",
            Assert.Throws<ArgumentException>(static () => new WebSocketClient("ws://example.org/",
                static () => new WsSession(), tls: new TlsOptions())).Message, StringComparison.Ordinal);

    [Fact]
    public void Without_an_end_point_the_client_connects_to_the_address_and_a_given_end_point_is_kept()
    {
        Assert.Equal("tcp://example.org:80",
            Make("ws://example.org/x", new ClientOptions { Limits = new() { SendBytes = 5000 } }).Options.Address);
        ClientOptions secure =
            Make("wss://[::1]:8080/x", new ClientOptions { Limits = new() { SendBytes = 5000 } }).Options;
        Assert.Equal(("tls://[::1]:8080", 5000), (secure.Address, secure.Limits.SendBytes));
        Assert.Same(_one, Make("ws://example.org:8080/", new ClientOptions { EndPoint = _one }).Options.EndPoint);
        // the address it connects to determines it
        Assert.Null(Make("wss://127.0.0.1:8080/", new ClientOptions { EndPoint = _one }).Options.Tls!.HostName);
        Assert.Equal("example.org",
            Make("wss://example.org:8080/", new ClientOptions { EndPoint = _one }).Options.Tls!.HostName);
        Assert.Equal("example.org", Make("wss://example.org/",
            new ClientOptions { EndPoint = new UnixDomainSocketEndPoint("/run/web") }).Options.Tls!.HostName);
        Assert.Equal("other", Make("wss://example.org:8080/",
            new ClientOptions { EndPoint = _one, Tls = new TlsOptions { HostName = "other" } }).Options.Tls!.HostName);
    }

    [Fact]
    public async Task An_address_with_TLS_is_never_spoken_to_in_plain_text_and_the_name_is_that_of_the_address()
    {
        using TcpListener listener = new(IPAddress.Loopback, 0);
        listener.Start();
        IPEndPoint here = (IPEndPoint)listener.LocalEndpoint;
        using CancellationTokenSource limit = new(WsSite.Patience);
        await using WebSocketClient client = Make($"wss://inside.example:{here.Port}/x",
            new ClientOptions { EndPoint = here });
        Task<WebSocketSession> connecting = client.ConnectAsync(limit.Token).AsTask();
        using (Socket socket = await listener.AcceptSocketAsync(limit.Token))
        {
            byte[] first = new byte[4096];
            int count = await socket.ReceiveAsync(first, limit.Token);
            Assert.Equal(0x16, first[0]); // a TLS handshake record, not GET
            Assert.Contains("inside.example", Encoding.Latin1.GetString(first, 0, count), StringComparison.Ordinal);
        }

        await Assert.ThrowsAnyAsync<IOException>(() => connecting);
    }
}
