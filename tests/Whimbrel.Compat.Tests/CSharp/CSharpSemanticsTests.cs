using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;
using CSharpServer;
using Whimbrel.Compat.Tests.Connections;
using Whimbrel.Compat.Tests.Programs;
using TcpClient = CSharpServer.TcpClient;

namespace Whimbrel.Compat.Tests.CSharp;

// Behaviour that old programs rely on, by number. UDP and TLS are in separate files, the order of events in
// CSharpTcpTests. C and S are rows of the list of defects.
public sealed class CSharpSemanticsTests : IDisposable
{
    private readonly Service _service = new();
    private readonly Log _log = new(), _clients = new();
    private readonly RecordingServer _server;

    public CSharpSemanticsTests()
    {
        _server = new(_service, _log);
        Assert.True(_service.Start());
    }

    public void Dispose()
    {
        _server.Dispose();
        _service.Dispose();
    }

    private RecordingClient Client(Log? log = null) => new(_service, log ?? _clients, "127.0.0.1", _server.Port);

    private RecordingClient Connected(Log? log = null)
    {
        int before = _log.Count("server: connected");
        RecordingClient client = Client(log);
        Assert.True(client.ConnectAsync());
        (log ?? _clients).Until("client: connected True");
        _log.Until("server: connected", before + 1);
        return client;
    }

    // 1: without a connection, calls return 0, false or nothing, and do not throw.
    [Fact]
    public void Calls_in_the_wrong_state_do_nothing()
    {
        byte[] bytes = new byte[4];
        TimeSpan second = TimeSpan.FromSeconds(1);
        using RecordingClient client = new(_service, _clients, "127.0.0.1", 1);
        Assert.False(client.Disconnect() || client.DisconnectAsync() || client.Reconnect() || client.ReconnectAsync()
            || client.SendAsync(bytes) || client.SendAsync("") || client.IsConnected);
        Assert.Equal(0, client.Send(bytes) + client.Send(bytes, second) + client.Send("x", second) + client.Send(bytes,
            1, 2, second) + client.Receive(bytes) + client.Receive(bytes, second));
        Assert.Equal("", client.Receive(4) + client.Receive(4, second));
        client.ReceiveAsync();
        Assert.False(_server.Stop() || _server.Restart() || _server.DisconnectAll() || _server.Multicast(bytes)
            || _server.Multicast(bytes, 1, 2) || _server.Multicast("x"));
        Assert.Null(_server.FindSession("nobody"));
        Assert.Equal((0, 0, 0, 0),
            (_server.ConnectedSessions, _server.BytesPending, _server.BytesSent, _server.BytesReceived));
        TcpSession session = new(_server);
        Assert.False(session.Disconnect() || session.DisconnectAsync() || session.SendAsync("x")
            || session.IsConnected);
        Assert.Equal(0, session.Send("x") + session.Receive(bytes));
        Assert.Empty(_clients.Lines);
        Assert.Empty(_log.Lines);
    }

    // 2: an empty send returns 0 if it is synchronous, and true if it is queued.
    [Fact]
    public void An_empty_send_sends_nothing()
    {
        Assert.True(_server.Start());
        using RecordingClient client = Connected();
        Assert.Equal(0, client.Send("") + client.Send([], TimeSpan.FromSeconds(1)));
        Assert.True(client.SendAsync("") && client.SendAsync([1], 1, 0) && _server.Multicast(""));
        Assert.Equal(0, client.BytesSent + client.BytesPending);
    }

    // 3: data sent in OnConnected arrives, on both sides; in OnDisconnected sending returns false.
    [Fact]
    public void Data_sent_in_OnConnected_is_sent_and_in_OnDisconnected_is_not()
    {
        _server.AtConnected = static s => Assert.True(s.SendAsync("welcome"));
        Assert.True(_server.Start());
        using RecordingClient client = Client();
        client.AtConnected = static c => Assert.True(c.SendAsync("hello"));
        client.AtDisconnected = static c => Assert.False(c.IsConnected || c.SendAsync("late") || c.Send("late") > 0);
        Assert.True(client.ConnectAsync());
        _log.Until("session: received hello");
        Log.Until(() => client.BytesReceived == 12, "the welcome and the echo");
        Assert.True(client.Disconnect());
        _log.Until("session: disconnected False False");
        Assert.DoesNotContain(_log.Lines, static l => l.Contains("late", StringComparison.Ordinal));
        Assert.DoesNotContain(_clients.Lines, static l => l.Contains("error", StringComparison.Ordinal));
    }

