using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Tool.Tests;

// What `whimbrel join` counts, and what a sender reports, with the handlers in this process.
public sealed class DatagramPartTests : IAsyncDisposable
{
    private readonly Engine _engine = new(new EngineOptions { Loops = 1 });
    private readonly LinePrinter _lines = new();

    public async ValueTask DisposeAsync()
    {
        await _lines.DisposeAsync();
        await _engine.DisposeAsync();
    }

    private async Task<(DatagramSocket Socket, GroupMember Member)> JoinAsync()
    {
        GroupMember member = new(new JoinSettings(new IPEndPoint(IPAddress.Loopback, 0), null, [], 0, Quiet: true),
            _lines, static _ => { });
        DatagramSocket socket = new(new DatagramOptions
        {
            Engine = _engine,
            EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
            ReceiveBufferBytes = 1 << 20
        }, () => member);
        await socket.StartAsync();
        return (socket, member);
    }

    private static void Send(Socket from, DatagramSocket to, ulong number)
    {
        byte[] message = new byte[PushMessage.MinSize];
        PushMessage.Write(message, number);
        from.SendTo(message, to.EndPoint!);
    }

    private static async Task UntilAsync(Func<bool> isSo)
    {
        using CancellationTokenSource end =
            CancellationTokenSource.CreateLinkedTokenSource(TestContext.Current.CancellationToken);
        end.CancelAfter(TimeSpan.FromSeconds(30));
        // tidy: waits because counts are polled
        while (!isSo()) await Task.Delay(2, end.Token);
    }

    [Fact]
    public async Task A_late_datagram_is_no_longer_missing()
    {
        (DatagramSocket socket, GroupMember member) = await JoinAsync();
        using Socket from = new(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp);
        int count = 0;
        foreach ((ulong number, long missing) in ((ulong, long)[])[(1, 0), (5, 3), (3, 2), (2, 1), (6, 1), (4, 0)])
        {
            Send(from, socket, number);
            count++;
            await UntilAsync(() => member.Count == count);
            Assert.Equal((number, missing), (number, member.Missing));
        }

        await socket.DisposeAsync();
    }

    [Fact]
    public async Task A_thousand_senders_are_counted_and_the_others_together()
    {
        (DatagramSocket socket, GroupMember member) = await JoinAsync();
        List<Socket> senders = []; // open until the end, so that each has a port of its own
        for (int i = 1; i <= 1001; i++)
        {
            senders.Add(new Socket(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp));
            Send(senders[^1], socket, 7);
            await UntilAsync(() => member.Count == i);
            Assert.Equal(Math.Min(i, 1000), member.Sources);
        }

        senders.ForEach(static s => s.Dispose());
        await socket.DisposeAsync();
    }

    [Fact]
    public async Task A_sender_reports_the_first_of_its_failures_only()
    {
        List<string> told = [];
        // A socket for IPv4 cannot send there.
        MulticastSettings settings = new(new IPEndPoint(IPAddress.IPv6Loopback, 0), null, 1, true, Rate: 1000, 32);
        DatagramSocket socket = new(
            new DatagramOptions { Engine = _engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) },
            () => new MulticastSender(settings, told.Add));
        await socket.StartAsync();
        await UntilAsync(() => socket.ReadCounters().Failed >= 5);
        await socket.DisposeAsync();
        Assert.StartsWith("whimbrel: ", Assert.Single(told), StringComparison.Ordinal);
    }
}
