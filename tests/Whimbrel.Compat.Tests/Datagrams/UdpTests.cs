using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;
using System.Text;
using NetCoreServer;
using Whimbrel.Compat.Tests.Connections;
using UdpClient = NetCoreServer.UdpClient;

namespace Whimbrel.Compat.Tests.Datagrams;

// Behaviour of UDP that programs of NetCoreServer rely on, and U1 to U7 of the list of defects.
public sealed class UdpTests
{
    private static readonly TimeSpan s_deadline = TimeSpan.FromSeconds(30);

    [Fact]
    public void A_server_that_rearms_echoes_one_by_one()
    {
        using EchoServer server = new();
        Assert.True(server.Start());
        using Collector client = new(((IPEndPoint)server.Endpoint).Port);
        Assert.True(client.Connect());
        for (int i = 0; i < 1000; i++)
        {
            Assert.True(client.SendAsync($"datagram {i}"));
            Assert.Equal($"datagram {i}", client.Take());
        }

        Assert.True(client.Disconnect());
        Assert.True(server.Stop());
        Assert.Equal(1000, client.DatagramsSent);
        Assert.Equal(1000, client.DatagramsReceived);
        Assert.Equal(1000, server.DatagramsReceived);
        Assert.Equal(1000, server.DatagramsSent);
        Assert.Equal(client.BytesSent, server.BytesReceived);
        Assert.Empty(server.Errors);
        Assert.Empty(client.Errors);
    }

    [Fact] // each counter, also at the second start
    public void All_counters_begin_at_zero_with_each_start_and_connect()
    {
        using EchoServer server = new();
        Assert.True(server.Start());
        using Collector client = new(((IPEndPoint)server.Endpoint).Port);
        Assert.True(client.Connect());
        for (int i = 0; i < 3; i++)
        {
            Assert.True(client.SendAsync("hello"));
            Assert.Equal("hello", client.Take());
            Assert.True(client.Disconnect());
            Assert.True(server.Stop());
            Assert.Equal((1, 1, 5, 5),
                (client.DatagramsSent, client.DatagramsReceived, client.BytesSent, client.BytesReceived));
            Assert.Equal((1, 1, 5, 5),
                (server.DatagramsSent, server.DatagramsReceived, server.BytesSent, server.BytesReceived));
            Assert.True(server.Start());
            Assert.True(client.Connect());
            Assert.Equal((0, 0, 0, 0),
                (client.DatagramsSent, client.DatagramsReceived, client.BytesSent, client.BytesReceived));
            Assert.Equal((0, 0, 0, 0),
                (server.DatagramsSent, server.DatagramsReceived, server.BytesSent, server.BytesReceived));
        }
    }

    [Fact]
    public void Calls_in_the_wrong_state_do_nothing()
    {
        using EchoServer server = new();
        Assert.False(server.Stop());
        Assert.False(server.Restart());
        Assert.False(server.SendAsync(server.Endpoint, "x"));
        Assert.Equal(0, server.Multicast("x"));
        using Collector client = new(1);
        Assert.False(client.Disconnect());
        Assert.False(client.Reconnect());
        Assert.False(client.SendAsync("x"));
        Assert.Equal(0, client.Send("x"));
        EndPoint peer = new IPEndPoint(IPAddress.Any, 0);
        Assert.Equal(0, client.Receive(ref peer, new byte[8]));
        Assert.True(server.Start());
        Assert.False(server.Start());
        Assert.True(server.SendAsync(server.Endpoint, ""));
    }

    [Fact]
    public void Events_come_in_their_order_and_a_restart_keeps_the_port()
    {
        using EchoServer server = new();
        Assert.True(server.Start());
        EndPoint bound = server.Endpoint;
        Assert.True(server.Restart());
        Assert.Equal(bound, server.Endpoint);
        Assert.True(server.Stop());
        Assert.Equal(["starting", "started", "stopping", "stopped", "starting", "started", "stopping", "stopped"],
            server.Events);

        using Collector client = new(1);
        Assert.True(client.Connect());
        Assert.False(client.Connect());
        Assert.True(client.Reconnect());
        Assert.True(client.Disconnect());
        Assert.Equal(["connecting", "connected", "disconnecting", "disconnected", "connecting", "connected",
            "disconnecting", "disconnected"], client.Events);
    }

    [Fact]
    public void A_taken_port_throws_the_exception_of_sockets()
    {
        using EchoServer server = new();
        Assert.True(server.Start());
        using EchoServer second = new(((IPEndPoint)server.Endpoint).Port);
        Assert.Equal(SocketError.AddressAlreadyInUse,
            Assert.Throws<SocketException>(() => second.Start()).SocketErrorCode);
        Assert.False(second.IsStarted);
    }

