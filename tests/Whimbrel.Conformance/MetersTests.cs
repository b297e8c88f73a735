using System.Collections.Concurrent;
using System.Diagnostics.Metrics;
using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel.Conformance;

/// <summary>The meter "Whimbrel" as a listener sees it: names, labels, and values equal to the server's counters. Real
/// engines.</summary>
public sealed class MetersTests : IAsyncLifetime
{
    private static readonly TimeSpan s_deadline = TimeSpan.FromSeconds(20);

    private readonly ConcurrentDictionary<string, Instrument> _instruments = new();
    private readonly ConcurrentQueue<(string Name, string? Unit, double Value,
        Dictionary<string, object?> Labels)> _seen = new();
    private readonly TaskCompletionSource _published = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly MeterListener _listener = new();
    private readonly TaskCompletionSource<DiagnosticEvent> _noticed =
        new(TaskCreationOptions.RunContinuationsAsynchronously);
    private Engine _engine = null!;
    private Server _server = null!;

    public async ValueTask InitializeAsync()
    {
        _engine =
            new Engine(new EngineOptions { Loops = 2, OnDiagnosticEvent = notice => _noticed.TrySetResult(notice) });
        _server = new Server(new ServerOptions { Engine = _engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
            static () => new Echo());
        await _server.StartAsync();
    }

    public async ValueTask DisposeAsync()
    {
        _listener.Dispose();
        await _server.DisposeAsync();
        await _engine.DisposeAsync();
    }

    private sealed class Echo : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data)
        {
            if (data[0] == 'x') Abort();
            else Send(data);
        }
    }

    private int Port => ((IPEndPoint)_server.EndPoint!).Port;

    private async Task ListenAsync(Action<Instrument>? onValue = null)
    {
        _listener.InstrumentPublished = (instrument, listener) =>
        {
            if (instrument.Meter.Name != "Whimbrel") return;
            _instruments[instrument.Name] = instrument;
            listener.EnableMeasurementEvents(instrument);
            // The last instrument that is created.
            if (instrument.Name == "whimbrel.server.connection.duration") _published.TrySetResult();
        };
        _listener.SetMeasurementEventCallback<long>((instrument, value, labels, _) => See(instrument, value,
            labels, onValue));
        _listener.SetMeasurementEventCallback<double>((instrument, value, labels, _) => See(instrument, value,
            labels, onValue));
        _listener.Start();
        await _published.Task.WaitAsync(s_deadline, TestContext.Current.CancellationToken);
    }

    private void See(Instrument instrument, double value, ReadOnlySpan<KeyValuePair<string, object?>> labels,
        Action<Instrument>? onValue)
    {
        Dictionary<string, object?> all = [];
        foreach ((string name, object? label) in labels) all.Add(name, label);
        _seen.Enqueue((instrument.Name, instrument.Unit, value, all));
        onValue?.Invoke(instrument);
    }

    private List<(string Name, string? Unit, double Value, Dictionary<string, object?> Labels)> Read()
    {
        _seen.Clear();
        _listener.RecordObservableInstruments();
        return [.. _seen];
    }

    /// <summary>Value that belongs to this test's server.</summary>
    private double Of(string name, string? label = null, string? value = null) => Assert.Single(
        Read(),
        m => m.Name == name && m.Labels.GetValueOrDefault("server.port") is int port && port == Port
            && (label is null || Equals(m.Labels.GetValueOrDefault(label), value))).Value;

    private async Task<Socket> ConnectAsync()
    {
        Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        await socket.ConnectAsync(_server.EndPoint!, TestContext.Current.CancellationToken);
        return socket;
    }

    private static async Task EchoAsync(Socket socket, int bytes)
    {
        byte[] buffer = new byte[bytes];
        await socket.SendAsync(buffer, TestContext.Current.CancellationToken);
        for (int got = 0; got < bytes;)
        {
            int n = await socket.ReceiveAsync(buffer.AsMemory(got), TestContext.Current.CancellationToken);
            Assert.True(n > 0, "the connection ended");
            got += n;
        }
    }

    /// <summary>Counts of a loop are visible to other threads a moment later, without an event.</summary>
    private static async Task UntilAsync(Func<bool> isSo)
    {
        using CancellationTokenSource end =
            CancellationTokenSource.CreateLinkedTokenSource(TestContext.Current.CancellationToken);
        end.CancelAfter(s_deadline);
        while (!isSo()) await Task.Delay(5, end.Token); // tidy: waits because a counter is polled
    }

    private async Task<(double Value, Dictionary<string, object?> Labels)> DurationAsync(int already)
    {
        List<(double Value, Dictionary<string, object?> Labels)> all = [];
        await UntilAsync(() =>
        {
            all = [.. _seen.Where(m => m.Name == "whimbrel.server.connection.duration"
                && Equals(m.Labels.GetValueOrDefault("server.port"), Port)).Select(m => (m.Value, m.Labels))];
            return all.Count > already;
        });
        return all[already];
    }

    [Fact]
    public async Task A_listener_reads_what_the_server_counts_with_the_labels_of_its_address()
    {
        await ListenAsync();
        using Socket one = await ConnectAsync(), two = await ConnectAsync();
        await EchoAsync(one, 1000);
        await EchoAsync(two, 24);
        Assert.Equal(2, Of("whimbrel.server.active_connections"));
        Assert.Equal(2, Of("whimbrel.server.accepted_connections"));
        Assert.Equal(1024, Of("whimbrel.server.io", "network.io.direction", "receive"));
        await UntilAsync(() => Of("whimbrel.server.io", "network.io.direction", "transmit") == 1024);
        Assert.Equal(0, Of("whimbrel.server.rejected_connections", "error.type", "limit"));
        Assert.Equal(0, Of("whimbrel.server.slow_consumers", "action", "disconnect"));
        await UntilAsync(() => Of("whimbrel.server.send_queue.usage") == 0);
        Assert.True(Of("whimbrel.server.messages", "network.io.direction", "receive") >= 2);

        var io = Read()
            .First(m => m.Name == "whimbrel.server.io" && Equals(m.Labels.GetValueOrDefault("server.port"), Port));
        Assert.Equal("By", io.Unit);
        Assert.Equal(("tcp", "ipv4", "127.0.0.1"),
            (io.Labels["network.transport"], io.Labels["network.type"], io.Labels["server.address"]));

        double[] loops = [.. Read().Where(m => m.Name == "whimbrel.loop.connections"
            && Equals(m.Labels["whimbrel.engine"], _engine.KindName)).Select(m => m.Value)];
        Assert.True(loops.Sum() >= 2, $"connections of loops: {string.Join(' ', loops)}");
        Assert.Contains(Read(),
            m => m.Name == "whimbrel.loop.turns" && m.Value > 0 && m.Labels["whimbrel.loop"] is int);
    }

    [Fact]
    public async Task No_label_names_a_peer_or_a_session()
    {
        await ListenAsync();
        using Socket one = await ConnectAsync();
        await EchoAsync(one, 10);
        string[] allowed = ["network.transport", "network.type", "server.address", "server.port",
            "network.io.direction", "error.type", "action", "whimbrel.tls.outcome", "whimbrel.engine", "whimbrel.loop",
            "whimbrel.heap.state"];
        foreach (var each in Read()) Assert.All(each.Labels.Keys, label => Assert.Contains(label, allowed));
        Assert.All(_instruments.Values, instrument => Assert.False(
            string.IsNullOrEmpty(instrument.Unit) || string.IsNullOrEmpty(instrument.Description), instrument.Name));
    }

    [Fact]
    public async Task A_stopped_server_reports_nothing_more()
    {
        await ListenAsync();
        int port = Port;
        Assert.Contains(Read(), m => Equals(m.Labels.GetValueOrDefault("server.port"), port));
        await _server.StopAsync(TimeSpan.FromSeconds(5));
        Assert.DoesNotContain(Read(), m => Equals(m.Labels.GetValueOrDefault("server.port"), port));
    }

    [Fact]
    public async Task The_duration_of_a_connection_is_recorded_at_its_end_with_the_cause_unless_it_was_closed()
    {
        await ListenAsync();
        Socket one = await ConnectAsync();
        await EchoAsync(one, 10);
        one.Dispose();
        (double seconds, Dictionary<string, object?> labels) = await DurationAsync(0);
        Assert.InRange(seconds, 0, s_deadline.TotalSeconds);
        Assert.DoesNotContain("error.type", labels.Keys);

        using Socket two = await ConnectAsync();
        await two.SendAsync("x"u8.ToArray(), TestContext.Current.CancellationToken);
        (_, labels) = await DurationAsync(1);
        Assert.Equal("LocalAbort", labels["error.type"]);
    }

    [Fact]
    public async Task A_handshake_duration_is_recorded_once_with_its_outcome_if_a_listener_existed_when_it_began()
    {
        await _server.DisposeAsync();
        TlsOptions tls = new() { Certificate = TlsCertificate.From(TestCertificates.Server) };
        _server = new Server(
            new ServerOptions { Engine = _engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0), Tls = tls },
            static () => new Echo());
        await _server.StartAsync(TestContext.Current.CancellationToken);

        // Began before the listener started: its start time was not recorded.
        using Socket early = await ConnectAsync();
        await UntilAsync(() => _server.ReadCounters().TlsShaking == 1);
        // it is counted a moment before it begins
        for (int i = 0; i < _engine.LoopCount; i++) await _engine.GetLoop(i).PostAsync(static () => { });
        await ListenAsync();
        await ShakeAsync(early);
        Assert.Empty(TimesOfHandshakes());
        Assert.Equal(1, Of("whimbrel.server.tls_handshakes", "whimbrel.tls.outcome", "full"));
        _seen.Clear();

        using Socket timed = await ConnectAsync();
        await ShakeAsync(timed);
        using Socket foreign = await ConnectAsync();
        await foreign.SendAsync("x, and this is no TLS"u8.ToArray(), TestContext.Current.CancellationToken);
        await UntilAsync(() => TimesOfHandshakes().Length == 2);
        Socket reset = await ConnectAsync();
        await UntilAsync(() => _server.ReadCounters().TlsShaking == 1);
        reset.LingerState = new LingerOption(true, 0);
        reset.Dispose();
        await UntilAsync(() => TimesOfHandshakes().Length == 3);
        timed.Dispose();
        early.Dispose();
        await UntilAsync(() => _server.ReadCounters().Sessions == 0);

        var times = TimesOfHandshakes();
        Assert.Equal(3, times.Length);
        Assert.All(times, each => Assert.InRange(each.Value, 1e-7, s_deadline.TotalSeconds));
        Assert.Equal(("full", "1.3", null), OutcomeOf(times[0].Labels));
        Assert.Equal(("failed", null, "NotTls"), OutcomeOf(times[1].Labels));
        Assert.Equal(("failed", null, "PeerReset"), OutcomeOf(times[2].Labels));
        Assert.Equal("tcp", times[0].Labels["network.transport"]);
    }

    private static (object? Outcome, object? Version, object? Error) OutcomeOf(Dictionary<string, object?> labels) =>
        (labels["whimbrel.tls.outcome"], labels.GetValueOrDefault("tls.protocol.version"),
            labels.GetValueOrDefault("error.type"));

    private (double Value, Dictionary<string, object?> Labels)[] TimesOfHandshakes() =>
        [.. _seen.Where(m => m.Name == "whimbrel.server.tls_handshake.duration"
            && Equals(m.Labels.GetValueOrDefault("server.port"), Port)).Select(m => (m.Value, m.Labels))];

    /// <summary>A handshake and an echo, which arrives after the server has recorded the handshake.</summary>
    private static async Task ShakeAsync(Socket socket)
    {
        SslStream stream = new(new NetworkStream(socket), leaveInnerStreamOpen: false);
        X509ChainPolicy policy =
            new() { TrustMode = X509ChainTrustMode.CustomRootTrust, RevocationMode = X509RevocationMode.NoCheck };
        policy.CustomTrustStore.AddRange(TestCertificates.Roots);
        await stream.AuthenticateAsClientAsync(new SslClientAuthenticationOptions
        {
            TargetHost = "chat.test",
            CertificateChainPolicy = policy,
            AllowTlsResume = false
        }, TestContext.Current.CancellationToken);
        await stream.WriteAsync("echo"u8.ToArray(), TestContext.Current.CancellationToken);
        await stream.ReadExactlyAsync(new byte[4], TestContext.Current.CancellationToken);
    }

    private double[] Told(string name) => [.. _seen.Where(m => m.Name == name).Select(static m => m.Value)];

    [Fact]
    public async Task An_awaited_broadcast_is_recorded_once_with_its_duration_and_its_number_of_members()
    {
        using Socket one = await ConnectAsync(), two = await ConnectAsync(), three = await ConnectAsync();
        Socket[] all = [one, two, three];
        foreach (Socket each in all) await EchoAsync(each, 1);
        await _server.Sessions.BroadcastAsync("early", cancellationToken: TestContext.Current.CancellationToken);
        await ListenAsync();
        await UntilAsync(() => _instruments.ContainsKey("whimbrel.broadcast.duration"));
        long began = System.Diagnostics.Stopwatch.GetTimestamp();
        Session? except = null;
        BroadcastResult first = await _server.Sessions.BroadcastAsync("a",
            cancellationToken: TestContext.Current.CancellationToken);
        BroadcastResult second = await _server.Sessions.BroadcastAsync("b",
            predicate: session => Interlocked.CompareExchange(ref except, session, null) is not null,
            cancellationToken: TestContext.Current.CancellationToken);
        double took = System.Diagnostics.Stopwatch.GetElapsedTime(began).TotalSeconds;
        _server.Sessions.Broadcast("c");
        byte[] got = new byte[16];
        foreach (Socket each in all)
        {
            for (int read = 0; read == 0 || got[read - 1] != 'c';)
                read += await each.ReceiveAsync(got.AsMemory(read), TestContext.Current.CancellationToken);
        }

        Assert.Equal((3, 2), (first.Queued, second.Queued));
        Assert.Equal([3, 2], Told("whimbrel.broadcast.fanout"));
        Assert.Equal(2, Told("whimbrel.broadcast.duration").Length);
        Assert.All(Told("whimbrel.broadcast.duration"), each => Assert.InRange(each, 1e-7, took));
    }

    [Fact]
    public async Task A_listener_that_throws_harms_no_broadcast_and_is_named()
    {
        await ListenAsync(static instrument =>
        {
            if (instrument.Name == "whimbrel.broadcast.duration") throw new InvalidOperationException("a listener");
        });
        await UntilAsync(() => _instruments.ContainsKey("whimbrel.broadcast.duration"));
        using Socket one = await ConnectAsync();
        await EchoAsync(one, 1);
        Assert.Equal(1, (await _server.Sessions.BroadcastAsync("a",
            cancellationToken: TestContext.Current.CancellationToken)).Queued);
        DiagnosticEvent notice = await _noticed.Task.WaitAsync(s_deadline, TestContext.Current.CancellationToken);
        Assert.Contains("listener of the meter", notice.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_listener_that_throws_harms_no_session_and_is_named()
    {
        await ListenAsync(static instrument =>
        {
            if (instrument.Name == "whimbrel.server.connection.duration")
                throw new InvalidOperationException("a listener");
        });
        using Socket stays = await ConnectAsync();
        await EchoAsync(stays, 10);
        Socket goes = await ConnectAsync();
        await EchoAsync(goes, 10);
        goes.Dispose();
        DiagnosticEvent notice = await _noticed.Task.WaitAsync(s_deadline, TestContext.Current.CancellationToken);
        Assert.Equal(DiagnosticEventKind.UserException, notice.Kind);
        Assert.Contains("listener of the meter", notice.Message, StringComparison.Ordinal);
        await EchoAsync(stays, 10);
        using Socket comes = await ConnectAsync();
        await EchoAsync(comes, 10);
    }
}
