using System.Net;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using Whimbrel.Clusters;
using Whimbrel.Conformance;
using Whimbrel.Http.Tests.Programs;

namespace Whimbrel.Tests.Redis;

public sealed class RedisTroubleTests : TroubleTests
{
    private const string Hello = "%1\r\n$4\r\nrole\r\n$6\r\nmaster\r\n";

    private BusNode Node(string address, RedisOptions? options = null) => NodeOf(new RedisBus(address, options));

    private async Task<RedisBroker> BrokerAsync(string configuration, bool isTls = false) =>
        Keep(await RedisBroker.StartAsync(configuration, isTls));

    // A server that sends this in response to the first request, and then nothing.
    private async Task<string> SaidAsync(string answer)
    {
        Server server = Keep(new Server(new ServerOptions
        {
            Engine = Engine,
            EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
            Limits = new() { SendBytes = 64 << 20 }
        }, () => new Guest(answer)));
        await server.StartAsync();
        return $"redis://:secret@{server.EndPoint}";
    }

    private Task RefusedAsync(string address, RedisOptions? options, params string[] words) =>
        RefusedAsync(Node(address, options), words);

    [Fact]
    public async Task A_broker_that_does_not_listen_is_reported() =>
        await RefusedAsync($"redis://:secret@127.0.0.1:{RealProgram.FreePort()}", null, "Redis redis://127.0.0.1:",
            "connection refused", "Does the server run there?");

    [Fact]
    public async Task The_name_is_unknown() => await RefusedAsync("redis://nowhere.invalid", null,
        "Redis redis://nowhere.invalid:6379", "unknown", "See the address.");

    [Theory]
    [InlineData("requirepass right", ":secret@", "does not take these credentials ('WRONGPASS")]
    [InlineData("requirepass right", "nobody:secret@", "does not take these credentials ('WRONGPASS")]
    [InlineData("requirepass right", "", "it requires authentication (NOAUTH)")]
    public async Task The_credentials_are_wrong_or_missing(string configuration, string login, string message)
    {
        RedisBroker broker = await BrokerAsync(configuration);
        await RefusedAsync($"redis://{login}127.0.0.1:{broker.Port}", null, message, "in RedisOptions");
    }

    [Fact]
    public async Task A_user_and_options_are_used()
    {
        RedisBroker broker = await BrokerAsync("requirepass \"to ken\"\nuser node on >pass:word &whimbrel:* +@all");
        await Node($"redis://:to%20ken@127.0.0.1:{broker.Port}").StartAsync();
        await Node(broker.Address, new RedisOptions { Password = "to ken" }).StartAsync();
        await Node($"redis://node:pass:word@127.0.0.1:{broker.Port}").StartAsync();
        await Node($"redis://x:y@127.0.0.1:{broker.Port}", new RedisOptions { User = "node", Password = "pass:word" })
            .StartAsync();
    }

    [Fact]
    public async Task The_certificate_is_not_trusted_or_for_another_name()
    {
        RedisBroker broker = await BrokerAsync("", isTls: true);
        await RefusedAsync(broker.Address.Replace("redis:", "rediss:", StringComparison.Ordinal), null, "certificate",
            "RedisOptions.Tls");
        await RefusedAsync(broker.Address,
            new RedisOptions { Tls = new TlsOptions { Roots = [new X509Certificate2(TestCertificates.OtherRoot)] } },
            "certificate", "RedisOptions.Tls");
        await RefusedAsync(broker.Address,
            new RedisOptions { Tls = new TlsOptions { Roots = TestCertificates.Roots, HostName = "other.test" } },
            "other.test", "RedisOptions.Tls");
        await RefusedAsync(broker.Address, null, "it ended the connection before it answered", "rediss://");
    }

    [Fact]
    public async Task A_replica_is_no_broker()
    {
        RedisBroker broker = await BrokerAsync($"replicaof 127.0.0.1 {RealProgram.FreePort()}");
        await RefusedAsync(broker.Address, null, "it is a replica", "its primary");
    }