    // 4: OnEmpty is called once after OnConnected if nothing was sent there, and each time the queue has drained.
    [Fact]
    public void OnEmpty_is_called_when_nothing_is_pending()
    {
        Assert.True(_server.Start());
        using RecordingClient client = Connected();
        _clients.Until("client: empty");
        Assert.Equal(["client: connected True", "client: empty"], _clients.Lines);
        Assert.Equal(4, client.Send("ping"));
        _clients.Until("client: empty", 2);
    }

    // 5: Multicast from any thread: each message arrives complete, and those of one thread in order.
    [Fact]
    public void Multicast_reaches_all_from_any_thread()
    {
        Assert.True(_server.Start());
        Log second = new();
        using RecordingClient one = Connected(), two = Connected(second);
        Thread[] threads = [.. Enumerable.Range(0, 4).Select(t => new Thread(() =>
        {
            for (int i = 0; i < 200; i++) Assert.True(_server.Multicast($"<{t}{i:D3}>"));
        }))];
        foreach (Thread thread in threads) thread.Start();
        foreach (Thread thread in threads) Assert.True(thread.Join(Log.Patience));
        foreach ((RecordingClient client, Log log) in ((RecordingClient, Log)[])[(one, _clients), (two, second)])
        {
            Log.Until(() => client.BytesReceived == 4 * 200 * 6, "all messages");
            Log.Until(() => Text(log).Length == 4 * 200 * 6, "all callbacks");
            string[] messages = Text(log).Split(['<', '>'], StringSplitOptions.RemoveEmptyEntries);
            for (int t = 0; t < 4; t++)
                Assert.Equal(Enumerable.Range(0, 200).Select(static i => $"{i:D3}"),
                    messages.Where(m => m[0] == '0' + t).Select(static m => m[1..]));
        }

        static string Text(Log log) =>
            string.Concat(log.Lines.Where(static l => l.StartsWith("client: received ", StringComparison.Ordinal))
                .Select(static l => l[17..]));
    }

    // 6: DisconnectAll ends all current sessions, and the server continues.
    [Fact]
    public void DisconnectAll_ends_all_sessions_and_the_server_continues()
    {
        Assert.True(_server.Start());
        using RecordingClient one = Connected(new Log()), two = Connected(new Log());
        Assert.Equal(2, _server.ConnectedSessions);
        Assert.True(_server.DisconnectAll());
        Log.Until(() => !one.IsConnected && !two.IsConnected && _server.ConnectedSessions == 0, "the end of both");
        Assert.True(_server.IsStarted);
        using RecordingClient three = Connected(new Log());
        Assert.Equal(1, _server.ConnectedSessions);
    }

    // 7: Reconnect and ReconnectAsync: same object, same id, counters start at zero.
    [Fact]
    public void A_client_reconnects_with_its_id_and_new_counters()
    {
        Assert.True(_server.Start());
        using RecordingClient client = Connected();
        string id = client.Id;
        Assert.Equal(4, client.Send("ping"));
        _clients.Until("client: received ping");
        Assert.True(client.ReconnectAsync());
        _clients.Until("client: connected True", 2);
        Assert.Equal((id, 0, 0), (client.Id, client.BytesSent, client.BytesReceived));
        Assert.True(client.SendAsync("pong"));
        _clients.Until("client: received pong");
        Assert.True(client.Reconnect());
        // After a synchronous Connect, received bytes are fetched by Receive.
        Assert.Equal("", client.Receive(4, TimeSpan.FromMilliseconds(20)));
        Assert.Equal(4, client.Send("last"));
        Assert.Equal("last", client.Receive(4, TimeSpan.FromSeconds(20)));
        Assert.Equal(2, _clients.Count("client: disconnected False"));
    }

    // 8: a restart on a fixed port, with open sessions.
    [Fact]
    public void A_restart_on_a_fixed_port_works_with_sessions_open()
    {
        int port = int.Parse(OldProgram.FreePort(), CultureInfo.InvariantCulture);
        using RecordingServer server = new(_service, _log, port);
        Assert.True(server.Start());
        using RecordingClient client = new(_service, _clients, "127.0.0.1", port);
        for (int i = 1; i <= 3; i++)
        {
            Assert.True(client.ConnectAsync());
            _log.Until("server: connected", i);
            Assert.True(server.Restart());
            Assert.Equal(port, server.Port);
            _clients.Until("client: disconnected False", i);
        }

        Assert.Equal(3, _log.Count("stopped False 0"));
    }

