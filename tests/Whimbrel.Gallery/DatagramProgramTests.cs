using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Gallery;

// Programs over UDP.
public sealed class DatagramProgramTests
{
    [Fact]
    public async Task Statsd_adds_counters_gauges_and_timings()
    {
        await using RunningProgram statsd = await RunningProgram.StartAsync("statsd", "127.0.0.1:0", "0.5");
        using UdpClient client = new();
        client.Connect(statsd.EndPoint);
        // The lines of one datagram are in one interval.
        client.Send("logins:1|c\nlogins:1|c|@0.5\nusers:7|g\nanswer:10|ms\nanswer:30|ms\nnonsense\n"u8.ToArray());
        Assert.Equal("logins 6/s", await statsd.ReadLineAsync());
        Assert.Equal("users 7", await statsd.ReadLineAsync());
        Assert.Equal("answer 2 times, mean 20 ms, at most 30 ms", await statsd.ReadLineAsync());
        Assert.Equal("1 lines rejected", await statsd.ReadLineAsync());
        await statsd.StopAsync();
    }

    [Fact]
    public async Task Numbers_of_a_multicast_feed_come_in_order()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The loopback interface has another name elsewhere.");
        // A group of its own: another run on this machine may send at the same time.
        IPAddress group = new([239, 1, (byte)Random.Shared.Next(256), (byte)Random.Shared.Next(1, 255)]);
        await using RunningProgram receiver =
            await RunningProgram.StartAsync("multicast", "receive", $"{group}:0", "lo");
        await using RunningProgram sender =
            await RunningProgram.StartAsync("multicast", "send", $"{group}:{receiver.Port}", "lo");
        for (int number = 1; number <= 5; number++)
            Assert.Matches($"^{number} price \\d+$", await receiver.ReadLineAsync());
        await sender.StopAsync();
        await receiver.StopAsync();
    }
}
