using System.Diagnostics;
using System.Globalization;
using System.Net;
using Whimbrel.Tool.Tests;

namespace Whimbrel.Dashboard.Tests;

// CPU of the process with many connections, without and with a viewer: ./test --deep --project Whimbrel.Dashboard.Tests
// --filter Cost, which prints the figures of the guide.
[Trait("Runs", "alone")]
public class CostTests
{
    private const int Connections = 10_000;

    // Several addresses, because one has too few ports.
    private const string Clients = """
        import socket, sys
        port, count, all = int(sys.argv[1]), int(sys.argv[2]), []
        for i in range(count):
            client = socket.socket()
            client.bind((f"127.0.0.{2 + i % 3}", 0))
            client.connect(("127.0.0.1", port))
            all.append(client)
        print("connected", flush=True)
        sys.stdin.read()
        """;

    private static readonly TimeSpan _time = TimeSpan.FromSeconds(10);

    [Fact]
    public async Task Cost_with_10_000_connections_is_nothing_without_a_viewer_and_small_with_one()
    {
        Assert.SkipUnless(Depth.IsDeep, "Takes a minute: ./test --deep");
        OtherProgram.Needs("python3");
        await using Site site = await Site.StartAsync();
        // Another process, because one would need two descriptors for each connection.
        using Process clients = OtherProgram.Start("python3", "-c", Clients,
            ((IPEndPoint)site.Server.EndPoint!).Port.ToString(CultureInfo.InvariantCulture), $"{Connections}");
        try
        {
            _ = clients.StandardError.ReadToEndAsync(CancellationToken.None);
            await new Lines(clients.StandardOutput, "the clients").ThatContains("connected");
            await Site.UntilAsync(() => site.Server.SessionCount == Connections, "all connections");
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
            clients.Kill();
            await clients.WaitForExitAsync(CancellationToken.None);
        }
    }

    private static async Task<double> ViewAsync(Page page, object view, string name)
    {
        await page.AskAsync(view);
        using CancellationTokenSource end = new();
        int updates = 0;
        Task reading = ReadAsync();
        double percent = await MeasureAsync(name, () => Volatile.Read(ref updates));
        await end.CancelAsync();
        await reading;
        return percent;

        async Task ReadAsync()
        {
            for (; !end.IsCancellationRequested; Interlocked.Increment(ref updates)) await page.NextAsync();
        }
    }

    // CPU of this process in percent of one CPU. On a busy machine there are fewer updates, so their cost is printed.
    private static async Task<double> MeasureAsync(string name, Func<int>? updates = null)
    {
        // tidy: waits because the JIT and earlier work settle first
        await Task.Delay(3000, Site.End);
        TimeSpan before = Environment.CpuUsage.TotalTime;
        int first = updates?.Invoke() ?? 0;
        long begin = Stopwatch.GetTimestamp();
        // tidy: waits because this is the time that is measured
        await Task.Delay(_time, Site.End);
        TimeSpan used = Environment.CpuUsage.TotalTime - before;
        double percent = 100 * used / Stopwatch.GetElapsedTime(begin);
        int count = (updates?.Invoke() ?? 0) - first;
        TestContext.Current.TestOutputHelper?.WriteLine(string.Create(CultureInfo.InvariantCulture,
            $"{Connections} connections, {name}: {percent:0.00} % of a CPU, {count} updates, "
            + $"{(count == 0 ? 0 : used.TotalMilliseconds / count):0.0} ms of CPU for each"));
        return percent;
    }
}
