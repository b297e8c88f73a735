using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Tool;

/// <summary>
/// <c>whimbrel serve udp</c> and <c>serve multicast</c>. Prints the start line, answers to benchmark signals and
/// finally the totals on stdout; everything else goes to stderr.
/// </summary>
internal static class ServeDatagramsCommand
{
    // Bursts wait in this buffer while the loop is busy; the system may limit it.
    private const int SocketBufferBytes = 1024 * 1024;

    internal static Task<int> RunUdpAsync(UdpSettings settings, DatagramSettings common) =>
        DatagramRun.GuardAsync(common, settings.Loops, async (engine, stop, notices) =>
        {
            List<UdpEcho> echoes = [];
            EndPoint endPoint = settings.Address.ToEndPoint() is DnsEndPoint name
                ? new IPEndPoint(IPAddress.Loopback, name.Port)
                : settings.Address.ToEndPoint();
            await using DatagramSocket socket = new(
                new DatagramOptions
                {
                    Engine = engine,
                    EndPoint = endPoint,
                    Loops = settings.Loops,
                    Segmentation = settings.Offload,
                    Coalescing = settings.Offload,
                    ReceiveBufferBytes = SocketBufferBytes,
                    SendBufferBytes = SocketBufferBytes
                },
                () =>
                {
                    UdpEcho echo = new(settings.SourceRate);
                    lock (echoes) echoes.Add(echo);
                    return echo;
                });
            await socket.StartAsync();
            Console.Out.WriteLine($"listening on {socket.EndPoint} (engine {engine.KindName}, loops "
                + $"{settings.Loops switch { 0 => engine.LoopCount, var n => n }})");
            Console.Error.WriteLine($"serving udp; Ctrl-C ends. Talk to it: {HowToTalk(socket.EndPoint!)}");
            await DatagramRun.UntilStopAsync(socket, common, stop);
            long limited;
            lock (echoes) limited = echoes.Sum(static e => e.Limited);
            DatagramRun.PrintTotals(socket, settings.SourceRate > 0 ? $", {limited} limited" : "");
            return ExitCode.Done;
        });

    internal static Task<int> RunMulticastAsync(MulticastSettings settings, DatagramSettings common) =>
        DatagramRun.GuardAsync(common, 1, async (engine, stop, notices) =>
        {
            EndPoint any = new IPEndPoint(
                settings.Group.AddressFamily == AddressFamily.InterNetwork ? IPAddress.Any : IPAddress.IPv6Any, 0);
            await using DatagramSocket socket = new(
                new DatagramOptions
                {
                    Engine = engine,
                    EndPoint = any,
                    MulticastInterface = settings.Interface,
                    MulticastHops = settings.Hops,
                    MulticastLoopback = settings.Loopback,
                    SendBufferBytes = SocketBufferBytes
                },
                () => new MulticastSender(settings, notices));
            await socket.StartAsync();
            Console.Out.WriteLine($"sending to {settings.Group} from port {((IPEndPoint)socket.EndPoint!).Port} "
                + $"(engine {engine.KindName})");
            string reach = settings.Hops switch
            {
                0 => "it stays on this machine",
                1 => "it stays on this network",
                _ => $"it may pass {settings.Hops - 1} routers"
            };
            string loopback = settings.Loopback
                ? "loopback is on, so members on this machine get it too"
                : "loopback is off, so members on this machine do not get it";
            Console.Error.WriteLine($"{settings.Rate} datagrams of {settings.Size} bytes a second; {loopback}; "
                + $"{reach}. Ctrl-C ends. Listen to it: whimbrel join {settings.Group}");
            await DatagramRun.UntilStopAsync(socket, common, stop);
            DatagramRun.PrintTotals(socket, "");
            DatagramCounters counters = socket.ReadCounters();
            return counters is { DatagramsSent: 0, Failed: > 0 } ? ExitCode.Failed : ExitCode.Done;
        });

    private static string HowToTalk(EndPoint endPoint)
    {
        if (endPoint is not IPEndPoint ip) return $"whimbrel connect --udp --unix {endPoint}";
        if (ip.Address.Equals(IPAddress.Any) || ip.Address.Equals(IPAddress.IPv6Any))
            ip = new IPEndPoint(IPAddress.Loopback, ip.Port);
        return $"whimbrel connect udp://{ip}, or nc -u {ip.Address} {ip.Port}";
    }
}
