using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Options;
using Whimbrel.Conformance;
using Whimbrel.Http;

namespace Whimbrel.Hosting.Tests;

/// <summary>Servers in a real host: sources of their options, creation of their sessions, start and stop.</summary>
public sealed class HostTests
{
    private const string AnyPort = "tcp://127.0.0.1:0";

    [Fact]
    public async Task A_server_listens_where_its_section_says_and_its_sessions_have_services()
    {
        await using TestHost host = new(static s => s.AddSingleton<Greeting>().AddWhimbrelServer<Echo>("Chat"),
            ("Chat:Address", AnyPort));
        await host.StartAsync();
        Assert.Equal("hello you", await TestHost.AskAsync((await host.ConnectAsync()).GetStream(), "you", 9));
        Assert.True(host.Log.Has("Whimbrel.Server.Chat Information 100 Chat listens at 127.0.0.1:"));
        Task stop = host.StopAsync();
        await host.HangUpAsync();
        await stop.WaitAsync(TestHost.Patience);
        Assert.False(host.Server().IsAccepting);
        Assert.True(host.Log.Has("101 Chat has stopped: 1 drained, 0 aborted"));
    }

    [Fact]
    public async Task The_configuration_wins_over_what_the_program_says_and_what_it_does_not_say_stays()
    {
        await using TestHost host = new(
            static s => s.AddSingleton<Greeting>().AddWhimbrelServer<Echo>("Chat", static _ =>
                new ServerOptions
                {
                    Address = "tcp://127.0.0.1:1",
                    Limits = new() { Connections = 7 },
                    Socket = new() { Backlog = 9 },
                    State = "kept"
                }),
            ("Chat:Addresses:0", AnyPort), ("Chat:Addresses:1", "tcp://localhost:0"), ("Chat:Socket:Backlog", "11"),
            ("Chat:Limits:SlowConsumer", "wait"), ("Chat:Timeouts:Idle", "00:05:00"));
        ServerOptions options = host.Server().Options;
        Assert.Equal((7, 11, SlowConsumer.Wait, TimeSpan.FromMinutes(5), "kept"),
            (options.Limits.Connections, options.Socket.Backlog, options.Limits.SlowConsumer, options.Timeouts.Idle,
                options.State));
        await host.StartAsync();
        Assert.Equal(2, host.Server().EndPoints.Count);
    }

    [Fact]
    public async Task All_mistakes_of_all_servers_are_reported_at_once_with_their_paths_before_anything_starts()
    {
        await using TestHost host = new(
            static s => s.AddSingleton<Greeting>().AddWhimbrelServer<Echo>("Chat").AddWhimbrelServer<Echo>("Admin")
                .AddWhimbrelServer<Echo>("Good"),
            ("Chat:Port", "70000"), ("Chat:Socket:Backlog", "0"), ("Chat:Limits:Connection", "5"),
            ("Chat:Socket:NoDelay", "perhaps"),
            ("Chat:Timeouts:Idle", "5"), ("Chat:Accept:Placement", "3"), ("Chat:Tls:CertificatePath", "no/such.pem"),
            ("Chat:Tls:MaxSilent", "0"),
            ("Admin:Limits:SendBytes", "99999999999"), ("Good:Address", AnyPort));
        OptionsValidationException thrown = await Assert.ThrowsAsync<OptionsValidationException>(host.StartAsync);
        string[] told = [.. thrown.Failures];
        string[] expected =
        [
            "Chat:Tls:CertificatePath: ", "Chat:Port: 70000 is not a port (0 to 65535)",
            "Chat:Accept:Placement: '3' is none of Auto, RoundRobin",
            "Chat:Limits:Connection: there is no such option: Connections is meant, perhaps",
            "Chat:Socket:NoDelay: 'perhaps' is neither true nor false",
            "Chat:Timeouts:Idle: '5' is no time; five minutes are 00:05:00",
            "Chat:Socket:Backlog = 0, allowed 1 to 65535", "Chat:Tls:MaxSilent = 0, allowed 1 to 1000000",
            "Admin:Address: is missing, for example tcp://*:1111",
            "Admin:Limits:SendBytes: '99999999999' is no whole number from",
        ];
        Assert.Equal(expected.Length, told.Length);
        for (int i = 0; i < expected.Length; i++) Assert.StartsWith(expected[i], told[i], StringComparison.Ordinal);
        Assert.EndsWith("such.pem does not exist. Create one: whimbrel certs", told[0], StringComparison.Ordinal);
        Assert.Null(host.Server("Good").EndPoint);
    }

