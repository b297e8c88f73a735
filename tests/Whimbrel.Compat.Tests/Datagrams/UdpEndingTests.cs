using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using NetCoreServer;
using Whimbrel.Compat.Tests.Connections;
using UdpClient = NetCoreServer.UdpClient;

namespace Whimbrel.Compat.Tests.Datagrams;

/// <summary>Ends of UDP objects under a lock that their callbacks take.</summary>
public sealed class UdpEndingTests
{
    private static readonly TimeSpan s_most = TimeSpan.FromSeconds(4); // it was 6 s

    public static TheoryData<EngineKind, Scheduling> Cases => OnEngine.Cases;

    [Theory]
    [MemberData(nameof(Cases))]
    public async Task An_end_does_not_wait_for_a_callback_that_waits_for_a_lock_of_the_caller(EngineKind kind,
        Scheduling callbacks)
    {
        await using OnEngine engine = await OnEngine.StartAsync(kind, callbacks);
        foreach (string how in (string[])["stop", "dispose", "restart", "disconnect", "reconnect", "dispose client"])
        {
            // To open again needs the loop that waits in the callback.
            if (callbacks == Scheduling.Inline && how is "restart" or "reconnect") continue;
            object gate = new();
            Log log = new();
            using Server server = new(log, gate);
            Assert.True(server.Start());
            using Client client = new(log, gate, ((IPEndPoint)server.Endpoint).Port);
            Assert.True(client.Connect());
            client.ReceiveAsync();
            bool isServer = how is "stop" or "dispose" or "restart";
            server.Echoes = !isServer;
            TimeSpan took;
            lock (gate)
            {
                Assert.True(client.SendAsync("x"));
                log.Until(isServer ? "server waits" : "client waits");
                long began = Stopwatch.GetTimestamp();
                Assert.True(how switch
                {
                    "stop" => server.Stop(),
                    "restart" => server.Restart(),
                    "dispose" => Done(server.Dispose),
                    "disconnect" => client.Disconnect(),
                    "reconnect" => client.Reconnect(),
                    _ => Done(client.Dispose),
                });
                took = Stopwatch.GetElapsedTime(began);
                Assert.Equal(0, log.Count("received"));
            }

            Assert.True(took < s_most, $"{how} took {took.TotalMilliseconds} ms");
            log.Until("received");
        }
    }

    [Fact]
    public async Task A_Restart_on_a_loop_whose_callback_waits_for_the_caller_throws_and_says_what_to_do()
    {
        await using OnEngine engine = await OnEngine.StartAsync(EngineKind.Epoll, Scheduling.Inline);
        object gate = new();
        Log log = new();
        using Server server = new(log, gate);
        Assert.True(server.Start());
        using Client client = new(log, gate, ((IPEndPoint)server.Endpoint).Port);
        Assert.True(client.Connect());
        lock (gate)
        {
            Assert.True(client.SendAsync("x"));
            log.Until("server waits");
            SocketException thrown = Assert.Throws<SocketException>(() => server.Restart());
            Assert.Equal(SocketError.TimedOut, thrown.SocketErrorCode);
            Assert.Contains("lock which the caller holds", thrown.Message, StringComparison.Ordinal);
            Assert.False(server.IsStarted);
        }

        log.Until("received");
        Log.Until(() => Starts(server), "the port");
    }

    private static bool Starts(UdpServer server)
    {
        try
        {
            return server.Start();
        }
        catch (SocketException e) when (e.SocketErrorCode == SocketError.AddressAlreadyInUse)
        {
            return false; // of the start that was given up, which closes now
        }
    }

    private static bool Done(Action action)
    {
        action();
        return true;
    }

    private sealed class Server(Log log, object gate) : UdpServer(IPAddress.Loopback, 0)
    {
        internal bool Echoes { get; set; }

        protected override void OnStarted() => ReceiveAsync();

        protected override void OnReceived(EndPoint endpoint, byte[] buffer, long offset, long size)
        {
            if (Echoes)
            {
                SendAsync(endpoint, buffer, offset, size);
                return;
            }

            log.Add("server waits");
            lock (gate) log.Add("received");
        }
    }

    private sealed class Client(Log log, object gate, int port) : UdpClient(IPAddress.Loopback, port)
    {
        protected override void OnReceived(EndPoint endpoint, byte[] buffer, long offset, long size)
        {
            log.Add("client waits");
            lock (gate) log.Add("received");
        }
    }
}
