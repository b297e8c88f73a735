using System.Net.Sockets;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using Whimbrel.Clusters;
using Whimbrel.Conformance;
using Whimbrel.Http.Tests.Programs;

namespace Whimbrel.Tests.Nats;

public sealed class NatsTroubleTests : TroubleTests
{
    private const string Info = "INFO {\"max_payload\":1000}\r\n";

    private BusNode Node(string address, NatsOptions? options = null) => NodeOf(new NatsBus(address, options));

    private async Task<NatsBroker> BrokerAsync(string configuration, bool isTls = false) =>
        Keep(await NatsBroker.StartAsync(configuration, isTls));

    private async Task<SaidServer> SaidAsync(string greeting, string answer = "PONG\r\n") =>
        Keep(await SaidServer.StartAsync(Engine, greeting, answer));

    private Task RefusedAsync(string address, NatsOptions? options, params string[] words) =>
        RefusedAsync(Node(address, options), words);

    [Fact]
    public async Task A_broker_that_does_not_listen_is_reported() =>
        await RefusedAsync($"nats://node:secret@127.0.0.1:{RealProgram.FreePort()}", null, "NATS nats://127.0.0.1:",
            "connection refused", "Does the server run there?");

    [Fact]
    public async Task The_name_is_unknown() => await RefusedAsync("nats://nowhere.invalid", null,
        "NATS nats://nowhere.invalid:4222", "unknown", "See the address.");

    [Theory]
    [InlineData("authorization { user: node, password: right }", "node:secret@",
        "does not take these credentials ('Authorization Violation')")]
    [InlineData("authorization { token: right }", "secret@",
        "does not take these credentials ('Authorization Violation')")]
    [InlineData("authorization { user: node, password: right }", "",
        "it requires authentication ('Authorization Violation'): give User and Password, or Token")]
    public async Task The_credentials_are_wrong_or_missing(string configuration, string login, string message)
    {
        NatsBroker broker = await BrokerAsync(configuration);
        await RefusedAsync($"nats://{login}127.0.0.1:{broker.Port}", null, message, "in NatsOptions");
    }

    [Fact]
    public async Task A_server_with_nkeys_only_is_reported()
    {
        NatsBroker broker = await BrokerAsync(
            "authorization { users: [ { nkey: UAAACAQDAQCQMBYIBEFAWDANBYHRAEISCMKBKFQXDAMRUGY4DUPB63NN } ] }");
        await RefusedAsync(broker.Address, null, "nkey");
    }

    [Fact]
    public async Task A_token_and_options_are_used()
    {
        NatsBroker broker = await BrokerAsync("authorization { token: \"to ken\" }");
        await Node($"nats://to%20ken@127.0.0.1:{broker.Port}").StartAsync();
        await Node(broker.Address, new NatsOptions { Token = "to ken" }).StartAsync();
        NatsBroker other = await BrokerAsync("authorization { user: a, password: b }");
        await Node($"nats://x:y@127.0.0.1:{other.Port}", new NatsOptions { User = "a", Password = "b" }).StartAsync();
    }

    [Fact]
    public async Task The_certificate_is_not_trusted_or_for_another_name()
    {
        NatsBroker broker = await BrokerAsync("", isTls: true);
        await RefusedAsync(broker.Address, null, "certificate", "NatsOptions.Tls");
        await RefusedAsync(broker.Address,
            new NatsOptions { Tls = new TlsOptions { Roots = [new X509Certificate2(TestCertificates.OtherRoot)] } },
            "certificate", "NatsOptions.Tls");
        await RefusedAsync(broker.Address,
            new NatsOptions { Tls = new TlsOptions { Roots = TestCertificates.Roots, HostName = "other.test" } },
            "other.test", "NatsOptions.Tls");
    }

    [Fact]
    public async Task A_bus_that_requires_TLS_sends_no_password_to_a_server_without_it()
    {
        SaidServer server = await SaidAsync(Info);
        await RefusedAsync(server.Address, new NatsOptions { Tls = TestCertificates.ClientOptions }, "it offers no TLS",
            "No password was sent");
        await RefusedAsync(server.Address.Replace("nats:", "tls:", StringComparison.Ordinal), null, "it offers no TLS");
        Assert.Equal("", server.Heard);
    }

