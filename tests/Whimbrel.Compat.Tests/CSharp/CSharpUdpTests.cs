using System.Globalization;
using System.Text;
using CSharpServer;
using Whimbrel.Compat.Tests.Connections;
using Whimbrel.Compat.Tests.Programs;

namespace Whimbrel.Compat.Tests.CSharp;

// Behaviour of UDP that programs of CSharpServer rely on, and U1 to U5 and S4 of the list of defects.
public sealed class CSharpUdpTests : IDisposable
{
    private const string Group = "239.255.77.18";

    private readonly Service _service = new(2);
    private readonly Log _log = new(), _clients = new();
    private readonly UdpEcho _server;

    public CSharpUdpTests()
    {
        _server = new(_service, _log);
        Assert.True(_service.Start());
    }

    public void Dispose()
    {
        _server.Dispose();
        _service.Dispose();
    }

    private UdpAsker Client() => new(_service, _clients, "127.0.0.1", _server.Port);

    // 1: start, connect, datagrams, disconnect and stop are reported in this order, once each, and the state matches
    // the callback.
    [Fact]
    public void One_exchange_is_reported_in_the_old_order()
    {
        Assert.True(_server.Start());
        Assert.False(_server.Start());
        using UdpAsker client = Client();
        Assert.True(client.Connect());
        Assert.False(client.Connect());
        Assert.False(client.ConnectAsync());
        Assert.True(client.SendAsync("hello"));
        _clients.Until("client: received hello");
        Assert.True(client.Disconnect());
        Assert.False(client.Disconnect());
        Assert.False(client.DisconnectAsync());
        Assert.True(_server.Stop());
        Assert.False(_server.Stop());
        Assert.Equal(["server: started True", "server: stopped False"], _log.Lines);
        Assert.Equal(["client: connected True", "client: disconnected False False"],
            _clients.Lines.Where(static l => l.Contains("connected", StringComparison.Ordinal)));
        Assert.Equal(client.Id, client.Id.ToLowerInvariant());
        Assert.Equal((5, 5, 1, 1),
            (client.BytesSent, client.BytesReceived, client.DatagramsSent, client.DatagramsReceived));
        Assert.Equal((5, 5, 1, 1),
            (_server.BytesSent, _server.BytesReceived, _server.DatagramsSent, _server.DatagramsReceived));
        Assert.Equal(0, client.BytesPending);
    }

    // 2: while nothing is open, calls return 0 or false, and do not throw. While open, an empty queued send returns
    // true.
    [Fact]
    public void Calls_in_the_wrong_state_do_nothing()
    {
        using UdpAsker client = new(_service, _clients, "127.0.0.1", 1);
        UdpEndpoint peer = new("127.0.0.1", 1);
        byte[] bytes = new byte[4];
        Assert.False(client.Disconnect() || client.Reconnect() || client.DisconnectAsync() || client.ReconnectAsync()
            || client.IsConnected);
        Assert.False(client.SendAsync("x") || client.SendAsync("") || client.SendAsync(peer, "x")
            || client.SendSync(peer, bytes));
        Assert.Equal(0, client.Send("x") + client.Send(bytes, TimeSpan.FromSeconds(1)) + client.SendSync("x")
            + client.Send(peer, bytes, 1, 2) + client.Receive(peer, bytes));
        client.ReceiveAsync();
        client.JoinMulticastGroup(Group);
        client.LeaveMulticastGroupAsync(Group);
        Assert.False(_server.Stop() || _server.Restart() || _server.IsStarted || _server.SendAsync(peer, "")
            || _server.MulticastAsync("x") || _server.MulticastSync("x"));
        Assert.Equal(0, _server.Multicast("x") + _server.Multicast(bytes, TimeSpan.Zero) + _server.Receive(peer, bytes,
            0, 4, TimeSpan.FromSeconds(1)));
        Assert.Equal("", _server.Receive(peer, 4));
        Assert.True(_server.Start());
        Assert.Equal(0, _server.Send(peer, "") + _server.Multicast("without a group"));
        Assert.True(_server.SendAsync(peer, ""));
        Assert.Empty(_clients.Lines);
        Assert.Throws<ArgumentNullException>(() => _server.SendAsync(null!, "x"));
        Assert.Throws<ArgumentOutOfRangeException>(() => client.Send(bytes, 3, 2));
    }

