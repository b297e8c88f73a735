using System.Buffers;
using System.Diagnostics;
using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Cryptography;
using System.Text;
using Whimbrel.Conformance;

namespace Whimbrel.Relays.Tests;

// A relay between real sockets: choice of the target, transferred data, and ends of connections.
public sealed partial class RelayTests
{
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(30);

    private static CancellationToken Stop => TestContext.Current.CancellationToken;

    public static TheoryData<EngineKind, Scheduling> Engines => new MatrixTheoryData<EngineKind, Scheduling>(
        [EngineKind.Uring, EngineKind.Epoll, EngineKind.Portable], Enum.GetValues<Scheduling>());

    private static Engine NewEngine(EngineKind kind)
    {
        EngineSupport support = Engine.SupportFor(kind);
        Assert.SkipUnless(support.IsAvailable, support.Reason);
        return new Engine(new EngineOptions { Kind = kind, Loops = 2 });
    }

    private static ServerOptions Anywhere(Engine? engine = null, Scheduling scheduling = Scheduling.Inline) =>
        new() { Engine = engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0), Scheduling = scheduling };

    private static async Task<Socket> ConnectAsync(Relay relay)
    {
        Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        await socket.ConnectAsync(relay.Server.EndPoint!, Stop);
        return socket;
    }

    // The reset may arrive during the connect.
    private static Task<SocketException> AssertResetAsync(Relay relay) =>
        Assert.ThrowsAsync<SocketException>(async () =>
        {
            using Socket client = await ConnectAsync(relay);
            await client.ReceiveAsync(new byte[1], Stop).AsTask().WaitAsync(s_patience, Stop);
        });

    private static TcpListener Listen()
    {
        TcpListener listener = new(IPAddress.Loopback, 0);
        listener.Start();
        return listener;
    }

    private static string NameOf(TcpListener listener) => $"tcp://{listener.LocalEndpoint}";

    private static async Task<byte[]> ReadAllAsync(Socket socket)
    {
        using MemoryStream all = new();
        byte[] block = new byte[65536];
        for (int count; (count = await socket.ReceiveAsync(block, Stop).AsTask().WaitAsync(s_patience, Stop)) > 0;)
            all.Write(block, 0, count);
        return all.ToArray();
    }

    // Polls counters of other threads, which raise no event.
    private static async Task UntilAsync(Func<bool> condition, string what)
    {
        for (long start = Environment.TickCount64; !condition();)
        {
            Assert.True(Environment.TickCount64 - start < s_patience.TotalMilliseconds, $"waited for {what}");
            await Task.Delay(5, Stop); // tidy: waits because counters raise no event
        }
    }

    [Theory]
    [InlineData("tcp://127.0.0.1:5000", "tcp://127.0.0.1:5000", true)]
    [InlineData("tcp://*:5000", "tcp://127.0.0.1:5000", true)]
    [InlineData("tcp://127.0.0.1:5000", "tcp://localhost:5000", true)]
    [InlineData("tcp://127.0.0.1:5000", "tcp://127.0.0.2:5000", false)]
    [InlineData("tcp://127.0.0.1:5000", "tcp://127.0.0.1:5001", false)]
    [InlineData("tcp://*:5000", "tcp://192.0.2.1:5000", false)]
    public async Task A_target_that_is_the_relay_itself_is_refused(string listen, string target, bool isRefused)
    {
        RelayOptions options = new() { Targets = [target] };
        if (isRefused)
            Assert.Contains("itself listens", Assert.Throws<ArgumentException>(
                () => new Relay(new ServerOptions { Address = listen }, options)).Message, StringComparison.Ordinal);
        else await new Relay(new ServerOptions { Address = listen }, options).DisposeAsync();
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public async Task Each_byte_goes_both_ways_and_each_end_is_passed_on_alone(EngineKind kind, Scheduling scheduling)
    {
        await using Engine engine = NewEngine(kind);
        using TcpListener target = Listen();
        await using Relay relay = new(Anywhere(engine, scheduling), new RelayOptions { Targets = [NameOf(target)] });
        await relay.StartAsync();
        using Socket client = await ConnectAsync(relay);
        byte[] up = RandomNumberGenerator.GetBytes(8 << 20), down = RandomNumberGenerator.GetBytes(8 << 20);

        // The client has sent everything and its FIN before the target accepts.
        Task sent = Task.Run(async () =>
        {
            await client.SendAsync(up, Stop);
            client.Shutdown(SocketShutdown.Send);
        }, Stop);
        using Socket served = await target.AcceptSocketAsync(Stop).AsTask().WaitAsync(s_patience, Stop);
        Assert.Equal(up, await ReadAllAsync(served));
        await sent;

        // The other direction is still open.
        Task answered = Task.Run(async () =>
        {
            await served.SendAsync(down, Stop);
            served.Shutdown(SocketShutdown.Send);
        }, Stop);
        Assert.Equal(down, await ReadAllAsync(client));
        await answered;
        await UntilAsync(() => relay.Targets[0].OpenConnections == 0, "the connection to end");
        Assert.Equal((up.Length, down.Length, 1L),
            (relay.Targets[0].BytesToTarget, relay.Targets[0].BytesFromTarget, relay.Targets[0].Connections));
    }

    [Fact]
    public async Task A_reset_on_one_side_is_one_on_the_other()
    {
        using TcpListener target = Listen();
        await using Relay relay = new(Anywhere(), new RelayOptions { Targets = [NameOf(target)] });
        await relay.StartAsync();
        foreach (bool byClient in (bool[])[true, false])
        {
            using Socket client = await ConnectAsync(relay);
            using Socket served = await target.AcceptSocketAsync(Stop).AsTask().WaitAsync(s_patience, Stop);
            await client.SendAsync("x"u8.ToArray(), Stop);
            Assert.Equal(1, await served.ReceiveAsync(new byte[1], Stop).AsTask().WaitAsync(s_patience, Stop));
            (Socket resets, Socket other) = byClient ? (client, served) : (served, client);
            resets.LingerState = new LingerOption(true, 0);
            resets.Close();
            Task<int> read = other.ReceiveAsync(new byte[1], Stop).AsTask().WaitAsync(s_patience, Stop);
            if (byClient) await Assert.ThrowsAsync<SocketException>(() => read);
            else Assert.True(await read.ContinueWith(static r => r.IsFaulted || r.Result == 0, Stop));
        }

        await UntilAsync(() => relay.Targets[0].OpenConnections == 0, "the connections to end");
    }

    [Fact]
    public async Task The_target_with_the_fewest_connections_is_next_and_one_that_is_down_is_left_out()
    {
        using TcpListener first = Listen(), second = Listen();
        TcpListener gone = Listen();
        string goneName = NameOf(gone);
        gone.Stop();
        List<string> changes = [];
        RelayOptions options = new()
        {
            Targets = [NameOf(first), goneName, NameOf(second)],
            RetryAfter = TimeSpan.FromHours(1),
            OnTargetChanged = target =>
            {
                lock (changes) changes.Add($"{target.Address} {target.IsUp}");
                throw new FormatException("a log that fails");
            },
        };
        await using Relay relay = new(Anywhere(), options);
        await relay.StartAsync();
        List<Socket> clients = [];
        for (int i = 0; i < 10; i++)
        {
            int count = i + 1;
            clients.Add(await ConnectAsync(relay));
            await UntilAsync(() => relay.Targets[0].Connections + relay.Targets[2].Connections == count,
                "the next connection");
        }

        Assert.Equal((5, 0, 5),
            (relay.Targets[0].OpenConnections, relay.Targets[1].OpenConnections, relay.Targets[2].OpenConnections));
        Assert.Equal((1L, 0L, false), (relay.Targets[1].Failures, relay.Targets[1].Connections, relay.Targets[1].IsUp));
        Assert.Equal([$"{goneName} False"], changes);
        Assert.Equal(0, relay.Unserved);
        foreach (Socket client in clients) client.Dispose();
    }

    [Fact]
    public async Task A_target_that_was_down_is_asked_again_and_is_up_again()
    {
        TcpListener target = Listen();
        int port = ((IPEndPoint)target.LocalEndpoint).Port;
        target.Stop();
        await using Relay relay = new(Anywhere(),
            new RelayOptions { Targets = [$"tcp://127.0.0.1:{port}"], RetryAfter = TimeSpan.FromHours(1) });
        await relay.StartAsync();
        // No other target: it is tried during its rest, and the client is reset when the connect fails.
        await AssertResetAsync(relay);
        await UntilAsync(() => relay.Targets[0] is { OpenConnections: 0, IsUp: false }, "the failure");
        Assert.Equal(1, relay.Unserved);
        using TcpListener again = new(IPAddress.Loopback, port);
        again.Start();
        using Socket next = await ConnectAsync(relay);
        using Socket served = await again.AcceptSocketAsync(Stop).AsTask().WaitAsync(s_patience, Stop);
        await UntilAsync(() => relay.Targets[0] is { OpenConnections: 1, IsUp: true }, "the target to be up");
    }

    [Fact]
    public async Task A_check_finds_a_target_down_and_up_again_without_a_client()
    {
        // Bound but not listening, so that no other socket takes the port.
        using Socket target = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        target.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        using TcpListener other = Listen();
        await using Relay relay = new(Anywhere(), new RelayOptions
        {
            Targets = [$"tcp://{target.LocalEndPoint}", NameOf(other)],
            RetryAfter = TimeSpan.Zero,
            CheckEvery = TimeSpan.FromMilliseconds(100)
        });
        await relay.StartAsync();
        await UntilAsync(() => !relay.Targets[0].IsUp, "the check that fails");
        Assert.True(relay.Targets[1].IsUp);
        // It would be chosen now and then, but until a check passes it receives no connection.
        for (int i = 0; i < 3; i++)
        {
            using Socket client = await ConnectAsync(relay);
            await UntilAsync(() => relay.Targets[1].Connections == i + 1, "the other target");
        }

        target.Listen(100);
        await UntilAsync(() => relay.Targets[0].IsUp, "the check that passes");
        // Checks are not counted as connections of clients.
        Assert.Equal((0L, 0L, 0),
            (relay.Targets[0].Connections, relay.Targets[0].Failures, relay.Targets[0].OpenConnections));
        using Socket served = await target.AcceptAsync(Stop).AsTask().WaitAsync(s_patience, Stop);
        Assert.Equal(0, await served.ReceiveAsync(new byte[1], Stop).AsTask().WaitAsync(s_patience, Stop));
    }

    // Accepts and closes the connection immediately, like a forwarder with a target that is down: the first `count` or
    // all. Records the time of each.
    private static async Task EndEachAsync(TcpListener listener, bool isReset, List<TimeSpan> ended,
        int count = int.MaxValue)
    {
        Stopwatch clock = Stopwatch.StartNew();
        try
        {
            while (ended.Count < count)
            {
                using Socket socket = await listener.AcceptSocketAsync(Stop);
                lock (ended) ended.Add(clock.Elapsed);
                if (isReset) socket.LingerState = new LingerOption(true, 0);
                else socket.Shutdown(SocketShutdown.Send);
            }
        }
        catch (Exception e) when (e is SocketException or InvalidOperationException or OperationCanceledException)
        {
            // End of the test; a listener that is stopped between two accepts throws InvalidOperationException.
        }
    }

    // True if a client receives a line from a server that sends first.
    private static async Task<bool> IsServedAsync(Relay relay)
    {
        try
        {
            using Socket client = await ConnectAsync(relay);
            return await client.ReceiveAsync(new byte[100], Stop).AsTask().WaitAsync(s_patience, Stop) > 0;
        }
        catch (SocketException)
        {
            return false;
        }
    }

    private static async Task<Server> ServeAsync()
    {
        Server server = new(Anywhere(), static () => new Who());
        await server.StartAsync();
        return server;
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_target_that_accepts_and_ends_at_once_costs_one_client_and_the_others_are_served(bool isReset)
    {
        using TcpListener ends = Listen();
        List<TimeSpan> ended = [];
        Task ending = EndEachAsync(ends, isReset, ended);
        await using Server healthy = await ServeAsync();
        await using Relay relay = new(Anywhere(), new RelayOptions
        {
            Targets = [NameOf(ends), $"tcp://{healthy.EndPoint}"],
            RetryAfter = TimeSpan.FromHours(1),
            EarlyEnd = TimeSpan.FromMinutes(1)
        });
        await relay.StartAsync();
        int served = 0;
        for (int i = 0; i < 60; i++)
        {
            if (await IsServedAsync(relay)) served++;
            // The failure is counted a moment after the client's connection ends.
            else await UntilAsync(() => !relay.Targets[0].IsUp, "the failure");
        }

        // A reset that arrives during the relay's connect costs no client, because the relay tries the next target.
        Assert.True((served, ended.Count) == (59, 1) || (isReset && (served, ended.Count) == (60, 1)),
            $"{served} of 60 served, {ended.Count} ended");
        Assert.Equal((1L, false, true), (relay.Targets[0].Failures, relay.Targets[0].IsUp, relay.Targets[1].IsUp));
        string failure = served == 59 ? "without a byte" : "reset by the peer";
        Assert.Contains(failure, relay.Targets[0].LastFailure, StringComparison.Ordinal);
        Assert.Equal(0, relay.Targets[1].Failures);
        ends.Stop();
        await ending;
    }

    [Fact]
    public async Task A_failed_target_is_tried_by_one_connection_after_a_rest_that_doubles_and_returns_when_it_serves()
    {
        TimeSpan rest = TimeSpan.FromMilliseconds(100);
        using TcpListener ends = Listen();
        List<TimeSpan> ended = [];
        Task ending = EndEachAsync(ends, isReset: false, ended, count: 4);
        await using Server healthy = await ServeAsync();
        await using Relay relay = new(Anywhere(), new RelayOptions
        {
            Targets = [NameOf(ends), $"tcp://{healthy.EndPoint}"],
            RetryAfter = rest,
            EarlyEnd = TimeSpan.FromMinutes(1)
        });
        await relay.StartAsync();
        int clients = 0, unserved = 0;
        while (!ending.IsCompleted)
        {
            clients++;
            if (await IsServedAsync(relay)) continue;
            unserved++;
            await UntilAsync(() => relay.Targets[0].Failures == unserved, "the failure");
        }

        // One client per try, and each rest has at least its minimum length.
        Assert.Equal((4, 4L), (unserved, relay.Targets[0].Failures));
        for (int i = 1; i < ended.Count; i++)
            Assert.True(ended[i] - ended[i - 1] >= rest * (1 << (i - 1)) * 0.9,
                $"try {i} came {ended[i] - ended[i - 1]} after the one before");

        // From now on it responds. One byte makes it a normal target again.
        Task<Socket> accepted = ends.AcceptSocketAsync(Stop).AsTask();
        while (!accepted.IsCompleted)
        {
            using Socket client = await ConnectAsync(relay);
            Task<int> heard = client.ReceiveAsync(new byte[100], Stop).AsTask();
            await Task.WhenAny(heard, accepted).WaitAsync(s_patience, Stop);
            if (heard.IsCompleted) continue;
            using Socket served = await accepted;
            await served.SendAsync("x"u8.ToArray(), Stop);
            served.Shutdown(SocketShutdown.Send);
            Assert.Equal(1, await heard.WaitAsync(s_patience, Stop));
        }

        await UntilAsync(() => relay.Targets[0].IsUp, "the target to be up");
    }

    [Fact]
    public async Task A_target_that_answers_no_connect_costs_a_client_a_second_and_not_the_whole_connect_timeout()
    {
        using SilentTarget full = new();
        await using Server healthy = await ServeAsync();
        await using Relay relay = new(Anywhere(), new RelayOptions
        {
            Targets = [full.Name, $"tcp://{healthy.EndPoint}"],
            ConnectTimeout = TimeSpan.FromHours(1),
            RetryAfter = TimeSpan.FromHours(1)
        });
        await relay.StartAsync();

        // One of the two connections is sent to the silent target first.
        Assert.True(await IsServedAsync(relay));
        Assert.True(await IsServedAsync(relay));
        await UntilAsync(() => relay.Targets[0] is { OpenConnections: 0, IsUp: false, Failures: 1 }, "the failure");
        Assert.Contains("has not answered within 1 s", relay.Targets[0].LastFailure, StringComparison.Ordinal);
        Assert.Equal((0L, 2L, 0L), (relay.Unserved, relay.Targets[1].Connections, relay.Targets[1].Failures));
    }

    [Fact]
    public async Task A_client_that_ends_first_is_no_failure_of_its_target()
    {
        using TcpListener target = Listen();
        await using Relay relay = new(Anywhere(),
            new RelayOptions { Targets = [NameOf(target)], EarlyEnd = TimeSpan.FromMinutes(1) });
        await relay.StartAsync();
        for (int i = 0; i < 3; i++)
        {
            Socket client = await ConnectAsync(relay);
            using Socket served = await target.AcceptSocketAsync(Stop).AsTask().WaitAsync(s_patience, Stop);
            switch (i)
            {
                case 0: // everything was sent, and the target sends nothing
                    client.Shutdown(SocketShutdown.Send);
                    Assert.Equal(0, await served.ReceiveAsync(new byte[1], Stop).AsTask().WaitAsync(s_patience, Stop));
                    served.Shutdown(SocketShutdown.Send);
                    Assert.Equal(0, await client.ReceiveAsync(new byte[1], Stop).AsTask().WaitAsync(s_patience, Stop));
                    break;
                case 1:
                    client.LingerState = new LingerOption(true, 0);
                    break;
                default: // the target responds before its end
                    await served.SendAsync("x"u8.ToArray(), Stop);
                    served.Shutdown(SocketShutdown.Send);
                    Assert.Single(await ReadAllAsync(client));
                    break;
            }

            client.Dispose();
            await UntilAsync(() => relay.Targets[0].OpenConnections == 0, "the connection to end");
        }

        Assert.Equal((3L, 0L, true), (relay.Targets[0].Connections, relay.Targets[0].Failures, relay.Targets[0].IsUp));
    }

    [Fact]
    public async Task A_check_sees_a_target_that_accepts_and_ends_at_once_and_a_diagnostic_event_says_so()
    {
        using TcpListener ends = Listen();
        Task ending = EndEachAsync(ends, isReset: false, []);
        TaskCompletionSource<DiagnosticEvent> noticed = new(TaskCreationOptions.RunContinuationsAsynchronously);
        ServerOptions listen = new()
        {
            EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
            OnDiagnosticEvent = notice => noticed.TrySetResult(notice)
        };
        await using Relay relay = new(listen,
            new RelayOptions { Targets = [NameOf(ends)], CheckEvery = TimeSpan.FromMilliseconds(100) });
        await relay.StartAsync();
        DiagnosticEvent notice = await noticed.Task.WaitAsync(s_patience, Stop);
        Assert.Equal((DiagnosticEventKind.RelayTarget, "relay-target.md"), (notice.Kind, notice.Page));
        Assert.Contains($"target {NameOf(ends)} has failed", notice.Message, StringComparison.Ordinal);
        Assert.False(relay.Targets[0].IsUp);
        ends.Stop();
        await ending;
    }

    [Theory]
    [InlineData(ProxyHeaderForm.Binary)]
    [InlineData(ProxyHeaderForm.Line)]
    public async Task Extensions_of_the_previous_proxy_are_passed_on(ProxyHeaderForm form)
    {
        TaskCompletionSource<ProxyHeader> said = new(TaskCreationOptions.RunContinuationsAsynchronously);
        ProxyOptions proxies = new() { Trusted = TrustedNetworks.Parse("127.0.0.1") };
        await using Server server = new(Anywhere(), () => new ProxySession(proxies, header =>
        {
            said.TrySetResult(header!);
            return new Who();
        }));
        await server.StartAsync();
        await using Relay relay = new(Anywhere(), new RelayOptions
        {
            Targets = [$"tcp://{server.EndPoint}"],
            Clients = new ProxyOptions { Trusted = TrustedNetworks.Parse("127.0.0.1") },
            TargetHeader = form
        });
        await relay.StartAsync();
        ProxyHeader header = new(IPEndPoint.Parse("192.0.2.7:1"), IPEndPoint.Parse("203.0.113.1:2"))
        {
            Extensions =
            [
                new(ProxyExtension.Aws, (byte[])[1, .. "vpce-1"u8]), new(ProxyExtension.Padding, new byte[5]),
                new(ProxyExtension.Authority, "chat.example"u8.ToArray()), new(0xE5, new byte[] { 9 }),
                new(ProxyExtension.UniqueId, new byte[] { 7 }), new(ProxyExtension.Tls, new byte[] { 1, 0, 0, 0, 0 }),
            ],
        };
        ArrayBufferWriter<byte> written = new();
        header.Write(written, hasChecksum: true);
        using Socket client = await ConnectAsync(relay);
        await client.SendAsync(written.WrittenMemory, Stop);
        ProxyHeader read = await said.Task.WaitAsync(s_patience, Stop);
        Assert.Equal((header.Source, header.Destination), (read.Source, read.Destination));
        byte[] passed = form == ProxyHeaderForm.Line ? [] : [ProxyExtension.Aws, ProxyExtension.Authority, 0xE5,
            ProxyExtension.UniqueId, ProxyExtension.Tls, ProxyExtension.Checksum];
        Assert.Equal(passed, read.Extensions.Select(static e => e.Type));
        if (form == ProxyHeaderForm.Line) return;
        Assert.Equal(("vpce-1", "chat.example", true), (read.AwsEndpointId, read.Authority, read.Tls!.IsEncrypted));
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_check_identifies_itself_in_its_header_and_tries_TLS(bool isTrusted)
    {
        TaskCompletionSource<ProxyHeader> said = new(TaskCreationOptions.RunContinuationsAsynchronously);
        ProxyOptions proxies = new()
        {
            Trusted = TrustedNetworks.Parse("127.0.0.1"),
            Tls = new TlsOptions { Certificate = TlsCertificate.From(TestCertificates.Server) }
        };
        await using Server server = new(Anywhere(), () => new ProxySession(proxies, header =>
        {
            said.TrySetResult(header!);
            return new Who();
        }));
        await server.StartAsync();
        TaskCompletionSource<bool> changed = new(TaskCreationOptions.RunContinuationsAsynchronously);
        Relay relay = new(Anywhere(), new RelayOptions
        {
            Targets = [$"tcp://{server.EndPoint}"],
            TargetHeader = ProxyHeaderForm.Binary,
            TargetTls = new TlsOptions { Roots = isTrusted ? TestCertificates.Roots : null, HostName = "chat.test" },
            CheckEvery = TimeSpan.FromMilliseconds(100),
            OnTargetChanged = target => changed.TrySetResult(target.IsUp),
        });
        await relay.StartAsync();
        if (isTrusted) Assert.True((await said.Task.WaitAsync(s_patience, Stop)).IsLocal);
        else Assert.False(await changed.Task.WaitAsync(s_patience, Stop));
        Assert.Equal(isTrusted, relay.Targets[0].IsUp);
        await relay.DisposeAsync();
        // Including those of the checks.
        await UntilAsync(() => server.SessionCount == 0, "the connections to end");
    }

    [Fact]
    public async Task A_client_that_disconnects_before_a_target_answers_leaves_nothing_open()
    {
        using SilentTarget full = new();
        await using Relay relay = new(Anywhere(), new RelayOptions
        {
            Targets = [full.Name],
            ConnectTimeout = TimeSpan.FromMilliseconds(500)
        });
        await relay.StartAsync();
        Socket client = await ConnectAsync(relay);
        await UntilAsync(() => relay.Targets[0].OpenConnections == 1, "the connect");
        client.LingerState = new LingerOption(true, 0);
        client.Close();
        await UntilAsync(() => relay.Targets[0].OpenConnections == 0 && relay.Server.SessionCount == 0,
            "both sides to be gone");
    }

    [Theory]
    [InlineData(ProxyHeaderForm.Line)]
    [InlineData(ProxyHeaderForm.Binary)]
    public async Task Relays_in_a_row_pass_the_clients_address_to_the_last_server_also_over_TLS(ProxyHeaderForm form)
    {
        ProxyOptions proxies = new()
        {
            Trusted = TrustedNetworks.Parse("127.0.0.1"),
            Tls = new TlsOptions { Certificate = TlsCertificate.From(TestCertificates.Server) }
        };
        await using Server server = new(Anywhere(), () => new ProxySession(proxies, static _ => new Who()));
        await server.StartAsync();
        await using Relay inner = new(Anywhere(), new RelayOptions
        {
            Targets = [$"tcp://{server.EndPoint}"],
            Clients = new ProxyOptions { Trusted = TrustedNetworks.Parse("127.0.0.1") },
            TargetHeader = form,
            TargetTls = new TlsOptions { Roots = TestCertificates.Roots, HostName = "chat.test" },
        });
        await inner.StartAsync();
        await using Relay outer = new(Anywhere(),
            new RelayOptions { Targets = [$"tcp://{inner.Server.EndPoint}"], TargetHeader = form });
        await outer.StartAsync();
        using Socket client = await ConnectAsync(outer);
        string own = $"{client.LocalEndPoint}\n";
        byte[] room = new byte[own.Length];
        await using NetworkStream stream = new(client);
        await stream.ReadExactlyAsync(room, Stop).AsTask().WaitAsync(s_patience, Stop);
        Assert.Equal(own, Encoding.UTF8.GetString(room));
    }

    [Fact]
    public async Task A_target_with_untrusted_TLS_is_down()
    {
        await using Server server = new(new ServerOptions
        {
            EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
            Tls = new TlsOptions { Certificate = TlsCertificate.From(TestCertificates.Server) }
        }, static () => new Who());
        await server.StartAsync();
        await using Relay relay = new(Anywhere(), new RelayOptions
        {
            Targets = [$"tcp://{server.EndPoint}"],
            TargetTls = new TlsOptions { HostName = "chat.test" }
        });
        await relay.StartAsync();
        await AssertResetAsync(relay);
        await UntilAsync(() => relay.Targets[0] is { OpenConnections: 0, IsUp: false, Failures: 1 }, "the failure");
    }

    [Fact]
    public async Task After_a_stop_connections_continue_until_the_deadline()
    {
        using TcpListener target = Listen();
        await using Relay relay = new(Anywhere(), new RelayOptions { Targets = [NameOf(target)] });
        await relay.StartAsync();
        using Socket client = await ConnectAsync(relay);
        using Socket served = await target.AcceptSocketAsync(Stop).AsTask().WaitAsync(s_patience, Stop);
        await UntilAsync(() => relay.Targets[0].Connections == 1, "the connection");
        Task<StopReport> stopped = relay.StopAsync(TimeSpan.FromMinutes(1)).AsTask();
        await client.SendAsync("still here"u8.ToArray(), Stop);
        client.Shutdown(SocketShutdown.Send);
        Assert.Equal("still here", Encoding.UTF8.GetString(await ReadAllAsync(served)));
        Assert.False(stopped.IsCompleted);
        served.Shutdown(SocketShutdown.Send);
        Assert.Empty(await ReadAllAsync(client));
        Assert.Equal(0, (await stopped.WaitAsync(s_patience, Stop)).Aborted);
    }

    [Fact]
    public void Options_are_checked()
    {
        Assert.Throws<ArgumentException>(static () => new Relay(Anywhere(), new RelayOptions { Targets = [] }));
        string said = Assert.Throws<ArgumentException>(static () => new Relay(Anywhere(),
            new RelayOptions { Targets = ["tcp://127.0.0.1:70000", "tcp://good:1", "a:2"] })).Message;
        Assert.Contains("70000", said);
        Assert.Contains("tcp://a:2", said); // the correct form
        Assert.Throws<ArgumentOutOfRangeException>(
            static () => new RelayOptions { Targets = ["tcp://a:1"], ConnectTimeout = TimeSpan.Zero });
        Assert.Throws<ArgumentOutOfRangeException>(
            static () => new RelayOptions { Targets = ["tcp://a:1"], RetryAfter = TimeSpan.FromDays(1) });
        Assert.Throws<ArgumentOutOfRangeException>(
            static () => new RelayOptions { Targets = ["tcp://a:1"], CheckEvery = TimeSpan.Zero });
        Assert.Throws<ArgumentOutOfRangeException>(
            static () => new RelayOptions { Targets = ["tcp://a:1"], NextAfter = TimeSpan.Zero });
        Assert.Throws<ArgumentOutOfRangeException>(
            static () => new RelayOptions { Targets = ["tcp://a:1"], EarlyEnd = TimeSpan.FromMinutes(2) });
        Assert.Throws<ArgumentOutOfRangeException>(
            static () => new RelayOptions { Targets = ["tcp://a:1"], RetryAtMost = TimeSpan.FromDays(1) });
        ProxyOptions large = new() { Trusted = TrustedNetworks.Everybody, HeaderLimitBytes = ProxyHeader.MaxLength };
        Assert.Contains("65295", Assert.Throws<ArgumentException>(() => new Relay(Anywhere(),
            new RelayOptions { Targets = ["tcp://a:1"], Clients = large, TargetHeader = ProxyHeaderForm.Binary }))
            .Message);
        _ = new Relay(Anywhere(),
            new RelayOptions { Targets = ["tcp://a:1"], Clients = large, TargetHeader = ProxyHeaderForm.Line });
    }
}
