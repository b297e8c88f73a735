namespace Whimbrel.Conformance;

public sealed class EpollTcpSocketOptions() : SocketOptionSuite(Transport.EpollTcp);

public sealed class EpollUnixSocketOptions() : UnixSocketOptionSuite(Transport.EpollUnix);

#if PORTABLE
public sealed class PortableTcpSocketOptions() : SocketOptionSuite(Transport.PortableTcp);

public sealed class PortableUnixSocketOptions() : UnixSocketOptionSuite(Transport.PortableUnix);
#endif

#if MEMORY
public sealed class MemorySocketOptions
{
    [Fact]
    public async Task The_options_of_production_are_taken_and_the_hook_is_not_called()
    {
        await using Testing.MemoryEngine engine = new(1);
        ServerOptions options = new()
        {
            Engine = engine,
            EndPoint = new System.Net.IPEndPoint(System.Net.IPAddress.Loopback, 0),
            KeepAlive = true,
            Mark = 7,
            FastOpenQueue = 16,
            BindToDevice = "eth7",
            OnSocketCreated = static _ => throw new NotSupportedException("there is no socket"),
        };
        bool wasConnected = false;
        Server server = new(options, () => new Listening(() => wasConnected = true));
        ValueTask started = server.StartAsync();
        engine.RunUntil(() => started.IsCompleted);
        await started;
        Testing.MemoryPeer peer = engine.Dial(server.EndPoint!);
        engine.RunUntil(() => peer.IsConnected && wasConnected);
        ValueTask<StopReport> stopped = server.StopAsync(TimeSpan.Zero);
        engine.RunUntil(() => stopped.IsCompleted);
        Assert.Equal(1, (await stopped).Aborted);
        Assert.Contains("KeepAliveCount = 128", Assert.Throws<ArgumentException>(() => new ServerOptions { EndPoint = options.EndPoint, KeepAlive = true, KeepAliveCount = 128 }.Validate(engine)).Message, StringComparison.Ordinal);
    }

    private sealed class Listening(Action connected) : Session
    {
        protected override void OnConnected() => connected();
    }
}
#endif