    // 9, C2: on a service with one thread, a blocking handler delays its own session only, and callbacks of one session
    // never overlap.
    [Fact]
    public void A_handler_that_blocks_holds_up_its_own_session_alone()
    {
        using ManualResetEventSlim goOn = new();
        using BlockingServer server = new(_service, _log, goOn);
        Assert.True(server.Start());
        using RecordingClient one = new(_service, new Log(), "127.0.0.1", server.Port),
            two = new(_service, _clients, "127.0.0.1", server.Port);
        one.AtConnected = static c => c.SendAsync("block");
        Assert.True(one.ConnectAsync());
        _log.Until("blocks");
        Assert.True(one.SendAsync("behind it"));
        two.AtConnected = static c => c.SendAsync("free");
        Assert.True(two.ConnectAsync());
        _clients.Until("client: received free");
        Assert.Equal(0, _log.Count("received behind it"));
        goOn.Set();
        _log.Until("received behind it");
        Assert.Equal(0, _log.Count("overlap"));
    }

    // 9, C2: in the original, data could arrive on another thread while OnConnected was running.
    [Fact]
    public void Nothing_is_received_before_OnConnected_has_returned()
    {
        using ManualResetEventSlim entered = new(), goOn = new();
        _server.AtConnected = _ =>
        {
            entered.Set();
            Assert.True(goOn.Wait(Log.Patience));
            _log.Add("connected");
        };
        Assert.True(_server.Start());
        using RecordingClient client = Client();
        client.AtConnected = static c => Assert.True(c.SendAsync("hello"));
        Assert.True(client.ConnectAsync());
        Assert.True(entered.Wait(Log.Patience));
        Log.Until(() => client.BytesSent == 5, "the bytes to leave");
        goOn.Set();
        _log.Until("session: received hello");
        Assert.True(Array.IndexOf(_log.Lines, "connected") < Array.IndexOf(_log.Lines, "session: received hello"));
    }

    // 10, C3: the server's counters are the sums of its sessions' counters, including ended sessions. Counts made by
    // callbacks of the server are not lost.
    [Fact]
    public void Counters_of_the_server_are_the_sums_of_its_sessions()
    {
        using CountingServer server = new(_service);
        Assert.True(server.Start());
        RecordingClient[] clients = [.. Enumerable.Range(0, 20)
            .Select(_ => new RecordingClient(_service, new Log(), "127.0.0.1", server.Port)
            {
                AtConnected = static c => c.SendAsync("12345")
            })];
        foreach (RecordingClient client in clients) Assert.True(client.ConnectAsync());
        Log.Until(() => clients.All(static c => c.BytesReceived == 5), "all echoes");

        // An echo may arrive before the kernel has confirmed the server's whole send.
        Log.Until(() => server.BytesSent >= 100, "all echoes to be counted");
        Assert.Equal((100, 100), (server.BytesReceived, server.BytesSent));
        foreach (RecordingClient client in clients) client.Dispose();
        Log.Until(() => server.ConnectedSessions == 0, "the end of all");
        Assert.True(server.Stop());
        Assert.Equal((20, 20), (server.Came, server.Went));
        Assert.Equal((100, 100, 0), (server.BytesReceived, server.BytesSent, server.BytesPending));
    }