    [Fact]
    public async Task A_key_of_the_flat_form_names_the_new_one()
    {
        await using TestHost host = new(static s => s.AddSingleton<Greeting>().AddWhimbrelServer<Echo>("Chat"),
            ("Chat:Address", AnyPort), ("Chat:SendLimitBytes", "65536"), ("Chat:maxConnections", "5"),
            ("Chat:Backlog", "11"), ("Chat:DrainLimit", "00:01:00"), ("Chat:AcceptScheme", "OneListener"),
            ("Chat:Limits", "5"));
        OptionsValidationException thrown = await Assert.ThrowsAsync<OptionsValidationException>(host.StartAsync);
        Assert.Equal(
            [
                "Chat:AcceptScheme: there is no such option here: write Chat:Accept:Scheme",
                "Chat:Backlog: there is no such option here: write Chat:Socket:Backlog",
                "Chat:DrainLimit: there is no such option here: write Chat:Timeouts:DrainTotal",
                "Chat:Limits: '5' is a value, and Limits is a section: write Chat:Limits:NAME",
                "Chat:maxConnections: there is no such option here: write Chat:Limits:Connections",
                "Chat:SendLimitBytes: there is no such option here: write Chat:Limits:SendBytes",
            ],
            thrown.Failures.Order(StringComparer.OrdinalIgnoreCase));
    }

    [Fact]
    public async Task Mistakes_of_engine_servers_nodes_checks_and_sessions_are_reported_at_once()
    {
        await using TestHost host = new(
            static s =>
            {
                s.AddScoped<Visits>();
                s.AddWhimbrelServer<Echo>("Chat").AddWhimbrelServer<Visitor>("Far").AddWhimbrelCluster("Far")
                    .AddWhimbrelServer<Torn>("Torn").AddWhimbrelServer<Shared>("Shared");
                s.AddHealthChecks().AddWhimbrelServer("Gone");
            },
            ("Whimbrel:Loops", "1000"), ("Chat:Address", AnyPort), ("Chat:Socket:Backlog", "0"),
            ("Far:Address", AnyPort), ("Far:Cluster:Queue", "5"), ("Far:Cluster:Application", "room"),
            ("Far:Cluster:Address", "carrier-pigeon://roof"),
            ("Torn:Address", AnyPort), ("Shared:Address", AnyPort));
        string[] told = [.. (await Assert.ThrowsAsync<OptionsValidationException>(host.StartAsync)).Failures];
        string[] expected =
        [
            "Whimbrel:Loops = 1000, allowed 0 to 256",
            "Chat:Socket:Backlog = 0, allowed 1 to 65535",
            "Chat: Echo asks for Greeting greeting in its constructor, and no "
                + "such service is registered: builder.Services.AddSingleton<Greeting>()",
            "Far:Cluster:Queue: there is no such option",
            "Far:Cluster:Address: No bus is registered for carrier-pigeon://",
            "Far: Visitor asks for Visit visit in its constructor, and no such service",
            "Torn: Torn has 2 public constructors: leave one",
            "Shared: Shared asks for Visits visits in its constructor, and that is a service of scopes",
            "AddHealthChecks().AddWhimbrelServer(\"Gone\"): there is no server of this name",
        ];
        Assert.Equal(expected.Length, told.Length);
        for (int i = 0; i < expected.Length; i++) Assert.StartsWith(expected[i], told[i], StringComparison.Ordinal);
    }