    // 3: one datagram per ReceiveAsync; calling it in a handler neither recurses nor overwrites the datagram that the
    // handler reads (U1, U4).
    [Fact]
    public void A_server_that_rearms_echoes_one_by_one()
    {
        Assert.True(_server.Start());
        using UdpAsker client = Client();
        Assert.True(client.Connect());
        for (int i = 0; i < 300; i++)
        {
            Assert.True(client.SendAsync($"datagram {i}"));
            _clients.Until($"client: received datagram {i}");
        }

        Assert.Equal(300, _server.DatagramsReceived);
        Assert.Equal(["server: started True"], _log.Lines);
    }

    [Fact]
    public void Without_a_call_of_ReceiveAsync_nothing_is_reported_and_a_blocking_receive_names_the_peer()
    {
        Assert.True(_server.Start());
        using UdpAsker client = new(_service, _clients, "127.0.0.1", _server.Port) { Arms = false };
        Assert.True(client.Connect());
        Assert.Equal(3, client.Send("one"));
        Assert.Equal(3, client.Send(Encoding.UTF8.GetBytes(".two."), 1, 3, TimeSpan.FromSeconds(20)));
        UdpEndpoint peer = new(0, InternetProtocol.IPv4);
        Assert.Equal("one", client.Receive(peer, 100));
        Assert.Equal($"127.0.0.1:{_server.Port}", peer.ToString());
        byte[] buffer = new byte[5];
        Assert.Equal(3, client.Receive(new UdpEndpoint(peer), buffer, 1, 4, TimeSpan.FromSeconds(20)));
        Assert.Equal("two", Encoding.UTF8.GetString(buffer, 1, 3));
        Assert.Equal(0, client.Receive(peer, buffer, TimeSpan.FromMilliseconds(20)));
        Assert.True(client.IsConnected);
        // Both are reported as well, and an unfetched datagram stays queued.
        Assert.Equal(["client: received one", "client: received two"],
            _clients.Lines.Where(static l => l.Contains("received", StringComparison.Ordinal)));
        Assert.True(client.SendSync(peer, "three"));
        client.ReceiveAsync();
        client.ReceiveAsync();
        _clients.Until("client: received three");
    }

    // S4: in the original it was valid in the callback only, and had no members to query.
    [Fact]
    public void An_end_point_may_be_kept_and_identifies_its_peer()
    {
        Assert.True(_server.Start());
        using UdpAsker client = Client();
        Assert.True(client.Connect());
        Assert.True(client.SendAsync("one"));
        _clients.Until("client: received one");
        UdpEndpoint kept = Assert.Single(_server.Peers);
        Assert.StartsWith("127.0.0.1:", kept.ToString(), StringComparison.Ordinal);
        using UdpAsker other = Client();
        Assert.True(other.Connect());
        Assert.True(other.SendAsync("two"));
        _clients.Until("client: received two");
        Assert.Equal(5, _server.Send(kept, "later", TimeSpan.FromSeconds(20)));
        _clients.Until("client: received later");
        Assert.Equal(2, client.DatagramsReceived);
    }

    // U2, U3: in the original, a second send was rejected while the first was in progress, and a failed one was joined
    // with the next.
    [Fact]
    public void Many_concurrent_sends_are_sent_and_a_failed_one_is_reported_by_its_number()
    {
        Assert.True(_server.Start());
        using UdpAsker client = Client();
        Assert.True(client.Connect());
        Assert.True(client.SendAsync("aaa"));
        Assert.True(client.SendAsync("bbbb"));
        Assert.False(client.SendAsync(new byte[70_000]));
        Assert.True(client.SendAsync(new byte[60_000])); // U5: longer than the first buffer of the original
        _clients.Until("client: received aaa");
        _clients.Until("client: received bbbb");
        Log.Until(() => client.BytesReceived == 60_007, "the long one");
        _clients.Until("client: sent 60000");
        Assert.Equal(1, _clients.Count("client: error 90 system"));
        Assert.Equal(["client: sent 3", "client: sent 4", "client: sent 60000"],
            _clients.Lines.Where(static l => l.Contains("sent", StringComparison.Ordinal)));
        Assert.True(client.IsConnected);
    }

