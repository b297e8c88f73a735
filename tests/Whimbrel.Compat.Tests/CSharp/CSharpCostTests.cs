using CSharpServer;
using Whimbrel.Compat.Tests.Connections;

namespace Whimbrel.Compat.Tests.CSharp;

// What a message and an idle connection cost in memory.
public sealed class CSharpCostTests : IDisposable
{
    private readonly Service _service = new();
    private readonly EchoServer _server;

    public CSharpCostTests()
    {
        _server = new EchoServer(_service);
        Assert.True(_service.Start() && _server.Start());
    }

    public void Dispose()
    {
        _server.Dispose();
        _service.Dispose();
    }

    // The user may keep it, so there is one for each message; nothing else.
    [Fact]
    public void A_message_costs_the_array_that_the_user_gets() =>
        Assert.InRange(Cost.OfMessage(_server.Port, 1000), 1024, 1040); // 1000 bytes and the head of the array, and what the runtime does meanwhile

    [Fact]
    public void An_idle_connection_costs_less_than_four_KiB() => Assert.InRange(Cost.OfIdleConnection(_server.Port), 0, 4096);

    private sealed class EchoServer(Service service) : TcpServer(service, "127.0.0.1", 0)
    {
        protected override TcpSession CreateSession() => new EchoSession(this);
    }

    private sealed class EchoSession(TcpServer server) : TcpSession(server)
    {
        protected override void OnReceived(byte[] buffer, long size) => SendAsync(buffer, 0, size);
    }
}