    [Fact]
    public void Many_concurrent_sends_are_all_sent_each_as_a_separate_datagram()
    {
        using Collector receiver = new(0) { OptionMulticast = true };
        Assert.True(receiver.Connect());
        int port = ((IPEndPoint)receiver.Socket.LocalEndPoint!).Port;
        using Collector sender = new(port);
        Assert.True(sender.Connect());
        // In the original the second send was rejected, and a send after a failed one was joined with it (U2, U3).
        Assert.True(sender.SendAsync(new string('a', 3)));
        Assert.True(sender.SendAsync(new string('b', 4)));
        Assert.False(sender.SendAsync(new byte[70_000]));
        Assert.True(sender.SendAsync(new string('c', 60_000)));
        Assert.Equal("aaa", receiver.Take());
        Assert.Equal("bbbb", receiver.Take());
        Assert.Equal(new string('c', 60_000), receiver.Take());
        Assert.Equal(SocketError.MessageSize, Assert.Single(sender.Errors));
    }

    [Fact]
    public void Without_a_call_of_ReceiveAsync_nothing_is_reported()
    {
        using EchoServer server = new() { Arms = false };
        Assert.True(server.Start());
        using Collector client = new(((IPEndPoint)server.Endpoint).Port);
        Assert.True(client.Connect());
        Assert.True(client.SendAsync("one"));
        Assert.True(client.SendAsync("two"));
        EndPoint peer = new IPEndPoint(IPAddress.Any, 0);
        Assert.Equal("one", server.Receive(ref peer, 100));
        Assert.Equal(((IPEndPoint)client.Socket.LocalEndPoint!).Port, ((IPEndPoint)peer).Port);
        server.ReceiveAsync();
        Assert.Equal("one", client.Take()); // a synchronous receive is reported as well
        Assert.Equal("two", client.Take());
    }

    [Fact]
    public void An_exception_in_a_handler_is_an_error_and_the_server_continues()
    {
        using EchoServer server = new() { ThrowsAt = "bad" };
        Assert.True(server.Start());
        using Collector client = new(((IPEndPoint)server.Endpoint).Port);
        Assert.True(client.Connect());
        Assert.True(client.SendAsync("bad"));
        Assert.True(client.SendAsync("good"));
        Assert.Equal("good", client.Take());
        Assert.Equal(SocketError.SocketError, Assert.Single(server.Errors));
    }

    [Fact]
    public void A_datagram_longer_than_the_limit_is_an_error_and_the_server_continues()
    {
        using EchoServer server = new() { OptionReceiveBufferLimit = 100 };
        Assert.True(server.Start());
        using Collector client = new(((IPEndPoint)server.Endpoint).Port);
        Assert.True(client.Connect());
        Assert.True(client.SendAsync(new byte[101]));
        Assert.True(client.SendAsync("good"));
        Assert.Equal("good", client.Take());
        Assert.Equal(SocketError.NoBufferSpaceAvailable, Assert.Single(server.Errors));
    }

    [Fact]
    public void A_handler_may_stop_its_server()
    {
        using EchoServer server = new() { StopsAt = "stop" };
        Assert.True(server.Start());
        using Collector client = new(((IPEndPoint)server.Endpoint).Port);
        Assert.True(client.Connect());
        Assert.True(client.SendAsync("stop"));
        Assert.True(server.HasStopped.Wait(s_deadline));
        Assert.False(server.IsStarted);
        Assert.True(server.Start());
    }

    // The fetch that the stop cancelled belongs to the previous socket.
    [Fact]
    public void A_handler_may_restart_its_server_again_and_again()
    {
        using EchoServer server = new() { RestartsAt = "restart" };
        Assert.True(server.Start());
        using Collector client = new(((IPEndPoint)server.Endpoint).Port);
        Assert.True(client.Connect());
        for (int i = 0; i < 50; i++)
        {
            Assert.True(client.SendAsync("restart"));
            Assert.Equal("restarted", client.Take());
        }

        Assert.Empty(server.Errors);
    }

