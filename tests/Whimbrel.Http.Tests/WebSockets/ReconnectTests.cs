using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.WebSockets;

// A client with a reconnect policy: an end caused by the server or the network is not final, even if this side closed
// last. An end requested by this side is final.
public sealed class ReconnectTests
{
    private static readonly MemoryEndPoint _here = new("here");

    private static ReconnectPolicy Quick(int? attempts = null, bool retriesFirst = true) =>
        new()
        {
            InitialDelay = TimeSpan.FromSeconds(1),
            MaxDelay = TimeSpan.FromSeconds(1),
            Jitter = false,
            MaxAttempts = attempts,
            RetryFirstConnect = retriesFirst
        };

    private static T Get<T>(World world, Task<T> task)
    {
        world.Engine.Run(new ValueTask(task));
        return task.GetAwaiter().GetResult();
    }

    private sealed class World : IDisposable
    {
        private HttpServer? _server;

        internal World(WebSocketOptions? options = null)
            : this(Quick(), options)
        {
        }

        internal World(ReconnectPolicy? policy, WebSocketOptions? options = null)
        {
            ClientOptions client = new() { Engine = Engine, EndPoint = _here, Reconnect = policy };
            Client = new WebSocketClient("ws://here/ws", client, () =>
            {
                WsSession session = new();
                Sessions.Add(session);
                return session;
            }, options ?? new WebSocketOptions { SubProtocols = ["one", "two"], Deflate = new WebSocketDeflate() });
        }

        internal MemoryEngine Engine { get; } = new(1, faults: MemoryFaults.None);

        internal WebSocketClient Client { get; }

        internal List<WsSession> Sessions { get; } = [];

        internal List<WsSession> Served { get; } = [];

        internal void Serve(WebSocketOptions options, Func<bool>? admits = null, bool isDeaf = false)
        {
            _server = new HttpServer(new ServerOptions { Engine = Engine, EndPoint = _here });
            _server.WebSocket("/ws", _ =>
            {
                if (admits?.Invoke() == false) return null;
                WsSession session = new((s, what) =>
                {
                    if (isDeaf) s.PauseReceiving();
                    if (what.StartsWith("text ", StringComparison.Ordinal)) s.SendText(what[5..]);
                });
                Served.Add(session);
                return session;
            }, options);
            Engine.Run(_server.StartAsync());
        }

        internal void StopServing() => Engine.Run(_server!.StopAsync(TimeSpan.FromSeconds(5)));

        internal void Connect()
        {
            // ConnectAsync completes in real time on another thread, so waiting for it must advance virtual time.
            _ = Client.ConnectAsync();
            UntilSessions(1);
        }

        internal void UntilSessions(int count) =>
            Engine.RunUntil(() => Sessions.Count == count && Sessions[^1].Events.Contains("connected"));

        public void Dispose()
        {
            Engine.Run(Client.DisposeAsync());
            if (_server is not null) Engine.Run(_server.StopAsync(TimeSpan.Zero));
            Engine.Run(Engine.DisposeAsync());
        }
    }

    [Fact]
    public void A_server_that_goes_away_and_comes_back_gets_the_client_again_and_all_is_negotiated_again()
    {
        using World world = new();
        world.Serve(new WebSocketOptions { SubProtocols = ["one"], Deflate = new WebSocketDeflate() });
        world.Connect();
        Assert.Equal(("one", true), (world.Sessions[0].SubProtocol, world.Sessions[0].IsCompressed));
        world.StopServing(); // the server sends 1001, and the client responds
        Assert.Equal(WebSocketStatus.GoingAway, world.Sessions[0].CloseStatus);
        world.Engine.RunFor(TimeSpan.FromSeconds(10)); // no server is listening
        Assert.True(world.Client.IsReconnecting);
        Assert.Single(world.Sessions);
        world.Serve(new WebSocketOptions { SubProtocols = ["two"] });
        world.UntilSessions(2);
        Assert.Equal(("two", false), (world.Sessions[1].SubProtocol, world.Sessions[1].IsCompressed));
        string text = new('x', 500); // would be compressed if the extension had been negotiated
        world.Sessions[1].SendText(text);
        world.Engine.RunUntil(() => world.Sessions[1].Events.Contains($"text {text}"));
        Assert.StartsWith("disconnected", world.Sessions[0].Events[^1], StringComparison.Ordinal);
    }

    [Fact]
    public void A_server_that_closes_one_connection_gets_the_client_again()
    {
        using World world = new();
        world.Serve(new WebSocketOptions());
        world.Connect();
        world.Served[0].Close((WebSocketStatus)4000, "again");
        world.UntilSessions(2);
    }

    [Fact]
    public void A_server_that_does_not_answer_pings_is_disconnected_and_the_client_reconnects()
    {
        using World world = new(new WebSocketOptions { Heartbeat = TimeSpan.FromSeconds(10) });
        world.Serve(new WebSocketOptions { Heartbeat = Timeout.InfiniteTimeSpan }, isDeaf: true);
        world.Connect();
        world.UntilSessions(2);
        Assert.Equal("disconnected LocalAbort 1006", world.Sessions[0].Events[^1]);
        Assert.Equal(["connected", "disconnected LocalAbort 1006"], world.Sessions[0].Events);
    }