    [Fact]
    public async Task Sizes_and_times_may_have_units_and_invalid_ones_are_named()
    {
        ServerOptions? read = null;
        await using TestHost host = new(
            s => s.AddWhimbrelServer("Chat", (_, options) =>
            {
                read = options;
                return new Server(options, static () => new Bulk());
            }),
            ("Chat:Address", AnyPort), ("Chat:Limits:SendBytes", "1.5 MiB"), ("Chat:Limits:UnreadBytes", "300000"),
            ("Chat:Timeouts:Idle", "2m30s"), ("Chat:Timeouts:Send", "250 ms"), ("Chat:Timeouts:Receive", "00:00:07"));
        await host.StartAsync();
        Assert.Equal((1_572_864, 300_000), (read!.Limits.SendBytes, read.Limits.UnreadBytes));
        Assert.Equal((TimeSpan.FromSeconds(150), TimeSpan.FromMilliseconds(250), TimeSpan.FromSeconds(7)),
            (read.Timeouts.Idle, read.Timeouts.Send, read.Timeouts.Receive));

        await using TestHost wrong = new(
            static s => s.AddWhimbrelServer<Bulk>("Chat"),
            ("Chat:Address", AnyPort), ("Chat:Socket:Backlog", "1 KiB"), ("Chat:Limits:SendBytes", "1 mib"),
            ("Chat:Limits:UnreadBytes", "3 GiB"), ("Chat:Timeouts:Idle", "30 sec"), ("Chat:Timeouts:Send", "30"));
        string[] told = [.. (await Assert.ThrowsAsync<OptionsValidationException>(wrong.StartAsync)).Failures];
        Assert.Equal(5, told.Length);
        string[] expected =
        [
            "Chat:Socket:Backlog: '1 KiB' is no whole number from -2147483648 to 2147483647",
            "Chat:Limits:SendBytes: '1 mib' is no whole number from -2147483648 to 2147483647, and no size "
            + "in that range "
            + "such as 64 KiB or 1.5 MiB",
            "Chat:Limits:UnreadBytes: '3 GiB' is no whole number from -2147483648 to 2147483647, and no size in that "
            + "range such as 64 KiB or 1.5 MiB",
            "Chat:Timeouts:Idle: '30 sec' is no time; five minutes are 00:05:00 or 5m, a tenth of a second is "
            + "00:00:00.1 or 100 ms",
            "Chat:Timeouts:Send: '30' is no time; five minutes are 00:05:00 or 5m, a tenth of a second is "
            + "00:00:00.1 or 100 ms",
        ];
        foreach (string each in expected) Assert.Contains(each, told);
    }

