using System.Net.Security;
using RabbitMQ.Client;
using Whimbrel.Clusters;
using Whimbrel.Http.Tests.Programs;

namespace Whimbrel.Tests.RabbitMq;

[Collection(nameof(RabbitMqServer))]
public sealed class RabbitMqTroubleTests(RabbitMqServer server) : TroubleTests
{
    public override async ValueTask InitializeAsync()
    {
        await base.InitializeAsync();
        await server.StartAsync();
    }

    private BusNode Node(string address, RabbitMqOptions? options = null) => NodeOf(new RabbitMqBus(address, options));

    private Task RefusedAsync(string address, RabbitMqOptions? options, params string[] words) =>
        RefusedAsync(Node(address, options), words);

    [Fact]
    public async Task A_broker_that_does_not_listen_is_reported() =>
        await RefusedAsync($"amqp://node:secret@127.0.0.1:{RealProgram.FreePort()}", null, "RabbitMQ amqp://127.0.0.1:",
            "connection refused", "Does the server run there?");

    [Fact]
    public async Task The_name_is_unknown() => await RefusedAsync("amqp://nowhere.invalid", null,
        "RabbitMQ amqp://nowhere.invalid:5672", "unknown", "See the address.");

    [Theory]
    [InlineData("guest:secret@", "", "does not take these credentials", "in RabbitMqOptions")]
    [InlineData("nobody:secret@", "", "does not take these credentials", "in RabbitMqOptions")]
    [InlineData("", "/missing", "NOT_ALLOWED", "See the virtual host")]
    [InlineData("chat:to%3Aken@", "", "NOT_ALLOWED", "See the virtual host")]
    [InlineData("poor:poor@", "", "ACCESS_REFUSED", "configure, write and read ^whimbrel")]
    public async Task An_operation_denied_to_the_user_is_reported(string login,
        string virtualHost, params string[] words) =>
        await RefusedAsync($"amqp://{login}127.0.0.1:{server.Port}{virtualHost}", null, words);

    [Fact]
    public async Task Users_virtual_hosts_and_options_are_used()
    {
        await Node($"amqp://chat:to%3Aken@127.0.0.1:{server.Port}/other%20one").StartAsync();
        BusNode node = Node($"amqp://x:y@127.0.0.1:{server.Port}/other%20one",
            new RabbitMqOptions { User = "chat", Password = "to:ken" });
        await node.StartAsync();
        await node.SubscribeAsync("t.one");
    }

    [Fact]
    public async Task An_exchange_of_that_name_with_other_settings_is_reported()
    {
        ConnectionFactory factory = new() { Port = server.Port };
        await using RabbitMQ.Client.IConnection connection =
            await factory.CreateConnectionAsync(TestContext.Current.CancellationToken);
        await using IChannel channel =
            await connection.CreateChannelAsync(cancellationToken: TestContext.Current.CancellationToken);
        await channel.ExchangeDeclareAsync("whimbrel.taken", ExchangeType.Fanout, durable: false, autoDelete: false,
            cancellationToken: TestContext.Current.CancellationToken);
        await RefusedAsync($"amqp://127.0.0.1:{server.Port}", new RabbitMqOptions { Exchange = "whimbrel.taken" },
            "PRECONDITION_FAILED", "Another exchange has that name");
    }

    [Fact]
    public async Task The_certificate_is_verified_unless_the_options_say_otherwise()
    {
        await RefusedAsync($"amqps://127.0.0.1:{server.TlsPort}", null, "TLS failed", "RabbitMqOptions.Tls");
        SslOption trusting = new()
        {
            CertificateValidationCallback =
                static (_, _, _, errors) => errors != SslPolicyErrors.RemoteCertificateNotAvailable
        };
        BusNode node = Node($"amqps://127.0.0.1:{server.TlsPort}", new RabbitMqOptions { Tls = trusting });
        await node.StartAsync();
        await node.SubscribeAsync("t.one");
    }

    [Fact]
    public async Task The_servers_are_tried_in_their_order()
    {
        BusNode node = Node($"amqp://127.0.0.1:{RealProgram.FreePort()},127.0.0.1:{server.Port}");
        await node.StartAsync();
        await node.SubscribeAsync("t.one");
    }

    [Fact]
    public async Task A_peer_that_is_no_server_is_reported()
    {
        Server plain = Keep(new Server(new ServerOptions
        {
            Engine = Engine,
            EndPoint = new System.Net.IPEndPoint(System.Net.IPAddress.Loopback, 0)
        }, static () => new Mute()));
        await plain.StartAsync();
        await RefusedAsync($"amqp://{plain.EndPoint}",
            new RabbitMqOptions { ConnectTimeout = TimeSpan.FromSeconds(0.3) }, "RabbitMQ amqp://127.0.0.1:",
            "did not answer in time");
    }

