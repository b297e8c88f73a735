using CSharpServer;
using Whimbrel.Compat.Tests.Connections;

namespace Whimbrel.Compat.Tests.CSharp;

// The old classes behave the same on each engine.
public sealed class CSharpEngineTests
{
    [Theory]
    [InlineData(EngineKind.Uring)]
    [InlineData(EngineKind.Epoll)]
    [InlineData(EngineKind.Portable)]
    public void TCP_and_UDP_do_the_same_on_each_engine(EngineKind kind)
    {
        Log log = new(), clients = new(), datagrams = new();
        using Service service = new(2) { Kind = kind };
        Assert.SkipUnless(service.Start(), $"{kind} does not run here.");
        using RecordingServer server = new(service, log);
        using UdpEcho echo = new(service, datagrams);
        Assert.True(server.Start() && echo.Start());
        using RecordingClient client = new(service, clients, "127.0.0.1", server.Port);
        using UdpAsker asker = new(service, datagrams, "127.0.0.1", echo.Port);
        for (int round = 1; round <= 2; round++)
        {
            Assert.True(client.ConnectAsync() && asker.ConnectAsync());
            log.Until("server: connected", round);
            clients.Until("client: connected True", round);
            datagrams.Until("client: connected True", round);
            Assert.True(client.SendAsync("stream"));
            clients.Until("client: received stream", round);
            Assert.True(server.Multicast("to all"));
            clients.Until("client: received to all", round);
            Assert.True(asker.SendAsync("datagram"));
            datagrams.Until("client: received datagram", round);
            Assert.True(server.Restart() && echo.Restart());
            clients.Until("client: disconnected False", round);
            Assert.True(asker.Disconnect());
        }

        Assert.Equal(["client: connected True", "client: received stream", "client: received to all",
            "client: disconnected False"], clients.Lines.Where(static l => l != "client: empty").Take(4));
        Assert.DoesNotContain(log.Lines.Concat(clients.Lines).Concat(datagrams.Lines),
            static l => l.Contains("error", StringComparison.Ordinal));
        Assert.True(service.Stop());
        Assert.False(server.IsStarted || echo.IsStarted);
    }
}