    [Theory]
    [InlineData("HTTP/1.1 400 Bad Request\r\n\r\n", "speaks no RESP: 'HTTP/1.1 400 Bad Request")]
    [InlineData("-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n",
        "it speaks no RESP3, which Redis has from version 6 on")]
    [InlineData("-NOPROTO unsupported protocol version\r\n", "it speaks no RESP3")]
    [InlineData("-DENIED Redis is running in protected mode\r\n", "it is in protected mode")]
    [InlineData("-ERR max number of clients reached\r\n", "it said 'ERR max number of clients reached'")]
    [InlineData("*2\r\n+proto\r\n:2\r\n", "its answer to HELLO is none of RESP3")]
    [InlineData(">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nb\r\n", "its answer to HELLO is none of RESP3")]
    [InlineData("", "did not answer within 0.2 s")]
    [InlineData("%7\r\n", "did not answer within 0.2 s")]
    public async Task A_server_that_cannot_serve_is_reported(string answer, string message) =>
        await RefusedAsync(await SaidAsync(answer), new RedisOptions { ConnectTimeout = TimeSpan.FromSeconds(0.2) },
            message, "cannot be used");

    [Theory]
    [InlineData("HTTP/1.1 400 Bad Request\r\n\r\n")]
    [InlineData("*2\r\n+proto\r\n:2\r\n")]
    public async Task An_answer_that_breaks_the_rules_ends_the_connection_as_an_error_of_the_protocol(string answer) =>
        await BrokenAsync(Node(await SaidAsync(answer), null));

    [Theory]
    [InlineData("nonsense\r\n", "what answers there speaks no RESP: 'nonsense..'")]
    [InlineData("", "it sent nothing for 0.3 s")]
    public async Task A_failing_open_connection_is_reported_as_lost_with_the_next_state(string behind, string message)
    {
        ReconnectPolicy late =
            new() { InitialDelay = TimeSpan.FromHours(1), MaxDelay = TimeSpan.FromHours(1), Jitter = false };
        BusNode node = Node(await SaidAsync(Hello + behind),
            new RedisOptions { Reconnect = late, PingInterval = TimeSpan.FromMilliseconds(100) });
        await node.Bus.StartAsync(Engine.GetLoop(0), node, TestContext.Current.CancellationToken);
        await node.UntilStateAsync(static s => s.Count == 2);
        Assert.Equal(["connected", $"lost: {message}. Reconnecting (attempt 1, next in 3600.0 s)."], node.States);
    }

    [Fact]
    public async Task A_payload_that_is_too_large_is_skipped_and_so_are_messages_without_a_subscriber()
    {
        const int Large = RedisBus.MostEnvelopeBytes + 1;
        string behind = $"{Message("t.one", new string('x', Large))}{Message("t.two", "x")}{Message("", "x")}>1\r\n"
            + $"+x\r\n>3\r\n+message\r\n$14\r\nwhimbrel:t.one\r\n:1\r\n{Message("t.one", "last")}";
        BusNode node = Node(await SaidAsync(Hello), new RedisOptions { PingInterval = TimeSpan.FromHours(1) });
        await node.StartAsync();
        await Engine.GetLoop(0).PostAsync(() =>
        {
            node.Bus.Subscribe("t.one");
            Guest.Last!.Send(behind);
        });
        await node.UntilHeardAsync("last");
        Assert.Equal(["last"], node.Heard);

        static string Message(string subject, string payload) =>
            $">3\r\n$7\r\nmessage\r\n${9 + subject.Length}\r\nwhimbrel:{subject}\r\n${payload.Length}\r\n{payload}\r\n";
    }