    // The server reports a size of 0, so that it fetches the next datagram; the client closes.
    [Fact]
    public void A_datagram_over_the_limit_is_an_error_on_both_sides()
    {
        _server.SetupReceiveBufferLimit(100);
        Assert.True(_server.Start());
        using UdpAsker client = Client();
        client.SetupReceiveBufferLimit(8);
        client.SetupSendBufferLimit(200);
        Assert.Equal((8, 200), (client.OptionReceiveBufferLimit, client.OptionSendBufferLimit));
        Assert.True(client.Connect());
        Assert.False(client.SendAsync(new byte[201]));
        _clients.Until("client: error 105 system");
        Assert.True(client.SendAsync(new byte[101]));
        _log.Until("server: error 105 system");
        Assert.True(client.SendAsync("short"));
        _clients.Until("client: received short");
        Assert.True(client.SendAsync("long enough"));
        _clients.Until("client: disconnected False False");
        Assert.Equal(2, _clients.Count("client: error 105 system"));
    }

    [Fact]
    public void A_callback_that_throws_is_an_error_and_the_server_continues()
    {
        _server.AtReceived = static (_, _, text) =>
        {
            if (text == "bad") throw new InvalidOperationException("of the user");
        };
        Assert.True(_server.Start());
        using UdpAsker client = Client();
        Assert.True(client.Connect());
        Assert.True(client.SendAsync("bad"));
        Assert.True(client.SendAsync("good"));
        _clients.Until("client: received good");
        Assert.Equal(1, _log.Count("server: error -1 whimbrel.callback"));
    }

    // 4: asynchronous connect, disconnect and reconnect are reported in call order, and a connect may be started in
    // OnDisconnected.
    [Fact]
    public void Asynchronous_calls_are_reported_in_call_order()
    {
        Assert.True(_server.Start());
        using UdpAsker client = Client();
        Assert.True(client.ConnectAsync());
        Assert.False(client.ConnectAsync());
        _clients.Until("client: connected True");
        Assert.True(client.ReconnectAsync());
        Assert.False(client.ConnectAsync());
        _clients.Until("client: connected True", 2);
        client.AtDisconnected = static c => Assert.True(c.ConnectAsync());
        Assert.True(client.DisconnectAsync());
        _clients.Until("client: connected True", 3);
        client.AtDisconnected = null;
        Log.Until(() => client.IsConnected, "the connect");
        Assert.True(client.SendAsync("still"));
        _clients.Until("client: received still");
        Assert.True(client.Reconnect());
        Assert.True(client.Disconnect());
        string[] told = [.. _clients.Lines.Where(static l => l.Contains("connected", StringComparison.Ordinal))];
        Assert.Equal(8, told.Length);
        for (int i = 0; i < told.Length; i++)
            Assert.Equal(i % 2 == 0 ? "client: connected True" : "client: disconnected False False", told[i]);
    }

    // 5: a name needs a resolver, and a failure is reported as an error and as disconnected only.
    [Fact]
    public void A_name_needs_a_resolver()
    {
        Assert.True(_server.Start());
        using UdpAsker client = new(_service, _clients, "localhost", _server.Port);
        Assert.False(client.Connect());
        Assert.Equal(["client: error 22 system", "client: disconnected False False"], _clients.Lines);
        using UdpResolver resolver = new(_service);
        Assert.Same(_service, resolver.Service);
        Assert.True(client.Connect(resolver));
        resolver.Cancel(); // no lookup is in progress
        Assert.True(client.IsConnected);
        Assert.True(client.Disconnect());
        Assert.True(client.ConnectAsync(resolver));
        Log.Until(() => client.IsConnected, "the connect");
        using UdpAsker scheme = new(_service, _clients, "127.0.0.1", "no such scheme");
        Assert.Equal("no such scheme", scheme.Scheme);
        Assert.False(scheme.Connect(resolver));
        Assert.Equal(1, _clients.Count("client: error -8 asio.addrinfo"));
        using UdpAsker known = new(_service, _clients, "127.0.0.1",
            _server.Port.ToString(CultureInfo.InvariantCulture));
        Assert.True(known.Connect(resolver));
        Assert.Equal(2, known.Send("hi"));
        _clients.Until("client: received hi");
    }

