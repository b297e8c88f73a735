using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using NetCoreServer;
using Whimbrel.Compat.Tests.Connections;
using UdpClient = NetCoreServer.UdpClient;

namespace Whimbrel.Compat.Tests.Datagrams;

// What an end of a UDP object waits for: queued datagrams, a port that is not shared, and its own running callback; and
// not for the loop, which another object may keep busy.
public sealed class UdpEndTests : IAsyncDisposable
{
    private readonly Engine _engine = new(new EngineOptions { Loops = 1 });

    public UdpEndTests() => CompatOptions.Engine = _engine;

    public async ValueTask DisposeAsync()
    {
        CompatOptions.Engine = null;
        await _engine.DisposeAsync();
    }

    /// <summary>Blocks the only loop until the returned event is set.</summary>
    private ManualResetEventSlim BlockLoop(out Task ended)
    {
        ManualResetEventSlim busy = new(), goOn = new();
        ended = _engine.PostAsync(() =>
        {
            busy.Set();
            Assert.True(goOn.Wait(Log.Patience));
        }).AsTask();
        Assert.True(busy.Wait(Log.Patience));
        return goOn;
    }

    [Fact]
    public async Task Clients_of_a_group_disconnect_while_their_loop_is_busy()
    {
        int port = FreePort();
        Member[] members = [.. Enumerable.Range(0, 100).Select(_ => new Member(port))];
        Assert.All(members, static member => Assert.True(member.Connect()));
        ManualResetEventSlim goOn = BlockLoop(out Task ended);
        Assert.All(members, static member => Assert.True(member.Disconnect()));
        Assert.False(ended.IsCompleted); // none of them has waited for the loop
        Assert.All(members, static member => Assert.True(member is { IsConnected: false, IsSocketDisposed: true }));
        goOn.Set();
        await ended;
        Assert.All(members, static member => Assert.True(member.Connect())); // at the same port
        Assert.All(members, static member => member.Dispose());
    }

    [Fact]
    public async Task A_port_that_is_still_closing_is_waited_for_by_another_object()
    {
        using Member member = new(FreePort());
        Assert.True(member.Connect());
        ManualResetEventSlim goOn = BlockLoop(out Task ended);
        Assert.True(member.Disconnect());
        await using Engine other = new(new EngineOptions { Loops = 1 });
        CompatOptions.Engine = other;
        using UdpServer alone = new(IPAddress.Any, member.Port);
        Task<bool> starting = Task.Run(alone.Start);
        Task aWhile = Task.Delay(100, TestContext.Current.CancellationToken); // tidy: waits because nothing may happen
        Assert.Same(aWhile, await Task.WhenAny(starting, aWhile));
        goOn.Set();
        await ended;
        Assert.True(await starting.WaitAsync(Log.Patience));
    }

    [Fact]
    public void A_port_of_another_object_throws_as_before()
    {
        using UdpServer first = new(IPAddress.Loopback, 0);
        Assert.True(first.Start());
        using UdpServer second = new(IPAddress.Loopback, ((IPEndPoint)first.Endpoint).Port);
        Assert.Equal(SocketError.AddressAlreadyInUse, Assert.Throws<SocketException>(() => second.Start())
            .SocketErrorCode);
    }

    [Fact]
    public void A_Disconnect_waits_for_the_callback_that_runs_and_no_queued_one_begins_later()
    {
        using ManualResetEventSlim began = new(), goOn = new();
        using Slow client = new(began, goOn);
        Assert.True(client.Connect());
        Assert.True(client.SendAsync("runs") && client.SendAsync("never begins"));
        Assert.True(began.Wait(Log.Patience));
        long start = Stopwatch.GetTimestamp();
        Assert.True(client.Disconnect()); // UdpEndingTests has the other side: it does not wait much longer
        Assert.True(Stopwatch.GetElapsedTime(start) >= TimeSpan.FromMilliseconds(190));
        goOn.Set();
        Assert.True(client.Connect() && client.SendAsync("again"));
        Log.Until(() => client.Calls == 2, "the callback of the second connection");
        Assert.True(client.Disconnect());
        Assert.Equal(2, client.Calls);
    }

    private static int FreePort()
    {
        using Socket socket = new(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp);
        socket.Bind(new IPEndPoint(IPAddress.Any, 0));
        return ((IPEndPoint)socket.LocalEndPoint!).Port;
    }

    private sealed class Member : UdpClient
    {
        internal Member(int port)
            : base(IPAddress.Any, port) => SetupMulticast(true);

        protected override void OnConnected() => ReceiveAsync();
    }

    private sealed class Slow(ManualResetEventSlim began, ManualResetEventSlim goOn) : UdpClient(IPAddress.Loopback, 9)
    {
        private int _calls;

        internal int Calls => Volatile.Read(ref _calls);

        protected override void OnSent(EndPoint endpoint, long sent)
        {
            began.Set();
            Assert.True(goOn.Wait(Log.Patience));
            Interlocked.Increment(ref _calls);
        }
    }
}
