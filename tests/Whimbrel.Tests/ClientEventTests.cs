using Whimbrel.Testing;

namespace Whimbrel.Tests;

public sealed class ClientEventTests
{
    private static readonly MemoryEndPoint s_here = new("here");

    [Fact]
    public void Reconnects_raise_events_of_the_client_without_an_override()
    {
        MemoryEngine engine = new(1);
        TimeSpan delay = TimeSpan.FromMilliseconds(100);
        ReconnectPolicy policy = new() { InitialDelay = delay, Jitter = false, MaxAttempts = 2 };
        ClientOptions options = new() { Engine = engine, EndPoint = s_here, Reconnect = policy };
        Client client = new(options, static () => new Silent());
        List<string> events = [];
        client.Reconnecting += (attempt, time, reason) =>
            events.Add($"reconnecting {attempt} in {time} after {reason.Cause}");
        client.Reconnected += (session, attempts) =>
            events.Add($"reconnected {attempts} {ReferenceEquals(session, client.Session)}");
        client.GaveUp += reason => events.Add($"gave up {reason.Cause}");
        MemoryPeerListener listener = engine.Listen(s_here);
        engine.Run(client.ConnectAsync());
        Assert.Empty(events);
        listener.TryAccept()!.Close();
        engine.RunUntil(() => events.Count == 2);
        Assert.StartsWith($"reconnecting 1 in {delay} after ", events[0], StringComparison.Ordinal);
        Assert.Equal("reconnected 1 True", events[1]);
        events.Clear();
        MemoryPeer peer = listener.TryAccept()!;
        listener.Close();
        peer.Close();
        engine.RunUntil(() => events.Count > 0 && events[^1].StartsWith("gave up", StringComparison.Ordinal));
        Assert.Equal("gave up Refused", events[^1]);
        engine.Run(client.DisposeAsync());
        engine.Run(engine.DisposeAsync());
    }

    private sealed class Silent : Session;
}