    // 6: a restart keeps the port, fixed or chosen, also if a handler restarts, and a pending fetch is dropped.
    [Fact]
    public void A_handler_may_restart_its_server_again_and_again()
    {
        _server.AtReceived = static (server, _, _) =>
        {
            server.ReceiveAsync(); // belongs to the socket that is closed
            Assert.True(server.Restart());
        };
        Assert.True(_server.Start());
        int port = _server.Port;
        using UdpAsker client = Client();
        Assert.True(client.Connect());
        for (int i = 0; i < 20; i++)
        {
            Assert.True(client.SendAsync($"restart {i}"));
            _clients.Until($"client: received restart {i}");
        }

        Assert.Equal(port, _server.Port);
        Assert.Equal(21, _log.Count("server: started True"));
        Assert.DoesNotContain(_log.Lines, static l => l.Contains("error", StringComparison.Ordinal));
    }

    [Fact]
    public void A_port_that_is_taken_is_an_error_of_the_server()
    {
        Assert.True(_server.Start());
        using UdpEcho second = new(_service, _log, port: _server.Port);
        Assert.False(second.Start());
        Assert.False(second.IsStarted);
        Assert.Equal(1, _log.Count("server: error 98 system"));
        Assert.True(_server.Stop());
        Assert.True(second.Start());
    }

    // 7: with the service: what is started earlier begins with the service, a stop of the service closes everything,
    // and the objects can be used afterwards.
    [Fact]
    public void Objects_outlive_the_restart_of_their_service()
    {
        Assert.True(_service.Stop());
        using UdpAsker client = new(_service, _clients, "127.0.0.1", 1);
        Assert.True(_server.Start());
        Assert.True(client.ConnectAsync());
        Assert.False(client.Connect() || _server.IsStarted || client.IsConnected);
        Assert.True(_service.Start());
        Assert.True(_server.IsStarted);
        _clients.Until("client: connected True");
        Assert.True(_service.Restart());
        Assert.False(_server.IsStarted || client.IsConnected || client.SendAsync("x") || _server.Stop()
            || client.Disconnect());
        Assert.True(_server.Start());
        using UdpAsker second = Client();
        Assert.True(second.Connect() && client.Connect());
        Assert.True(second.SendAsync("after"));
        _clients.Until("client: received after");
        // The fetch that the stop cancelled was not reported.
        Assert.DoesNotContain(_clients.Lines, static l => l.Contains("error", StringComparison.Ordinal));
        Assert.Equal(["server: started True", "server: started True"], _log.Lines);
    }

    // 8: groups: members on one port all receive, with every form of Multicast; join and leave are reported, and so are
    // their errors.
    [Fact]
    public void Members_of_a_group_at_one_port_all_receive()
    {
        int port = int.Parse(OldProgram.FreeUdpPort(), CultureInfo.InvariantCulture);
        using UdpAsker first = new(_service, _clients, "0.0.0.0", port), second = new(_service, _log, "0.0.0.0", port);
        foreach (UdpAsker member in (UdpAsker[])[first, second])
        {
            member.SetupMulticast(true);
            Assert.True(member.OptionMulticast && member.OptionReuseAddress);
        }

        first.AtConnected = static c => c.JoinMulticastGroup(Group);
        second.AtConnected = static c => c.JoinMulticastGroupAsync(Group);
        Assert.True(first.ConnectAsync());
        Assert.True(second.Connect());
        Log.Until(() => _clients.Lines.Length > 1 && _log.Lines.Length > 1, "both to be members");
        Assert.SkipWhen(_clients.Count("client: error 19 system") + _clients.Count("client: error 101 system") > 0,
            "This machine routes no multicast.");
        _clients.Until("client: joined " + Group);
        _log.Until("client: joined " + Group);
        Assert.Throws<FormatException>(() => first.JoinMulticastGroup("no address"));
        first.JoinMulticastGroup("127.0.0.1");
        Assert.Equal(1, _clients.Count("client: error 22 system"));
        first.JoinMulticastGroup(Group);
        Assert.Equal(1, _clients.Count("client: error 98 system"));
        using UdpEcho admin = new(_service, _log, "0.0.0.0");
        Assert.True(admin.Start(Group, port));
        Assert.Equal(3, admin.Multicast("one"));
        Assert.Equal(3, admin.Multicast(Encoding.UTF8.GetBytes(".two."), 1, 3, TimeSpan.FromSeconds(20)));
        Assert.True(admin.MulticastAsync("three"));
        Assert.True(admin.MulticastSync("four"));
        foreach (string text in (string[])["one", "two", "three", "four"])
        {
            _clients.Until("client: received " + text);
            _log.Until("client: received " + text);
        }

        first.LeaveMulticastGroupAsync(Group);
        _clients.Until("client: left " + Group);
        first.LeaveMulticastGroup(Group);
        Assert.Equal(1, _clients.Count("client: error 99 system"));
    }