    // 11, C6: queued data is sent before any form of disconnect.
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Queued_data_is_sent_before_a_disconnect(bool waits)
    {
        const int Many = 3 * 1024 * 1024;
        using LastWordsServer server = new(_service, new byte[Many], waits);
        Assert.True(server.Start());
        using Socket plain = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp)
        {
            ReceiveTimeout = (int)Log.Patience.TotalMilliseconds
        };
        plain.Connect(IPAddress.Loopback, server.Port);
        byte[] buffer = new byte[64 * 1024];
        int total = 0;
        for (int count = plain.Receive(buffer); count > 0; count = plain.Receive(buffer)) total += count;
        Assert.Equal(Many, total);
    }

    // 12: a full receive buffer is doubled up to its limit. Beyond the limit OnError is called with a number, and the
    // connection is closed.
    [Fact]
    public void Exceeding_the_receive_limit_is_an_error_and_the_end()
    {
        Assert.True(_server.Start());
        _server.AtConnected = static s =>
        {
            s.SetupReceiveBufferSize(16);
            s.SetupReceiveBufferLimit(20);
            Assert.Equal((16, 20), (s.OptionReceiveBufferSize, s.OptionReceiveBufferLimit));
        };
        using RecordingClient client = Connected();
        Assert.Equal(15, client.Send(new string('a', 15)));
        _log.Until("session: received " + new string('a', 15));
        Assert.Equal(40, client.Send(new string('b', 40)));
        _clients.Until("client: disconnected False");
        _log.Until("session: error 105 system");
    }

    // 13: at the limit of queued data, OnError is called with a number and the send returns false; the connection stays
    // open.
    [Fact]
    public void Exceeding_the_send_limit_is_an_error_and_the_connection_stays()
    {
        Assert.True(_server.Start());
        using RecordingClient client = Connected();
        client.SetupSendBufferLimit(100);
        Assert.False(client.SendAsync(new byte[101]));
        Assert.Equal(1, _clients.Count("client: error 105 system"));
        Assert.True(client.SendAsync("short"));
        _clients.Until("client: received short");
        Assert.True(client.IsConnected);
    }

    // 14, C7: a call that times out ends only itself: calls of other threads continue to wait.
    [Fact]
    public void A_receive_that_times_out_does_not_end_the_others()
    {
        Assert.True(_server.Start());
        using RecordingClient client = Client();
        Assert.True(client.Connect());
        string? text = null;
        Thread waiting = new(() => text = client.Receive(4));
        waiting.Start();
        Assert.Equal(0, client.Receive(new byte[4], TimeSpan.FromMilliseconds(50)));
        Assert.True(client.IsConnected);
        Assert.Equal(4, client.Send("ping"));
        Assert.True(waiting.Join(Log.Patience));
        Assert.Equal("ping", text);
    }

    // 15, C7: on a thread of the service it reports an error instead of blocking.
    [Fact]
    public void Blocking_calls_report_an_error_on_a_thread_of_the_service()
    {
        using PollingService service = new();
        using RecordingServer server = new(service, _log);
        Assert.True(service.Start(polling: true));
        Assert.True(server.Start());
        using RecordingClient client = new(service, _clients, "127.0.0.1", server.Port);
        using CSharpServer.Timer timer = new(service);
        service.Do(() => Assert.Throws<InvalidOperationException>(() => client.Connect()));
        service.Do(() => Assert.Throws<InvalidOperationException>(() => timer.WaitSync()));
        service.Do(() => Assert.Throws<InvalidOperationException>(() => service.Stop()));
        service.Do(() => Assert.True(client.ConnectAsync()));
        _clients.Until("client: connected True");
        service.Do(() => Assert.Equal(4, client.Send("ping")));
        _clients.Until("client: received ping");
        service.Do(() => Assert.True(client.Disconnect())); // starts, and does not wait
        _clients.Until("client: disconnected False");
    }

    // 16: BytesPending counts everything the kernel has not accepted. OnSending can skip a peer that never reads, and
    // the others receive everything.
    [Fact]
    public void OnSending_skips_a_peer_that_never_reads_and_the_others_continue()
    {
        const int Limit = 64 * 1024, Size = 4096, Messages = 4000;
        using HoldingServer server = new(_service, Limit);
        Assert.True(server.Start());
        using Socket deaf =
            new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { ReceiveBufferSize = 64 * 1024 };
        deaf.Connect(IPAddress.Loopback, server.Port);
        Log.Until(() => server.Told == 1, "the one that never reads");
        using CountingClient client = new(_service, server.Port);
        Assert.True(client.ConnectAsync());
        Log.Until(() => server.Told == 2 && client.IsConnected, "the one that reads");
        byte[] message = new byte[Size];
        for (int i = 0; i < Messages; i++)
        {
            Assert.True(server.Multicast(message));
            if (i % 8 == 7) Log.Until(() => client.BytesReceived == (i + 1L) * Size, "the others to get all");
        }

        Assert.True(server.Most <= Limit, $"{server.Most} bytes waited");
        Assert.True(server.Refused > 0);
        Assert.Equal(2, server.ConnectedSessions);
        Assert.Equal((long)Messages * Size, client.BytesReceived);
    }

    // 17: both generations of members compile: those of 1.9, and the renamed ones of the README.
    [Fact]
    public void Members_of_both_generations_are_there()
    {
        Assert.True(_server.Start());
        _server.AtConnected = static s => Assert.Equal(2, s.Send("hi"));
        using RecordingClient client = Connected();
        _clients.Until("client: received hi");
        Assert.True(client.DisconnectAsync());
        _server.AtConnected = static s => Assert.True(s.DisconnectAsync());
        _clients.Until("client: disconnected False");
        Assert.True(client.ConnectAsync());
        _clients.Until("client: disconnected False", 2);
        _server.AtConnected = static s => Assert.True(s.Disconnect());
        Assert.True(client.ConnectAsync());
        _clients.Until("client: disconnected False", 3);
        using UdpEcho udp = new(_service, _log);
        UdpEndpoint endpoint = new(IPAddress.Loopback.ToString(), 9);
        Assert.False(udp.MulticastSync("x") || udp.MulticastAsync("x") || udp.SendSync(endpoint, "x")
            || udp.SendAsync(endpoint, "x"));
        Assert.Equal(0, udp.Multicast("x") + udp.Send(endpoint, "x"));
    }

    private sealed class BlockingServer(Service service, Log log, ManualResetEventSlim goOn)
        : TcpServer(service, "127.0.0.1", 0)
    {
        protected override TcpSession CreateSession() => new BlockingSession(this, log, goOn);
    }

    private sealed class BlockingSession(TcpServer server, Log log, ManualResetEventSlim goOn) : TcpSession(server)
    {
        private int _inside;

        protected override void OnReceived(byte[] buffer, long size)
        {
            if (Interlocked.Increment(ref _inside) > 1) log.Add("overlap");
            string text = Encoding.UTF8.GetString(buffer);
            if (text == "block")
            {
                log.Add("blocks");
                Assert.True(goOn.Wait(Log.Patience));
            }
            else log.Add("received " + text);

            SendAsync(buffer);
            Interlocked.Decrement(ref _inside);
        }
    }

    private sealed class CountingServer(Service service) : TcpServer(service, "127.0.0.1", 0)
    {
        internal int Came { get; private set; }

        internal int Went { get; private set; }

        protected override TcpSession CreateSession() => new EchoSession(this);

        protected override void OnConnected(TcpSession session) => Came++;

        protected override void OnDisconnected(TcpSession session) => Went++;
    }

    private sealed class EchoSession(TcpServer server) : TcpSession(server)
    {
        protected override void OnReceived(byte[] buffer, long size) => SendAsync(buffer);
    }

    private sealed class HoldingServer(Service service, int limit) : TcpServer(service, "127.0.0.1", 0)
    {
        private int _told;

        internal int Limit => limit;

        /// <summary>Number of sessions that can send. A session may be counted as connected before it can.</summary>
        internal int Told => Volatile.Read(ref _told);

        internal long Most { get; set; }

        internal int Refused { get; set; }

        internal void NoteConnected() => Interlocked.Increment(ref _told);

        protected override TcpSession CreateSession() => new HoldingSession(this);
    }

    private sealed class HoldingSession(HoldingServer server) : TcpSession(server)
    {
        protected override void OnConnected() => server.NoteConnected();

        // Called on the only sending thread.
        protected override bool OnSending(long size)
        {
            server.Most = Math.Max(server.Most, BytesPending);
            bool takes = BytesPending + size <= server.Limit;
            if (!takes) server.Refused++;
            return takes;
        }
    }

    private sealed class CountingClient(Service service, int port) : TcpClient(service, "127.0.0.1", port);

    private sealed class LastWordsServer(Service service, byte[] words, bool waits) : TcpServer(service, "127.0.0.1", 0)
    {
        protected override TcpSession CreateSession() => new LastWordsSession(this, words, waits);
    }

    private sealed class LastWordsSession(TcpServer server, byte[] words, bool waits) : TcpSession(server)
    {
        protected override void OnConnected()
        {
            Assert.True(SendAsync(words));
            if (waits) Disconnect();
            else DisconnectAsync();
        }
    }

    /// <summary>Runs an action on the service's thread.</summary>
    private sealed class PollingService : Service
    {
        private volatile Action? _action;

        internal void Do(Action action)
        {
            Exception? thrown = null;
            _action = () =>
            {
                try
                {
                    action();
                }
                catch (Exception e)
                {
                    thrown = e;
                }
                finally
                {
                    _action = null;
                }
            };
            Log.Until(() => _action is null, "the thread of the service");
            Assert.Null(thrown);
        }

        protected override void OnIdle() => _action?.Invoke();
    }
}