    // Unsynchronized flags: "already in progress", and bytes with the address of another sender.
    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void U4_many_threads_may_send_and_rearm_at_once(Scheduling callbacks)
    {
        const int Threads = 4, Each = 50;
        using Setting setting = new(callbacks);
        using EchoServer server = new();
        Assert.True(server.Start());
        using Collector one = new(((IPEndPoint)server.Endpoint).Port), two = new(((IPEndPoint)server.Endpoint).Port);
        Assert.True(one.Connect() && two.Connect());
        Parallel.For(0, Threads, i =>
        {
            for (int k = 0; k < Each; k++)
            {
                Collector client = (k + i) % 2 == 0 ? one : two;
                Assert.True(client.SendAsync($"{(client == one ? "one" : "two")} {i} {k}"));
                client.ReceiveAsync();
                server.ReceiveAsync();
            }
        });
        foreach ((Collector client, string name) in new[] { (one, "one"), (two, "two") })
        {
            HashSet<string> got = [];
            for (int i = 0; i < Threads * Each / 2; i++) Assert.True(got.Add(client.Take()));
            Assert.All(got, text => Assert.StartsWith(name, text, StringComparison.Ordinal));
        }

        Assert.Empty(server.Errors);
        Assert.Empty(one.Errors);
        Assert.Empty(two.Errors);
    }

    // Any error of a send disconnected a client.
    [Fact]
    public void U6_a_client_continues_when_no_socket_was_bound_to_the_port()
    {
        using Socket reserved = new(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp);
        reserved.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        int port = ((IPEndPoint)reserved.LocalEndPoint!).Port;
        reserved.Dispose();
        using Collector client = new(port);
        Assert.True(client.Connect());
        // The kernel reports errors for the first ones.
        for (int i = 0; i < 10; i++) Assert.Equal(1, client.Send("x"));
        SpinWait.SpinUntil(() => client.BytesPending == 0, s_deadline);
        using EchoServer server = new(port);
        Assert.True(server.Start());
        Assert.True(client.IsConnected);
        Assert.True(client.SendAsync("hello"));
        Assert.Equal("hello", client.Take());
    }

    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void Callbacks_run_on_the_pool_or_on_the_loop_as_configured(Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        using EchoServer server = new() { StopsAt = "stop" };
        Assert.True(server.Start());
        using Collector client = new(((IPEndPoint)server.Endpoint).Port);
        Assert.True(client.Connect());
        for (int i = 0; i < 10; i++)
        {
            Assert.True(client.SendAsync($"{i}"));
            Assert.Equal($"{i}", client.Take());
        }

        // A rejected send is reported as 0 bytes sent and as an error, in order with the others.
        Assert.False(client.SendAsync(new byte[70_000]));
        SpinWait.SpinUntil(() => client.Errors.Count == 1, s_deadline);
        Assert.Equal(SocketError.MessageSize, Assert.Single(client.Errors));
        Assert.True(client.SendAsync("stop"));
        Assert.True(server.HasStopped.Wait(s_deadline));
        Assert.False(server.IsStarted);
        bool isOnLoop = callbacks == Scheduling.Inline;
        Assert.Equal([isOnLoop], server.OnLoop.Distinct());
        Assert.Equal([isOnLoop], client.OnLoop.Distinct());
    }

    // A client that sends in each OnSent always has a pending callback.
    [Fact]
    public async Task Callbacks_on_the_loop_do_not_starve_others()
    {
        using Setting setting = new(Scheduling.Inline);
        await using Engine engine = new(new EngineOptions { Loops = 1 });
        CompatOptions.Engine = engine;
        try
        {
            using EchoServer server = new();
            Assert.True(server.Start());
            using Restless restless = new(((IPEndPoint)server.Endpoint).Port);
            Assert.True(restless.Connect());
            Assert.True(restless.SendAsync("go"));
            SpinWait.SpinUntil(() => restless.Sent > 1000, s_deadline);
            using EchoServer other = new();
            Assert.True(other.Start());
            using Collector client = new(((IPEndPoint)other.Endpoint).Port);
            Assert.True(client.Connect());
            Assert.True(client.SendAsync("hello"));
            Assert.Equal("hello", client.Take());
            Assert.True(restless.Disconnect());
        }
        finally
        {
            CompatOptions.Engine = null;
        }
    }

    private sealed class Restless(int port) : UdpClient(IPAddress.Loopback, port)
    {
        private int _sent;

        internal int Sent => Volatile.Read(ref _sent);

        protected override void OnSent(EndPoint endpoint, long sent)
        {
            Interlocked.Increment(ref _sent);
            SendAsync("again");
        }
    }