    // 9: on a thread of the service no call blocks.
    [Fact]
    public void A_stop_on_a_thread_of_the_service_does_not_wait()
    {
        using IdleService service = new();
        using UdpEcho server = new(service, _log);
        service.AtIdle = () =>
        {
            if (server.Stop()) service.AtIdle = null;
        };
        Assert.True(server.Start());
        Assert.True(service.Start(polling: true));
        _log.Until("server: stopped False");
    }

    // 10: a blocking handler blocks no other server, and a stop waits for it.
    [Fact]
    public void A_handler_that_blocks_holds_up_its_own_server_alone()
    {
        using ManualResetEventSlim entered = new(), goOn = new();
        _server.AtReceived = (_, _, _) =>
        {
            entered.Set();
            Assert.True(goOn.Wait(Log.Patience));
            _log.Add("server: returned");
        };
        Assert.True(_server.Start());
        using UdpEcho other = new(_service, _log);
        Assert.True(other.Start());
        using UdpAsker client = Client(), asking = new(_service, _clients, "127.0.0.1", other.Port);
        Assert.True(client.Connect() && asking.Connect());
        Assert.True(client.SendAsync("block"));
        Assert.True(entered.Wait(Log.Patience));
        Assert.True(asking.SendAsync("free"));
        _clients.Until("client: received free");
        Thread stopping = new(() => _server.Stop());
        stopping.Start();
        Log.Until(() => !_server.IsStarted, "the stop");
        Assert.Equal(0, _log.Count("server: stopped False"));
        goOn.Set();
        Assert.True(stopping.Join(Log.Patience));
        Assert.Equal(["server: returned", "server: stopped False"], _log.Lines[^2..]);
    }

    // 11: queued callbacks have a limit, like every queue: a blocked callback does not let memory grow without limit.
    [Fact]
    public void A_callback_that_blocks_stops_the_sends_at_a_limit()
    {
        const int Limit = 65_536;
        using ManualResetEventSlim entered = new(), goOn = new();
        _server.AtReceived = (_, _, _) =>
        {
            entered.Set();
            Assert.True(goOn.Wait(Log.Patience));
        };
        Assert.True(_server.Start());
        using UdpAsker client = Client();
        Assert.True(client.Connect());
        Assert.True(client.SendAsync("block"));
        Assert.True(entered.Wait(Log.Patience));
        UdpEndpoint peer = _server.Peers[0];
        int taken = 0;
        while (taken <= Limit && _server.Send(peer, "x", TimeSpan.FromMilliseconds(taken < Limit ? 10_000 : 20)) == 1)
            taken++;
        Assert.Equal(Limit, taken);
        Assert.False(_server.SendAsync(peer, "x"));
        goOn.Set();
        Assert.Equal(1, _server.Send(peer, "x"));
    }

    private sealed class IdleService : Service
    {
        internal volatile Action? AtIdle;

        protected override void OnIdle() => AtIdle?.Invoke();
    }
}
