using System.Diagnostics;

namespace Whimbrel.Compat.Tests.Connections;

// A client that disconnects while it connects. In the original a TcpClient stays connecting for ever then.
public sealed class GiveUpTests
{
    public static TheoryData<EngineKind, Scheduling> Cases => OnEngine.Cases;

    [Theory]
    [MemberData(nameof(Cases))]
    public async Task After_a_Disconnect_while_connecting_OnConnected_is_not_called_and_the_client_connects_again(
        EngineKind kind, Scheduling callbacks)
    {
        await using OnEngine engine = await OnEngine.StartAsync(kind, callbacks);
        using RecordingServer server = new(new Log());
        Assert.True(server.Start());
        for (int i = 0; i < 100; i++)
        {
            Log log = new();
            using RecordingClient client = new(log, server.Chosen);
            Assert.True(client.ConnectAsync());
            // A moment that differs, up to the end of the connect.
            long until = Stopwatch.GetTimestamp() + i * Stopwatch.Frequency / 100_000;
            while (Stopwatch.GetTimestamp() < until) Thread.SpinWait(10);
            Assert.True(client.Disconnect());
            bool wasConnected = log.Count("client: connected True") > 0;
            log.Until("client: disconnected False");
            Assert.False(client.IsConnected || client.IsConnecting);
            Assert.Equal(wasConnected, log.Count("client: connected True") > 0);
            if (i % 10 > 0) continue;
            Assert.True(client.ConnectAsync());
            Log.Until(() => client.IsConnected, "the connection");
        }

        Log.Until(() => server.ConnectedSessions == 0, "the end of all sessions");
    }
}