    [Fact]
    public async Task A_message_in_transit_at_an_unsubscribe_does_not_reach_the_next_subscription()
    {
        BusNode node = Node(await SaidAsync(Hello), new RedisOptions { PingInterval = TimeSpan.FromHours(1) });
        await node.StartAsync();
        await Engine.GetLoop(0).PostAsync(() =>
        {
            node.Bus.Subscribe("a");
            node.Bus.Unsubscribe("a");
            node.Bus.Subscribe("a");
            Guest.Last!.Send(Push("subscribe", ":1\r\n") + Push("message", "$3\r\nold\r\n") + Push("unsubscribe",
                ":0\r\n") + Push("subscribe", ":1\r\n") + Push("message", "$3\r\nnew\r\n"));
        });
        await node.UntilHeardAsync("new");
        Assert.Equal(["new"], node.Heard);

        static string Push(string what, string third) =>
            $">3\r\n${what.Length}\r\n{what}\r\n$10\r\nwhimbrel:a\r\n{third}";
    }

    [Fact]
    public async Task Messages_between_two_unsubscribes_in_transit_do_not_reach_the_third_subscription()
    {
        BusNode node = Node(await SaidAsync(Hello), new RedisOptions { PingInterval = TimeSpan.FromHours(1) });
        await node.StartAsync();
        for (int time = 1; time <= 2; time++)
        {
            await Engine.GetLoop(0).PostAsync(() =>
            {
                node.Bus.Subscribe("a");
                node.Bus.Unsubscribe("a");
                node.Bus.Subscribe("a");
                node.Bus.Unsubscribe("a");
                node.Bus.Subscribe("a");
                Guest.Last!.Send(Push("subscribe", ":1\r\n") + Push("unsubscribe", ":0\r\n")
                    + Push("subscribe", ":1\r\n") + Push("message", "$3\r\nold\r\n") + Push("unsubscribe", ":0\r\n")
                    + Push("subscribe", ":1\r\n") + Push("message", $"$4\r\nnew{time}\r\n"));
            });
            await node.UntilHeardAsync($"new{time}");
            await Engine.GetLoop(0).PostAsync(() => node.Bus.Unsubscribe("a"));
            await Engine.GetLoop(0).PostAsync(() => Guest.Last!.Send(Push("unsubscribe", ":0\r\n")));
        }

        Assert.Equal(["new1", "new2"], node.Heard);

        static string Push(string what, string third) =>
            $">3\r\n${what.Length}\r\n{what}\r\n$10\r\nwhimbrel:a\r\n{third}";
    }

    // A restarted server may lack messages that it had accepted, and their offsets would be used again.
    [Fact]
    public async Task A_server_restarted_with_its_store_starts_its_streams_again()
    {
        DirectoryInfo kept = Directory.CreateTempSubdirectory("whimbrel-redis");
        try
        {
            RedisBroker broker = await BrokerAsync($"dir {kept.FullName}\nappendonly yes\nappendfsync always");
            BusNode node = NodeOf(broker.Connect());
            await node.StartAsync();
            HistoryPage? before = await HistoryAsync(node, "x");
            Assert.Equal((1ul, 1ul), (before!.First, before.Last));
            await broker.LoseAsync();
            await node.UntilStateAsync(static s => s.Count >= 2);
            await broker.RestoreAsync();
            await node.UntilStateAsync(static s => s is [_, _, .., "connected"]);
            HistoryPage? after = await HistoryAsync(node);
            Assert.Equal((1ul, 0ul), (after!.First, after.Last));
            Assert.NotEqual(before.Epoch, after.Epoch);
        }
        finally
        {
            kept.Delete(true);
        }
    }

    [Fact]
    public async Task Recoverable_groups_need_rights_which_the_refusal_names()
    {
        RedisBroker broker = await BrokerAsync("user a on >b &whimbrel:* +@pubsub +ping +hello\nuser c on >d "
            + "&whimbrel:* +@pubsub +ping +hello +eval +info +time +del +pexpire +@hash +@stream ~whimbrel:*");
        TaskCompletionSource<string> refused = new(TaskCreationOptions.RunContinuationsAsynchronously);
        BusNode without = Node($"redis://a:b@127.0.0.1:{broker.Port}",
            new RedisOptions { OnTrouble = text => refused.TrySetResult(text) });
        await without.StartAsync();
        Assert.Null(await HistoryAsync(without));
        Assert.Contains("for recoverable groups +eval +info +time +del +pexpire +@hash +@stream and their keys "
            + "(~whimbrel:*)", await refused.Task.WaitAsync(BusNode.Patience), StringComparison.Ordinal);
        BusNode with = Node($"redis://c:d@127.0.0.1:{broker.Port}");
        await with.StartAsync();
        Assert.Equal(1ul, (await HistoryAsync(with, "x"))!.Last);
    }