    [Fact]
    public void Members_of_a_group_at_one_port_all_receive()
    {
        IPAddress group = IPAddress.Parse("239.255.77.38");
        using Collector first = new(0, IPAddress.Any);
        first.SetupMulticast(true);
        Assert.True(first.Connect());
        int port = ((IPEndPoint)first.Socket.LocalEndPoint!).Port;
        using Collector second = new(port, IPAddress.Any);
        second.SetupMulticast(true);
        Assert.True(second.Connect());
        try
        {
            first.JoinMulticastGroup(group);
            second.JoinMulticastGroup("239.255.77.38");
        }
        catch (SocketException e)
        {
            Assert.Skip($"This machine routes no multicast: {e.Message}");
        }

        using EchoServer server = new(0, IPAddress.Any);
        Assert.True(server.Start(group, port));
        Assert.Equal(5, server.Multicast("hello"));
        Assert.True(server.MulticastAsync("again"));
        foreach (Collector member in new[] { first, second })
        {
            Assert.Equal("hello", member.Take());
            Assert.Equal("again", member.Take());
        }

        first.LeaveMulticastGroup(group);
        Assert.Contains("joined", first.Events);
        Assert.Contains("left", first.Events);
    }

    private sealed class EchoServer(int port = 0, IPAddress? address = null)
        : UdpServer(address ?? IPAddress.Loopback, port)
    {
        internal bool Arms { get; init; } = true;

        internal string? ThrowsAt { get; init; }

        internal string? StopsAt { get; init; }

        internal string? RestartsAt { get; init; }

        internal ManualResetEventSlim HasStopped { get; } = new();

        internal ConcurrentQueue<bool> OnLoop { get; } = new();

        internal ConcurrentQueue<string> Events { get; } = new();

        internal ConcurrentQueue<SocketError> Errors { get; } = new();

        protected override void OnStarting() => Events.Enqueue("starting");

        protected override void OnStarted()
        {
            Events.Enqueue("started");
            if (Arms) ReceiveAsync();
        }

        protected override void OnStopping() => Events.Enqueue("stopping");

        protected override void OnStopped() => Events.Enqueue("stopped");

        protected override void OnReceived(EndPoint endpoint, byte[] buffer, long offset, long size)
        {
            OnLoop.Enqueue(Loop.Current is not null);
            string text = Encoding.UTF8.GetString(buffer, (int)offset, (int)size);
            if (text == StopsAt)
            {
                Stop();
                HasStopped.Set();
                return;
            }

            if (text == RestartsAt)
            {
                ReceiveAsync(); // belongs to the socket that is closed
                Restart();
                SendAsync(endpoint, "restarted");
                return;
            }

            if (text == ThrowsAt) throw new InvalidOperationException("as the test wants");
            if (size == 0) ReceiveAsync();
            else SendAsync(endpoint, buffer, offset, size);
        }

        protected override void OnSent(EndPoint endpoint, long sent)
        {
            OnLoop.Enqueue(Loop.Current is not null);
            ReceiveAsync();
        }

        protected override void OnError(SocketError error) => Errors.Enqueue(error);
    }

    private sealed class Collector(int port, IPAddress? address = null) : UdpClient(address ?? IPAddress.Loopback, port)
    {
        private readonly BlockingCollection<string> _received = [];

        internal ConcurrentQueue<bool> OnLoop { get; } = new();

        internal ConcurrentQueue<string> Events { get; } = new();

        internal ConcurrentQueue<SocketError> Errors { get; } = new();

        internal string Take()
        {
            Assert.True(_received.TryTake(out string? text, s_deadline));
            return text;
        }

        protected override void OnConnecting() => Events.Enqueue("connecting");

        protected override void OnConnected()
        {
            Events.Enqueue("connected");
            ReceiveAsync();
        }

        protected override void OnDisconnecting() => Events.Enqueue("disconnecting");

        protected override void OnDisconnected() => Events.Enqueue("disconnected");

        protected override void OnJoinedMulticastGroup(IPAddress address) => Events.Enqueue("joined");

        protected override void OnLeftMulticastGroup(IPAddress address) => Events.Enqueue("left");

        protected override void OnReceived(EndPoint endpoint, byte[] buffer, long offset, long size)
        {
            OnLoop.Enqueue(Loop.Current is not null);
            ReceiveAsync(); // before the bytes are read: they stay valid until this handler returns
            _received.Add(Encoding.UTF8.GetString(buffer, (int)offset, (int)size));
        }

        protected override void OnError(SocketError error)
        {
            OnLoop.Enqueue(Loop.Current is not null);
            Errors.Enqueue(error);
        }

        protected override void Dispose(bool disposingManagedResources)
        {
            base.Dispose(disposingManagedResources);
            if (disposingManagedResources) _received.Dispose();
        }
    }
}