    [Fact]
    public async Task Data_injected_before_the_handshake_is_refused()
    {
        SaidServer server = await SaidAsync("INFO {\"tls_required\":true}\r\n+OK\r\n");
        await RefusedAsync(server.Address, new NatsOptions { Tls = TestCertificates.ClientOptions }, "TLS");
        Assert.DoesNotContain("CONNECT", server.Heard, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("HTTP/1.1 400 Bad Request\r\n\r\n", "speaks no NATS: 'HTTP/1.1 400 Bad Request'")]
    [InlineData("INFO what\r\n", "its INFO cannot be read")]
    [InlineData("MSG a 1 1\r\nx\r\n", "before it was asked")]
    [InlineData("", "did not greet within 0.2 s")]
    [InlineData("INFO {}\r\n", "did not greet within 0.2 s")]
    [InlineData("-ERR 'maximum connections exceeded'\r\n", "it said 'maximum connections exceeded'")]
    public async Task A_server_that_cannot_serve_is_reported(string greeting, string message)
    {
        SaidServer server = await SaidAsync(greeting, answer: "");
        await RefusedAsync(server.Address, new NatsOptions { ConnectTimeout = TimeSpan.FromSeconds(0.2) }, message,
            "cannot be used");
    }

    [Theory]
    [InlineData("HTTP/1.1 400 Bad Request\r\n\r\n")]
    [InlineData("INFO what\r\n")]
    [InlineData("MSG a 1 1\r\nx\r\n")]
    public async Task An_answer_that_breaks_the_rules_ends_the_connection_as_an_error_of_the_protocol(
        string greeting) =>
        await BrokenAsync(Node((await SaidAsync(greeting, answer: "")).Address, null));

    [Theory]
    [InlineData("PONG\r\nnonsense\r\n", "speaks no NATS: 'nonsense'")]
    [InlineData("PONG\r\n-ERR 'Slow Consumer'\r\n", "it said 'Slow Consumer'")]
    [InlineData("PONG\r\n-ERR 'Stale Connection'\r\n", "it said 'Stale Connection'")]
    public async Task A_failing_open_connection_is_reported_as_lost_with_the_next_state(string answer, string message)
    {
        SaidServer server = await SaidAsync(Info, answer);
        BusNode node = Node(server.Address, new NatsOptions
        {
            Reconnect = new ReconnectPolicy
            {
                InitialDelay = TimeSpan.FromHours(1),
                MaxDelay = TimeSpan.FromHours(1),
                Jitter = false
            }
        });
        await node.Bus.StartAsync(Engine.GetLoop(0), node, TestContext.Current.CancellationToken);
        await node.UntilStateAsync(static s => s.Count == 2);
        Assert.Equal("connected", node.States[0]);
        Assert.Equal($"lost: {message}. Reconnecting (attempt 1, next in 3600.0 s).",
            node.States[1].Replace("what answers there ", "", StringComparison.Ordinal));
    }

    [Fact]
    public async Task A_server_that_falls_silent_is_lost()
    {
        SaidServer server = await SaidAsync(Info, "PONG\r\nPING\r\n");
        BusNode node = Node(server.Address, new NatsOptions { PingInterval = TimeSpan.FromMilliseconds(100) });
        await node.StartAsync();
        await server.FallSilentAsync();
        await node.UntilStateAsync(static s => s.Count >= 2);
        Assert.Contains("it sent nothing for 0.3 s", node.States[1], StringComparison.Ordinal);
        Assert.Contains("PONG", server.Heard, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_payload_that_is_too_large_is_skipped_and_so_are_messages_without_a_subscriber()
    {
        const int Large = NatsBus.MostEnvelopeBytes + 1;
        SaidServer server = await SaidAsync(Info);
        BusNode node = Node(server.Address);
        await node.StartAsync();
        await Engine.GetLoop(0).PostAsync(() => node.Bus.Subscribe("t.one"));
        await server.SayAsync(
            $"MSG t.one 1 {Large}\r\n{new string('x', Large)}\r\nMSG t.one 77 1\r\nx\r\nMSG t.one 1 4\r\nlast\r\n");
        await node.UntilHeardAsync("last");
        Assert.Equal(["last"], node.Heard);
    }

    [Fact]
    public async Task A_denied_operation_is_reported_and_the_rest_continues()
    {
        NatsBroker broker = await BrokerAsync("authorization { users: [ { user: a, password: b, permissions: { "
            + "publish: \"t.one\", subscribe: \"t.one\" } } ] }");
        List<string> told = [];
        TaskCompletionSource twice = new(TaskCreationOptions.RunContinuationsAsynchronously);
        BusNode node = Node($"nats://a:b@127.0.0.1:{broker.Port}", new NatsOptions { OnTrouble = Told });
        await node.StartAsync();
        await Engine.GetLoop(0).PostAsync(() => node.Bus.Subscribe("t.two"));
        await node.OfferAsync("t.three", "x");
        await twice.Task.WaitAsync(BusNode.Patience);
        Assert.Contains("t.two", told[0], StringComparison.Ordinal);
        Assert.Contains("t.three", told[1], StringComparison.Ordinal);
        await node.SubscribeAsync("t.one");
        Assert.Single(node.States);

        void Told(string text)
        {
            told.Add(text);
            if (told.Count == 2) twice.SetResult();
        }
    }

    [Fact]
    public async Task The_largest_envelope_is_the_servers()
    {
        NatsBroker broker = await BrokerAsync("max_payload: 2000");
        BusNode node = Node(broker.Address);
        await node.StartAsync();
        Assert.Equal(2000, node.Bus.MaxEnvelopeBytes);
    }

    [Fact]
    public async Task A_stalled_subscriber_is_disconnected_by_the_server_and_notified()
    {
        NatsBroker broker = await BrokerAsync("max_pending: 2000000\nmax_payload: 1000000\nwrite_deadline: \"200ms\"");
        BusNode other = Node(broker.Address), quick = Node(broker.Address);
        await other.StartAsync();
        await other.SubscribeAsync("t.one");
        await StallAsync(broker, quick, () => other.UntilCountAsync(300));
    }

    [Fact]
    public async Task A_server_that_comes_back_with_another_password_is_reported_once()
    {
        NatsBroker broker = await BrokerAsync("authorization { user: a, password: b }");
        List<string> told = [];
        TaskCompletionSource first = new(TaskCreationOptions.RunContinuationsAsynchronously);
        BusNode node = Node($"nats://a:b@127.0.0.1:{broker.Port}", new NatsOptions { OnTrouble = Told });
        await node.StartAsync();
        await broker.LoseAsync();
        await node.UntilStateAsync(static s => s.Count == 2);
        using RealProgram other = await RealProgram.ServeAsync("nats-server", broker.Port,
            _ => ["-a", "127.0.0.1", "-p", $"{broker.Port}", "--user", "a", "--pass", "c"]);
        await first.Task.WaitAsync(BusNode.Patience);
        Assert.Contains("does not take these credentials", told[^1], StringComparison.Ordinal);

        void Told(string text)
        {
            told.Add(text);
            if (text.Contains("credentials", StringComparison.Ordinal)) first.TrySetResult();
        }
    }

    [Fact]
    public async Task The_same_trouble_is_reported_in_each_outage()
    {
        List<string> told = [];
        SaidServer server = await SaidAsync(Info);
        BusNode node = Node(server.Address, new NatsOptions { OnTrouble = told.Add, Reconnect = s_quick });
        await node.StartAsync();
        for (int outage = 1; outage <= 3; outage++)
        {
            int states = node.States.Count;
            server.Greeting = "-ERR 'maintenance'\r\n";
            await server.LoseAsync();
            await UntilAsync(() => told.Count == outage);
            Assert.Contains("it said 'maintenance'", told[^1], StringComparison.Ordinal);
            server.Greeting = Info;
            await node.UntilStateAsync(s => s.Count == states + 2);
            Assert.Equal("connected", node.States[^1]);
        }
    }

    [Fact]
    public async Task A_refused_reconnect_is_not_reported_with_the_reason_of_the_connection_before()
    {
        List<string> told = [];
        SaidServer server = await SaidAsync(Info);
        BusNode node = Node(server.Address, new NatsOptions { OnTrouble = told.Add, Reconnect = s_quick });
        await node.StartAsync();
        await server.SayAsync("-ERR 'goodbye'\r\n");
        await server.DisposeAsync();
        await UntilAsync(() => told.Count > 0);
        Assert.Contains("it said 'goodbye'", node.States[1], StringComparison.Ordinal);
        Assert.DoesNotContain("goodbye", told[0], StringComparison.Ordinal);
        Assert.Contains("refused", told[0], StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_message_for_a_subscription_of_the_connection_before_is_not_received()
    {
        SaidServer server = await SaidAsync(Info);
        BusNode node = Node(server.Address, new NatsOptions { Reconnect = s_quick });
        await node.StartAsync();
        await Engine.GetLoop(0).PostAsync(() => node.Bus.Subscribe("t.one"));
        await server.SayAsync("MSG t.one 1 1\r\na\r\n");
        await node.UntilHeardAsync("a");
        await server.LoseAsync();
        await node.UntilStateAsync(static s => s is [_, _, .., "connected"]);
        await Engine.GetLoop(0).PostAsync(() => node.Bus.Subscribe("t.one")); // with another number
        await server.SayAsync("MSG t.one 1 1\r\nb\r\nMSG t.one 2 1\r\nc\r\n");
        await node.UntilHeardAsync("c");
        Assert.Equal(["a", "c"], node.Heard);
    }

    [Fact] // it still sends, so that only the limit of sends ends it
    public async Task A_server_that_takes_nothing_is_lost()
    {
        SaidServer server = await SaidAsync(Info, "PONG\r\n");
        BusNode node = Node(server.Address, new NatsOptions { PingInterval = TimeSpan.FromMilliseconds(200) });
        await node.StartAsync();
        await server.FallSilentAsync();
        string large = new('x', 1 << 20);
        while (await node.OfferAsync("t.one", large) == 1)
        {
        }

        Loop loop = Engine.GetLoop(0);
        TimeSpan often = TimeSpan.FromMilliseconds(20);
        LoopTimer talking =
            await loop.PostAsync(() => loop.StartTimer(often, _ => _ = server.SayAsync("+OK\r\n"), null, often));
        await node.UntilStateAsync(static s => s.Count > 1);
        talking.Cancel();
        Assert.Contains("it took nothing for 0.6 s", node.States[1], StringComparison.Ordinal);
    }

    private static readonly ReconnectPolicy s_quick = new()
    {
        InitialDelay = TimeSpan.FromMilliseconds(20),
        MaxDelay = TimeSpan.FromMilliseconds(20)
    };

    private async Task UntilAsync(Func<bool> isSo)
    {
        while (!isSo()) await Engine.GetLoop(0).DelayAsync(TimeSpan.FromMilliseconds(5));
    }

    // ------------------------------------------------------------------ streams

    private async Task<(BusNode Node, NatsBroker Broker)> StreamingAsync(string? store = null)
    {
        NatsBroker broker = Keep(new NatsBroker("", isTls: false) { IsStreaming = true, StoreDirectory = store });
        await broker.RestoreAsync();
        BusNode node = NodeOf(broker.Connect());
        await node.StartAsync();
        return (node, broker);
    }

    // Calls the JetStream API directly, as its own tools do.
    private static async Task<string> AskAsync(NatsBroker broker, string subject, string payload)
    {
        using TcpClient client = new();
        await client.ConnectAsync("127.0.0.1", broker.Port);
        await client.GetStream().WriteAsync(Encoding.ASCII.GetBytes(
            $"CONNECT {{\"verbose\":false}}\r\nSUB reply 1\r\nPUB {subject} reply {payload.Length}\r\n{payload}\r\n"));
        using StreamReader reader = new(client.GetStream());
        while (await reader.ReadLineAsync() is { } line)
        {
            if (line.StartsWith("MSG", StringComparison.Ordinal)) return (await reader.ReadLineAsync())!;
        }

        return "";
    }

    [Fact]
    public async Task A_stream_changed_by_others_has_another_epoch()
    {
        (BusNode node, NatsBroker broker) = await StreamingAsync();
        string name = NatsStream.NameOf("t.one");
        HistoryPage? first = await HistoryAsync(node, "a", "b", "c");
        Assert.Equal("1 3: 1=a 2=b 3=c", Shown(first));

        // One message in the middle is missing.
        Assert.Contains("\"success\":true", await AskAsync(broker, $"$JS.API.STREAM.MSG.DELETE.{name}", "{\"seq\":2}"),
            StringComparison.Ordinal);
        HistoryPage anew = await UntilReadAsync(node);
        Assert.Equal("1 0: ", Shown(anew));
        Assert.NotEqual(first!.Epoch, anew.Epoch);

        // Deleted; then either read or appended to first.
        Assert.Contains("\"success\":true", await AskAsync(broker, $"$JS.API.STREAM.DELETE.{name}", ""),
            StringComparison.Ordinal);
        HistoryPage again = await UntilReadAsync(node);
        Assert.NotEqual(anew.Epoch, again.Epoch);
        Assert.Contains("\"success\":true", await AskAsync(broker, $"$JS.API.STREAM.DELETE.{name}", ""),
            StringComparison.Ordinal);
        Assert.Null(await HistoryAsync(node, "lost"));
        Assert.Equal("1 1: 1=x", Shown(await HistoryAsync(node, "x")));

        // Purged: its messages are trimmed, and their numbers are not used again.
        Assert.Contains("\"success\":true", await AskAsync(broker, $"$JS.API.STREAM.PURGE.{name}", ""),
            StringComparison.Ordinal);
        Assert.Equal("2 2: 2=y", Shown(await HistoryAsync(node, "y")));
    }

    [Fact]
    public async Task Reduced_limits_apply_to_existing_entries()
    {
        (BusNode node, _) = await StreamingAsync();
        Assert.Equal(50,
            (await HistoryAsync(node, [.. Enumerable.Range(1, 50).Select(static n => $"{n}")]))!.Entries.Count);
        Assert.Equal("49 50: 49=49 50=50", Shown(await HistoryAsync(node, new HistoryLimits { MaxCount = 2 })));
    }

    // Another node created the same stream at that moment, and the server responds with this instead of the stream.
    [Fact]
    public async Task A_stream_that_overlaps_for_a_moment_is_requested_again()
    {
        const string Overlaps = "{\"error\":{\"code\":400,\"err_code\":10065,\"description\":\"subjects overlap with "
            + "an existing stream\"}}";
        List<string> told = [];
        SaidServer server = await SaidAsync(Info);
        BusNode node = Node(server.Address, new NatsOptions { OnTrouble = told.Add });
        await node.StartAsync();
        foreach (string reply in (string[])[Overlaps, Overlaps,
            "{\"created\":\"2026-01-01T00:00:00Z\",\"state\":{\"messages\":0,\"first_seq\":0,\"last_seq\":0}}"])
            server.Reply(reply);
        Assert.Equal("1 0: ", Shown(await HistoryAsync(node)));
        Assert.Empty(told);
        Assert.Equal(3, server.Heard.Split("$JS.API.STREAM.CREATE").Length - 1);
    }

    [Fact]
    public async Task A_foreign_stream_on_the_same_subject_is_reported_and_nothing_is_kept()
    {
        List<string> told = [];
        NatsBroker broker = Keep(new NatsBroker("", isTls: false) { IsStreaming = true });
        await broker.RestoreAsync();
        BusNode node = Node(broker.Address, new NatsOptions { OnTrouble = told.Add });
        await node.StartAsync();
        Assert.Contains("\"did_create\":true", await AskAsync(broker, "$JS.API.STREAM.CREATE.other",
            $"{{\"name\":\"other\",\"subjects\":[\"{NatsStream.SubjectOf("t.one")}\"]}}"), StringComparison.Ordinal);
        Assert.Null(await HistoryAsync(node, "x"));
        Assert.Contains("a stream for t.one: its subjects are those of another stream", Assert.Single(told),
            StringComparison.Ordinal);
    }

    // Accepted messages may be lost with the server, and their offsets would be used again.
    [Fact]
    public async Task A_server_restarted_with_its_store_starts_its_streams_again()
    {
        DirectoryInfo kept = Directory.CreateTempSubdirectory("whimbrel-nats");
        try
        {
            (BusNode node, NatsBroker broker) = await StreamingAsync(kept.FullName);
            HistoryPage? before = await HistoryAsync(node, "x");
            await broker.LoseAsync();
            await node.UntilStateAsync(static s => s.Count >= 2);
            await broker.RestoreAsync();
            await node.UntilStateAsync(static s => s is [_, _, .., "connected"]);
            HistoryPage after = await UntilReadAsync(node);
            Assert.Equal("1 0: ", Shown(after));
            Assert.NotEqual(before!.Epoch, after.Epoch);
        }
        finally
        {
            kept.Delete(true);
        }
    }

    [Fact]
    public async Task Recoverable_groups_need_JetStream_on_a_single_server_and_the_refusal_names_that()
    {
        List<string> told = [];
        NatsBroker broker = await BrokerAsync("");
        BusNode without = Node(broker.Address, new NatsOptions { OnTrouble = told.Add });
        await without.StartAsync();
        Assert.Null(await HistoryAsync(without, "x"));
        Assert.Null(await HistoryAsync(without));
        Assert.Contains("it has no JetStream, which recoverable groups need: jetstream {} in its configuration",
            Assert.Single(told), StringComparison.Ordinal);
        Assert.NotNull(((NatsBus)without.Bus).Unsupported);

        SaidServer clustered = await SaidAsync("INFO {\"max_payload\":1000,\"cluster\":\"c\"}\r\n");
        BusNode one = Node(clustered.Address, new NatsOptions { OnTrouble = told.Add });
        await one.StartAsync();
        Assert.Null(await HistoryAsync(one, "x"));
        Assert.Contains("not built for clusters of NATS servers", told[^1], StringComparison.Ordinal);
        Assert.Equal(2, told.Count);

        await broker.LoseAsync();
        await without.UntilStateAsync(static s => s.Count == 2);
        Assert.Null(((NatsBus)without.Bus).Unsupported); // the next server may have it
    }

    [Fact] // each within its own time, also the younger of two that wait
    public async Task Requests_without_an_answer_time_out_one_after_the_other()
    {
        SaidServer silent = await SaidAsync(Info);
        BusNode node = Node(silent.Address,
            new NatsOptions { ConnectTimeout = TimeSpan.FromSeconds(1), PingInterval = TimeSpan.FromHours(1) });
        await node.StartAsync();
        for (int time = 0; time < 2; time++)
        {
            Task<TimeSpan> first = TimeAsync("x");
            await Engine.GetLoop(0).DelayAsync(TimeSpan.FromMilliseconds(400));
            Task<TimeSpan> second = TimeAsync();
            foreach (TimeSpan took in await Task.WhenAll(first, second))
                Assert.InRange(took, TimeSpan.FromSeconds(0.99), TimeSpan.FromSeconds(3));
        }

        Assert.Equal(["connected"], node.States);

        async Task<TimeSpan> TimeAsync(params string[] texts)
        {
            long began = System.Diagnostics.Stopwatch.GetTimestamp();
            Assert.Null(await HistoryAsync(node, texts));
            return System.Diagnostics.Stopwatch.GetElapsedTime(began);
        }
    }
}