    [Fact]
    public async Task A_denied_operation_is_reported_and_the_rest_continues()
    {
        RedisBroker broker = await BrokerAsync("user a on >b &whimbrel:t.one +@pubsub +ping +hello");
        List<string> told = [];
        TaskCompletionSource refused = new(TaskCreationOptions.RunContinuationsAsynchronously);
        BusNode node = Node($"redis://a:b@127.0.0.1:{broker.Port}", new RedisOptions { OnTrouble = Told });
        await node.StartAsync();
        await Engine.GetLoop(0).PostAsync(() => node.Bus.Subscribe("t.two"));
        await refused.Task.WaitAsync(BusNode.Patience);
        Assert.Contains("NOPERM", told[0], StringComparison.Ordinal);
        Assert.Contains("+@pubsub", told[0], StringComparison.Ordinal);
        await node.SubscribeAsync("t.one");
        Assert.Single(node.States);

        void Told(string text)
        {
            told.Add(text);
            refused.TrySetResult();
        }
    }

    [Fact]
    public async Task Applications_with_another_prefix_receive_nothing()
    {
        RedisBroker broker = await BrokerAsync("");
        BusNode one = Node(broker.Address), two = Node(broker.Address, new RedisOptions { Prefix = "other:" });
        foreach (BusNode node in new[] { one, two })
        {
            await node.StartAsync();
            await node.SubscribeAsync("t.one");
        }

        await one.PublishAsync("t.one", ["x"]);
        await one.UntilHeardAsync("x");
        await two.PublishAsync("t.one", ["last"]);
        await two.UntilHeardAsync("last");
        Assert.Equal(["last"], two.Heard);
    }

    [Fact]
    public async Task A_stalled_subscriber_is_disconnected_by_the_server_and_notified()
    {
        RedisBroker broker = await BrokerAsync("client-output-buffer-limit pubsub 2mb 1mb 1");
        BusNode quick = Node(broker.Address);
        await StallAsync(broker, quick, () => quick.SubscribeAsync("t.end")); // after all of them
    }

    [Fact]
    public async Task A_server_that_comes_back_with_another_password_is_reported_once()
    {
        RedisBroker broker = await BrokerAsync("requirepass b");
        List<string> told = [];
        TaskCompletionSource refused = new(TaskCreationOptions.RunContinuationsAsynchronously);
        BusNode node = Node($"redis://:b@127.0.0.1:{broker.Port}", new RedisOptions { OnTrouble = Told });
        await node.StartAsync();
        await broker.LoseAsync();
        await node.UntilStateAsync(static s => s.Count == 2);
        using RealProgram other = await RealProgram.ServeAsync("redis-server", broker.Port,
            _ => ["--port", $"{broker.Port}", "--bind", "127.0.0.1", "--save", "", "--requirepass", "c"]);
        await refused.Task.WaitAsync(BusNode.Patience);
        Assert.Single(told, static t => t.Contains("does not take these credentials", StringComparison.Ordinal));

        void Told(string text)
        {
            told.Add(text);
            if (text.Contains("credentials", StringComparison.Ordinal)) refused.TrySetResult();
        }
    }

    private sealed class Guest(string answer) : Session
    {
        private bool _hasSaid;

        internal static Guest? Last { get; private set; }

        protected override void OnConnected() => Last = this;

        protected override void OnReceived(ReadOnlySpan<byte> data)
        {
            if (_hasSaid) return;
            _hasSaid = true;
            Send(Encoding.Latin1.GetBytes(answer));
        }
    }
}