    [Fact]
    public void A_server_that_is_not_ready_after_a_restart_is_asked_again_and_one_that_refuses_is_not()
    {
        foreach (bool isReady in (bool[])[false, true])
        {
            using World world = new();
            world.Serve(new WebSocketOptions());
            world.Connect();
            world.StopServing();
            int asked = 0;
            world.Serve(new WebSocketOptions(), () =>
            {
                asked++;
                if (isReady) return false; // 403
                return asked > 3 ? true : throw new InvalidOperationException("not yet"); // 500
            });
            world.Engine.RunFor(TimeSpan.FromSeconds(20));
            Assert.Equal(isReady ? (1, 1) : (2, 4), (world.Sessions.Count, asked));
            Assert.False(world.Client.IsReconnecting);
        }
    }

    [Fact]
    public void A_server_that_is_not_ready_is_asked_again_by_the_first_connect_and_one_that_refuses_is_not()
    {
        foreach (bool isReady in (bool[])[false, true])
        {
            using World world = new();
            int asked = 0;
            world.Serve(new WebSocketOptions(), () =>
            {
                asked++;
                if (isReady) return false; // 403
                return asked > 3 ? true : throw new InvalidOperationException("not yet"); // 500
            });
            Task<WebSocketSession> connecting = world.Client.ConnectAsync().AsTask();
            world.Engine.RunFor(TimeSpan.FromSeconds(20));
            Assert.Equal(isReady ? (0, 1) : (1, 4), (world.Sessions.Count, asked));
            if (isReady)
                Assert.Contains("answered 403", Assert.Throws<WebSocketException>(() => Get(world, connecting)).Message,
                    StringComparison.Ordinal);
            else Assert.Same(world.Sessions[0], Get(world, connecting));
            Assert.False(world.Client.IsReconnecting);
        }
    }

    [Fact]
    public void A_first_connect_gives_up_at_the_limit_with_the_last_answer_or_at_once_without_RetryFirstConnect()
    {
        foreach ((ReconnectPolicy? policy, int most) in ((ReconnectPolicy?, int)[])[(Quick(attempts: 2), 3),
            (Quick(retriesFirst: false), 1), (null, 1)])
        {
            using World world = new(policy: policy);
            int asked = 0;
            world.Serve(new WebSocketOptions(),
                () => ++asked > 0 ? throw new InvalidOperationException("never") : false);
            Task<WebSocketSession> connecting = world.Client.ConnectAsync().AsTask();
            world.Engine.RunFor(TimeSpan.FromSeconds(20));
            Assert.Contains("answered 500", Assert.Throws<WebSocketException>(() => Get(world, connecting)).Message,
                StringComparison.Ordinal);
            Assert.Equal(most, asked);
        }
    }

    [Fact]
    public void A_retried_first_connect_ends_by_a_cancel_and_by_a_disconnect_between_two_attempts_and_inside_one()
    {
        foreach (bool cancels in (bool[])[false, true])
        {
            foreach (bool isInside in (bool[])[false, true])
            {
                using World world = new(policy: new ReconnectPolicy
                {
                    InitialDelay = TimeSpan.FromHours(1),
                    MaxDelay = TimeSpan.FromHours(1),
                    Jitter = false
                });
                MemoryPeerListener? silent = isInside ? world.Engine.Listen(_here) : null;
                if (!isInside)
                    world.Serve(new WebSocketOptions(), static () => throw new InvalidOperationException("never"));
                using CancellationTokenSource stop = new();
                Task<WebSocketSession> connecting = world.Client.ConnectAsync(stop.Token).AsTask();
                world.Engine.RunFor(TimeSpan.FromSeconds(1));
                Assert.False(connecting.IsCompleted);
                if (cancels) stop.Cancel();
                else world.Engine.Run(world.Client.DisconnectAsync());
                world.Engine.RunFor(TimeSpan.FromSeconds(1));
                if (cancels) Assert.ThrowsAny<OperationCanceledException>(() => Get(world, connecting));
                else Assert.ThrowsAny<IOException>(() => Get(world, connecting));
                Assert.False(world.Client.IsReconnecting);
                silent?.Close();
            }
        }
    }

    [Fact]
    public void An_end_of_this_side_is_the_last_also_when_the_one_before_was_the_servers()
    {
        using World world = new();
        world.Serve(new WebSocketOptions());
        world.Connect();
        world.Served[0].Close();
        world.UntilSessions(2);
        world.Sessions[1].Close();
        world.Engine.RunFor(TimeSpan.FromMinutes(1));
        Assert.Equal(2, world.Sessions.Count);
        Assert.False(world.Client.IsReconnecting);
    }

    [Fact]
    public void An_end_by_this_side_is_final()
    {
        foreach (Action<WsSession> end in (Action<WsSession>[])[static s => s.Close(), static s => s.Abort()])
        {
            using World world = new();
            world.Serve(new WebSocketOptions());
            world.Connect();
            end(world.Sessions[0]);
            world.Engine.RunFor(TimeSpan.FromMinutes(1));
            Assert.Single(world.Sessions);
            Assert.False(world.Client.IsReconnecting);
        }
    }
}
