using System.Net;
using System.Net.Sockets;
using NetCoreServer;
using Whimbrel.Compat.Tests.Connections;
using UdpClient = NetCoreServer.UdpClient;

namespace Whimbrel.Compat.Tests.Datagrams;

// The multicast and echo programs of the original: they join in OnConnected, and call ReceiveAsync on the pool in
// OnSent.
public sealed class OldUdpCallsTests
{
    private static readonly TimeSpan s_deadline = TimeSpan.FromSeconds(60);

    [Theory]
    [InlineData(Scheduling.ThreadPool)]
    [InlineData(Scheduling.Inline)]
    public void Clients_connect_and_join_while_no_thread_of_the_pool_is_free(Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        using (Echo started = new()) Assert.True(started.Start()); // the first object starts the engine
        using Member first = new(), second = new();
        TimeSpan? took = BlockedPool.Time(Connect);
        Assert.True(took is not null, "Connect and JoinMulticastGroup waited for a thread of the pool.");
        Assert.Equal((true, true, true, true), (first.IsDone, second.IsDone, first.HasJoined, second.HasJoined));

        void Connect()
        {
            first.SetupMulticast(true);
            second.SetupMulticast(true);
            first.IsDone = first.Connect();
            second.IsDone = second.Connect();
            second.LeaveMulticastGroup("239.255.0.7");
        }
    }

    // The multicast client of the original disconnects a hundred clients one after the other in a flood. Each of them
    // waited for pool threads that were busy with datagrams of the others, up to a quarter of a second.
    [Theory]
    [InlineData(Scheduling.ThreadPool)]
    [InlineData(Scheduling.Inline)]
    public void Clients_disconnect_while_no_thread_of_the_pool_is_free_and_no_callback_begins_afterwards(
        Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        Counting[] clients = [.. Enumerable.Range(0, 20).Select(static _ => new Counting())];
        Assert.All(clients, static client => Assert.True(client.Connect()));
        int[] atTheEnd = new int[clients.Length];
        TimeSpan? took = BlockedPool.Time(() =>
        {
            foreach (Counting client in clients) client.SendAsync("x"); // OnSent waits for a thread
            foreach ((int i, Counting client) in clients.Index())
            {
                client.IsDone = client.Disconnect();
                atTheEnd[i] = client.Calls;
            }
        });
        Assert.All(clients, static client => Assert.True(client.IsDone));
        Assert.Equal(atTheEnd, clients.Select(static client => client.Calls));
        Assert.True(took < TimeSpan.FromSeconds(3), $"{clients.Length} calls of Disconnect took {took}");
    }

    // A flood never ends a drain: two such sockets would otherwise occupy two pool threads permanently.
    [Fact]
    public void A_socket_that_always_has_something_to_call_gives_its_thread_back_in_between()
    {
        using Endless endless = new();
        long before = ThreadPool.CompletedWorkItemCount;
        Assert.True(endless.Connect());
        endless.SendAsync("x");
        Assert.True(endless.Done.Wait(s_deadline));
        Assert.InRange(ThreadPool.CompletedWorkItemCount - before, Endless.Sends / 100, long.MaxValue);
    }

    [Theory]
    [InlineData(Scheduling.ThreadPool)]
    [InlineData(Scheduling.Inline)]
    public void A_server_that_rearms_on_the_pool_in_OnSent_echoes_all_and_its_callbacks_stay_on_the_pool(
        Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        using Echo server = new();
        Assert.True(server.Start());
        using Socket client = new(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp)
        {
            ReceiveTimeout = (int)s_deadline.TotalMilliseconds
        };
        client.Connect(server.Endpoint);
        byte[] got = new byte[16];
        for (int sent = 0, received = 0; received < 20_000; received++)
        {
            for (; sent < 20_000 && sent - received < 50; sent++) client.Send(BitConverter.GetBytes(sent));
            Assert.Equal(4, client.Receive(got));
            Assert.Equal(received, BitConverter.ToInt32(got));
        }

        Assert.Equal((20_000, 0), (server.Received, server.Overlaps));
        // With callbacks on the loop, the first callback of a run is on the loop, and continues on the pool if a pool
        // thread started it: otherwise each datagram costs two thread switches.
        Assert.InRange(server.OnPool, 1, 20_000);
    }

    private sealed class Member() : UdpClient("0.0.0.0", 0)
    {
        internal bool IsDone { get; set; }

        internal bool HasJoined { get; private set; }

        protected override void OnConnected()
        {
            JoinMulticastGroup("239.255.0.7");
            ReceiveAsync();
        }

        protected override void OnJoinedMulticastGroup(IPAddress address) => HasJoined = true;

        protected override void OnReceived(EndPoint endpoint, byte[] buffer, long offset, long size) => ReceiveAsync();
    }

    private sealed class Counting() : UdpClient(IPAddress.Loopback, 9)
    {
        private int _calls;

        internal bool IsDone { get; set; }

        internal int Calls => Volatile.Read(ref _calls);

        protected override void OnSent(EndPoint endpoint, long sent) => Interlocked.Increment(ref _calls);
    }

    private sealed class Endless() : UdpClient(IPAddress.Loopback, 9)
    {
        internal const int Sends = 10_000;

        private int _sends;

        internal ManualResetEventSlim Done { get; } = new();

        protected override void OnSent(EndPoint endpoint, long sent)
        {
            if (++_sends < Sends) SendAsync("x");
            else Done.Set();
        }
    }

    private sealed class Echo() : UdpServer(IPAddress.Loopback, 0)
    {
        private int _running;

        internal int Received { get; private set; }

        internal int Overlaps { get; private set; }

        internal int OnPool { get; private set; }

        protected override void OnStarted() => ReceiveAsync();

        protected override void OnReceived(EndPoint endpoint, byte[] buffer, long offset, long size)
        {
            if (Interlocked.Increment(ref _running) != 1) Overlaps++;
            Received++;
            if (Loop.Current is null) OnPool++;
            if (size == 0) ThreadPool.QueueUserWorkItem(_ => ReceiveAsync());
            SendAsync(endpoint, buffer, offset, size);
            Interlocked.Decrement(ref _running);
        }

        protected override void OnSent(EndPoint endpoint, long sent) =>
            ThreadPool.QueueUserWorkItem(_ => ReceiveAsync());
    }
}