    [Fact]
    public async Task A_trouble_hook_that_throws_does_not_end_the_reconnecting()
    {
        FaultyRelay relay = Keep(new FaultyRelay(server.Port));
        TaskCompletionSource called = new(TaskCreationOptions.RunContinuationsAsynchronously);
        BusNode node = Node($"amqp://127.0.0.1:{relay.Port}", new RabbitMqOptions { OnTrouble = Throw });
        await node.StartAsync();
        relay.Cut();
        await called.Task.WaitAsync(BusNode.Patience, TestContext.Current.CancellationToken);
        relay.Heal();
        await node.UntilStateAsync(static s => s is ["connected", _, "connected"]);
        await node.SubscribeAsync("t.one");

        void Throw(string trouble)
        {
            called.TrySetResult();
            throw new InvalidOperationException("thrown by the test");
        }
    }

    [Fact]
    public async Task A_recoverable_group_is_refused_at_the_call_with_the_reason()
    {
        RealNode node = Keep(await RealNode.StartAsync(Engine, "a",
            new RabbitMqBus($"amqp://127.0.0.1:{server.Port}"), static (id, gap, state) =>
                new ClusterOptions { Application = "none", NodeId = id, OnGap = gap, OnStateChanged = state }));
        NotSupportedException e = Assert.Throws<NotSupportedException>(() => node.Cluster.RecoverableGroup("r",
            new RecoverableOptions { Deliver = static (members, _, payload) => members.Broadcast(payload) }));
        Assert.Contains($"RabbitMQ amqp://127.0.0.1:{server.Port} keeps no history", e.Message,
            StringComparison.Ordinal);
        Assert.Contains("as those of Redis and NATS (one server with JetStream) are", e.Message,
            StringComparison.Ordinal);
    }

    // Marks, keys, and foreign messages in its queue.
    [Fact]
    public async Task A_message_in_transit_at_an_unsubscribe_does_not_reach_the_next_subscription()
    {
        string exchange = $"whimbrel.{Guid.NewGuid():N}";
        BusNode a = Node($"amqp://127.0.0.1:{server.Port}", new RabbitMqOptions { Exchange = exchange }),
            b = Node($"amqp://127.0.0.1:{server.Port}", new RabbitMqOptions { Exchange = exchange });
        await a.StartAsync();
        await b.StartAsync();
        await a.SubscribeAsync("t.one", "t.last");
        for (int round = 0; round < 20; round++)
        {
            await Engine.GetLoop(0).PostAsync(() =>
            {
                for (int unsubscribe = 0; unsubscribe < 2; unsubscribe++) // two of them in transit at a time
                {
                    Assert.Equal(1, a.Bus.Publish([new BusMessage("t.one", "old"u8.ToArray())]));
                    a.Bus.Unsubscribe("t.one");
                    a.Bus.Subscribe("t.one");
                }
            });
            await b.PublishAsync("t.last", [$"{round}"]);
            await a.UntilHeardAsync($"{round}");
        }

        await a.SubscribeAsync("t.one");
        await b.PublishAsync("t.one", ["new"]);
        await a.UntilHeardAsync("new");
        Assert.DoesNotContain("old", a.Heard);
    }

    [Theory]
    [InlineData("redis://h")]
    [InlineData("h:5672")]
    [InlineData("amqp://")]
    [InlineData("amqp://h?x=1")]
    [InlineData("amqp://h/a/b")]
    [InlineData("amqp://user@h")]
    [InlineData("amqp://:secret@h")]
    [InlineData("amqp://h:99999")]
    public void Other_addresses_are_refused_without_their_passwords(string address)
    {
        ArgumentException e = Assert.Throws<ArgumentException>(() => new RabbitMqBus(address));
        Assert.DoesNotContain("secret", e.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Addresses_are_read_whole()
    {
        RabbitMqAddress address = RabbitMqAddress.Parse("amqps://u:p%40@one,[::1]:99/a%2Fb");
        Assert.Equal([("one", 5671), ("::1", 99)], address.Servers);
        Assert.Equal(("amqps://one:5671,[::1]:99/a%2Fb", true, "u", "p@", "a/b"),
            (address.Text, address.WantsTls, address.User, address.Password, address.VirtualHost));
        Assert.Equal("/", RabbitMqAddress.Parse("amqp://one/").VirtualHost);
        RabbitMqBus.Register();
        Assert.Equal("RabbitMQ amqp://h:5672", Assert.IsType<RabbitMqBus>(GroupBus.Make("amqp://u:p@h")).Description);
        foreach (RabbitMqOptions options in (RabbitMqOptions[])[new() { User = "u" }, new() { Password = "p" },
            new() { Exchange = "" }, new() { Exchange = "a b" }, new() { Heartbeat = TimeSpan.FromSeconds(0.5) },
            new() { ConnectTimeout = TimeSpan.Zero }])
        {
            Assert.Throws<ArgumentException>(() => new RabbitMqBus("amqp://h", options));
        }
    }

    private sealed class Mute : Session;
}