    [Fact]
    public async Task Mistakes_of_the_engine_and_of_addresses_are_reported_too()
    {
        await using TestHost engine = new(static s => s.AddWhimbrelServer<Bulk>("Chat"), ("Whimbrel:Loops", "1000"),
            ("Whimbrel:Kind", "fast"), ("Whimbrel:Cpus:0", "first"), ("Chat:Address", AnyPort));
        string[] told = [.. (await Assert.ThrowsAsync<OptionsValidationException>(engine.StartAsync)).Failures];
        Assert.Equal(["Whimbrel:Kind: 'fast' is none of Auto, Uring, Epoll, Portable",
            "Whimbrel:Cpus: 'first' is no number of a cpu", "Whimbrel:Loops = 1000, allowed 0 to 256"], told);

        await using TestHost addresses = new(
            static s => s.AddWhimbrelServer<Bulk>("A").AddWhimbrelServer<Bulk>("B").AddWhimbrelServer<Bulk>("C")
                .AddWhimbrelServer<Bulk>("D"),
            ("A:Address", "tcp://1.2.3.4:99999"), ("B:Addresses:0", "tcp://example.org:1"),
            ("B:Addresses:1", "tls://*:1"), ("B:Addresses:2", "udp://*:1"), ("C:Address", AnyPort), ("C:Port", "1"),
            ("D:Address", "tls://127.0.0.1:0"));
        told = [.. (await Assert.ThrowsAsync<OptionsValidationException>(addresses.StartAsync)).Failures];
        Assert.Equal(6, told.Length);
        Assert.StartsWith("A:Address: the port is 99999", told[0].Replace("'tcp://1.2.3.4:99999' is no address: ", "",
            StringComparison.Ordinal), StringComparison.Ordinal);
        Assert.StartsWith("B:Addresses:0: 'tcp://example.org:1' names a host", told[1], StringComparison.Ordinal);
        Assert.StartsWith("B:Addresses:1: wants TLS", told[2], StringComparison.Ordinal);
        Assert.StartsWith("B:Addresses:2: ", told[3], StringComparison.Ordinal);
        Assert.Equal("C:Address: give one of Address, Addresses and Port", told[4]);
        Assert.StartsWith("D:Address = tls://127.0.0.1:0, but Tls is missing", told[5], StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_port_that_is_taken_fails_the_host_with_the_cores_message_and_what_had_started_is_stopped()
    {
        using TcpListener taken = new(IPAddress.Loopback, 0);
        taken.Start();
        await using TestHost host = new(static s => s.AddWhimbrelServer<Bulk>("First").AddWhimbrelServer<Bulk>("Chat"),
            ("First:Address", AnyPort), ("Chat:Address", $"tcp://{taken.LocalEndpoint}"));
        NetworkException thrown = await Assert.ThrowsAsync<NetworkException>(host.StartAsync);
        Assert.Contains($"{taken.LocalEndpoint}", thrown.Message, StringComparison.Ordinal);
        Assert.NotNull(host.Server("First").StartedAt);
        Assert.False(host.Server("First").IsAccepting);
    }

    [Fact]
    public async Task Servers_share_the_engine_of_the_host_and_one_that_the_program_makes_is_served_too()
    {
        await using TestHost host = new(
            static s => s.AddSingleton<Greeting>().AddWhimbrelServer<Echo>("Chat")
                .AddWhimbrelServer("Web", static (services, options) =>
                {
                    HttpServer server = new(options);
                    server.Get("/", (_, response) => response.Text(services.GetRequiredService<Greeting>().Text));
                    return server;
                }),
            ("Chat:Address", AnyPort), ("Web:Address", AnyPort));
        await host.StartAsync();
        Assert.Same(host.Server().Engine, host.Server("Web").Engine);
        Assert.Equal(1, host.Server().Engine.LoopCount);
        string answer = await TestHost.AskAsync((await host.ConnectAsync("Web")).GetStream(),
            "GET / HTTP/1.1\r\nHost: here\r\n\r\n", 15);
        Assert.Equal("HTTP/1.1 200 OK", answer);
        Assert.Throws<InvalidOperationException>(() => new ServiceCollection().AddWhimbrelServer<Echo>("Chat")
            .AddWhimbrelServer<Bulk>("Chat"));
    }

    [Fact]
    public async Task A_certificate_with_a_password_is_read_from_the_paths_of_the_configuration()
    {
        string folder = Directory.CreateTempSubdirectory("whimbrel-hosting-").FullName;
        try
        {
            string certificate = Path.Combine(folder, "server.pem"), key = Path.Combine(folder, "server.key");
            await File.WriteAllTextAsync(certificate, TestCertificates.Server.ExportCertificatePem(),
                TestContext.Current.CancellationToken);
            using (ECDsa secret = TestCertificates.Server.GetECDsaPrivateKey()!)
            {
                await File.WriteAllTextAsync(key, secret.ExportEncryptedPkcs8PrivateKeyPem("open",
                    new PbeParameters(PbeEncryptionAlgorithm.Aes256Cbc, HashAlgorithmName.SHA256, 1000)),
                    TestContext.Current.CancellationToken);
            }

            (string, string?)[] settings = [("Chat:Address", "tls://127.0.0.1:0"),
                ("Chat:Tls:CertificatePath", certificate), ("Chat:Tls:KeyPath", key), ("Chat:Tls:Password", "open")];
            await using TestHost host = new(static s => s.AddSingleton<Greeting>().AddWhimbrelServer<Echo>("Chat"),
                settings);
            await host.StartAsync();
            await using SslStream secure = new((await host.ConnectAsync()).GetStream(), false,
                static (_, shown, _, _) => shown!.GetCertHashString() == TestCertificates.Server.GetCertHashString());
            await secure.AuthenticateAsClientAsync("chat.test");
            Assert.Equal("hello you", await TestHost.AskAsync(secure, "you", 9));

            settings[3] = ("Chat:Tls:Password", "guess");
            await using TestHost wrong = new(static s => s.AddSingleton<Greeting>().AddWhimbrelServer<Echo>("Chat"),
                settings);
            string told =
                Assert.Single((await Assert.ThrowsAsync<OptionsValidationException>(wrong.StartAsync)).Failures);
            Assert.StartsWith($"Chat:Tls:CertificatePath: {certificate} cannot be loaded: ", told,
                StringComparison.Ordinal);
        }
        finally
        {
            Directory.Delete(folder, recursive: true);
        }
    }

    // ------------------------------------------------------------------ scopes

    [Fact]
    public async Task Each_session_has_a_scope_that_ends_once_and_not_on_a_loop_when_the_session_has_ended()
    {
        await using TestHost host = Visited<Visitor>();
        await host.StartAsync();
        Visits visits = host.Services.GetRequiredService<Visits>();
        TcpClient first = await host.ConnectAsync(), second = await host.ConnectAsync();
        Assert.Equal("1", await TestHost.AskAsync(first.GetStream(), "?", 1));
        Assert.Equal("2", await TestHost.AskAsync(second.GetStream(), "?", 1));
        Assert.Equal(0, visits.Ended);
        second.Dispose();
        await TestHost.UntilAsync(() => visits.Ended == 1, "the scope of the one that has gone");
        Assert.Equal("1", await TestHost.AskAsync(first.GetStream(), "?", 1));

        // The session ends, and the connection stays open.
        Assert.Equal("next", await TestHost.AskAsync(first.GetStream(), "hand", 4));
        await TestHost.UntilAsync(() => visits.Ended == 2, "the scope of the one that handed over");

        TcpClient third = await host.ConnectAsync();
        visits.Throws = true;
        await third.GetStream().WriteAsync("throw"u8.ToArray(), TestContext.Current.CancellationToken);
        await TestHost.UntilAsync(
            () => host.Log.Has("105 The scope of a session of Chat threw when it was disposed (no farewell)"),
            "the scope that throws");
        Assert.False(visits.WasOnLoop);
        Assert.False(visits.WasTwice);
        Assert.Equal((3, 3), (visits.Begun, visits.Ended));
    }

    [Fact]
    public async Task A_session_that_cannot_be_created_leaves_no_scope_open()
    {
        await using TestHost host = Visited<Unmade>();
        await host.StartAsync();
        Visits visits = host.Services.GetRequiredService<Visits>();
        await host.ConnectAsync();
        await TestHost.UntilAsync(() => visits.Ended == 1, "the end of its scope");
        await TestHost.UntilAsync(() => host.Log.Has("visit 1 is not welcome"), "the notice");
        Assert.False(visits.WasTwice);
    }

    [Fact]
    public async Task A_stop_waits_for_the_scopes()
    {
        await using TestHost host = Visited<Visitor>();
        await host.StartAsync();
        Visits visits = host.Services.GetRequiredService<Visits>();
        Assert.Equal("1", await TestHost.AskAsync((await host.ConnectAsync()).GetStream(), "?", 1));
        visits.Gate = new TaskCompletionSource();
        Task stop = host.StopAsync();
        await host.HangUpAsync();
        await TestHost.UntilAsync(() => host.Log.Has("101 Chat has stopped"), "the end of the sessions");
        Assert.False(stop.IsCompleted);
        visits.Gate.SetResult();
        await stop.WaitAsync(TestHost.Patience);
        Assert.Equal(1, visits.Ended);
    }

    // ------------------------------------------------------------------ stop

    [Fact]
    public async Task A_response_in_progress_arrives_whole_when_the_host_stops()
    {
        await using TestHost host = new(static s => s.AddWhimbrelServer<Bulk>("Chat"), ("Chat:Address", AnyPort),
            ("Chat:Limits:SendBytes", "33554432"));
        await host.StartAsync();
        using TcpClient client = await host.ConnectAsync();
        NetworkStream stream = client.GetStream();
        byte[] buffer = new byte[64 * 1024];
        long received = await stream.ReadAsync(buffer, TestContext.Current.CancellationToken);
        Task stop = host.StopAsync();
        await TestHost.UntilAsync(() => !host.Server().IsAccepting, "the stop to begin");
        Assert.False(stop.IsCompleted);
        for (int count; (count = await stream.ReadAsync(buffer, TestContext.Current.CancellationToken)) > 0;)
            received += count;
        Assert.Equal(Bulk.Bytes, received);
        client.Dispose();
        await stop.WaitAsync(TestHost.Patience);
        Assert.True(host.Log.Has("Chat has stopped: 1 drained, 0 aborted"));
    }

    [Fact]
    public async Task After_the_hosts_shutdown_timeout_open_connections_are_reset_on_all_servers_at_once()
    {
        await using TestHost host = new(static s => s.AddWhimbrelServer<Stubborn>("Chat")
            .AddWhimbrelServer<Stubborn>("Other"), ("Chat:Address", AnyPort), ("Other:Address", AnyPort));
        await host.StartAsync();
        await host.ConnectAsync();
        await host.ConnectAsync("Other");
        await TestHost.UntilAsync(() => host.Server().SessionCount == 1 && host.Server("Other").SessionCount == 1,
            "both sessions");
        using CancellationTokenSource patience = new();
        Task stop = host.StopAsync(patience.Token);
        await TestHost.UntilAsync(() => !host.Server().IsAccepting && !host.Server("Other").IsAccepting,
            "both stops to begin");
        await patience.CancelAsync();
        await Record.ExceptionAsync(() => stop.WaitAsync(TestHost.Patience));
        await TestHost.UntilAsync(() => host.Log.Has("Chat has stopped: 0 drained, 1 aborted")
            && host.Log.Has("Other has stopped: 0 drained, 1 aborted"), "both reports");
    }

    private static TestHost Visited<TSession>()
        where TSession : Session =>
        new(static s => s.AddSingleton<Visits>().AddScoped<Visit>()
            .AddWhimbrelServer<TSession>("Chat", scopePerSession: true), ("Chat:Address", AnyPort));
}
