using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using Whimbrel.Tool.Tests;

namespace Whimbrel.Dashboard.Tests;

// CPU of the process with many connections, without and with a viewer: ./test --deep --project Whimbrel.Dashboard.Tests
// --filter Cost, which prints the figures of the guide.
[Trait("Runs", "alone")]
public class CostTests
{
    private const int Connections = 10_000;
    private static readonly TimeSpan _time = TimeSpan.FromSeconds(10);

    [Fact]
    public async Task Cost_with_10_000_connections_is_nothing_without_a_viewer_and_small_with_one()
    {
        Assert.SkipUnless(Environment.GetEnvironmentVariable("WHIMBREL_DEEP") == "1", "Takes a minute: ./test --deep");
        await using Site site = await Site.StartAsync();
        List<Socket> sockets = [];
        try
        {
            await ConnectAllAsync(site, sockets);
            double idle = await MeasureAsync("no viewer");
            using Page page = await site.OpenAsync();
            double overview = await ViewAsync(page, new { view = "overview" }, "overview");
            double sorted = await ViewAsync(page, new { view = "connections", sort = "bytes" }, "connections by bytes");
            double filtered =
                await ViewAsync(page, new { view = "connections", filter = "127.0.0.3:" }, "with a filter");
            Assert.InRange(idle, 0, 0.5);
            Assert.All((double[])[overview, sorted, filtered], static percent => Assert.InRange(percent, 0, 5));
        }
        finally
        {
            sockets.ForEach(static s => s.Dispose());
        }
    }

    private static async Task ConnectAllAsync(Site site, List<Socket> sockets)
    {
        try
        {
            for (int i = 0; i < Connections; i++)
            {
                Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
                sockets.Add(socket);
                // Several addresses, because one has too few ports.
                socket.Bind(new IPEndPoint(IPAddress.Parse($"127.0.0.{2 + (i % 3)}"), 0));
                await socket.ConnectAsync(site.Server.EndPoint!, Site.End);
            }
        }
        catch (SocketException e) when (e.SocketErrorCode == SocketError.TooManyOpenSockets)
        {
            Assert.Skip($"{Connections} connections need {2 * Connections} descriptors: ulimit -n");
        }

        await Site.UntilAsync(() => site.Server.SessionCount == Connections, "all connections");
    }

    private static async Task<double> ViewAsync(Page page, object view, string name)
    {
        await page.AskAsync(view);
        using CancellationTokenSource end = new();
        Task reading = ReadAsync(page, end.Token);
        double percent = await MeasureAsync(name);
        await end.CancelAsync();
        await reading;
        return percent;
    }

    private static async Task ReadAsync(Page page, CancellationToken end)
    {
        while (!end.IsCancellationRequested) await page.NextAsync();
    }

    // CPU of this process in percent of one CPU.
    private static async Task<double> MeasureAsync(string name)
    {
        // tidy: waits because the JIT and earlier work settle first
        await Task.Delay(3000, Site.End);
        TimeSpan before = Environment.CpuUsage.TotalTime;
        long begin = Stopwatch.GetTimestamp();
        // tidy: waits because this is the time that is measured
        await Task.Delay(_time, Site.End);
        double percent = 100 * (Environment.CpuUsage.TotalTime - before) / Stopwatch.GetElapsedTime(begin);
        TestContext.Current.TestOutputHelper?.WriteLine(string.Create(CultureInfo.InvariantCulture,
            $"{Connections} connections, {name}: {percent:0.00} % of a CPU"));
        return percent;
    }
}
