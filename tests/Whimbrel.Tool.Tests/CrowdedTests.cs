using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Tool.Tests;

// Processes that run out of descriptors: they keep running, serve existing clients, report it, and stop normally.
public sealed class CrowdedTests
{
    private static readonly int s_ownLimit = OperatingSystem.IsLinux() ? LimitOf("self") : 0;

    public static TheoryData<string, string, int, int> Crowds
    {
        get
        {
            TheoryData<string, string, int, int> rows = [];
            foreach (string engine in (string[])["epoll", "uring", "portable"])
            {
                foreach (string scheduling in (string[])["inline", "pool"])
                {
                    rows.Add(engine, scheduling, 256, 0);
                    rows.Add(engine, scheduling, 1024, 200);
                }
            }

            rows.Add("epoll", "inline", 100, 0);
            rows.Add("uring", "pool", 100, 0);
            rows.Add("epoll", "pool", 4096, 200);
            rows.Add("uring", "inline", 20_000, 200);
            rows.Add("epoll", "inline", 20_000, 200);
            return rows;
        }
    }

    [Theory]
    [MemberData(nameof(Crowds))]
    public Task At_the_connection_limit_new_connections_are_rejected_and_SIGTERM_drains(string engine,
        string scheduling, int limit, int left) =>
        CrowdAsync(engine, scheduling, limit, left, high: 0);

    [Theory]
    [InlineData("epoll")]
    [InlineData("uring")]
    [InlineData("portable")]
    public Task Descriptors_that_the_program_holds_at_the_top_do_not_count_as_free(string engine) =>
        CrowdAsync(engine, "inline", 512, left: 200, high: 80);

    // The program opened thousands of connections after its server started, and as many connect at the same time: all
    // are in the backlog before a loop accepts the first.
    [Theory]
    [InlineData("epoll")]
    [InlineData("uring")]
    [InlineData("portable")]
    public Task A_burst_that_comes_while_the_loops_stand_leaves_what_the_runtime_needs(string engine) =>
        CrowdAsync(engine, "inline", 20_000, left: 200, high: 0, isBurst: true);

    [Theory]
    [InlineData("epoll")]
    [InlineData("uring")]
    [InlineData("portable")]
    public async Task Where_the_margin_cannot_be_kept_the_start_fails_with_the_limit_in_its_message(string engine)
    {
        NeedsEngine(engine, 58);
        using var process = Start(engine, "inline", 58, 0, 0);
        var error = new Lines(process.StandardError, "stderr");
        string text = string.Join('\n', await error.ToEndAsync());
        await process.WaitForExitAsync(TestContext.Current.CancellationToken);
        Assert.Equal(1, process.ExitCode);
        Assert.StartsWith($"Cannot start {engine} with 2 loops: of the 58 file descriptors", text,
            StringComparison.Ordinal);
    }

    private static async Task CrowdAsync(string engine, string scheduling, int limit, int left, int high,
        bool isBurst = false)
    {
        NeedsEngine(engine, limit);
        using var process = Start(engine, scheduling, limit, left, high);
        var output = new Lines(process.StandardOutput, "stdout");
        var error = new Lines(process.StandardError, "stderr");
        var clients = new List<Client>();
        try
        {
            int port = int.Parse((await output.ThatContains("listening "))[10..], CultureInfo.InvariantCulture);
            int room = left > 0 ? left : limit;
            if (isBurst)
            {
                await process.StandardInput.WriteLineAsync("hold");
                for (int loop = 0; loop < 2; loop++) await output.ThatContains("holding");
            }

            for (int i = 0; i < room + 50; i++) clients.Add(new Client(port));
            if (isBurst) await process.StandardInput.WriteLineAsync("go");
            // At the limit a client is shed; until then each is served.
            await Until(() => clients.Exists(static c => c.WasShed) && clients.Exists(static c => c.IsServed),
                "a client to be shed");
            await Deadline.Within(
                async cancellation =>
                {
                    while (true)
                    {
                        await process.StandardInput.WriteLineAsync("now".AsMemory(), cancellation);
                        string line = await output.ThatContains("now ");
                        if (int.Parse(line[4..], CultureInfo.InvariantCulture) == clients.Count(static c => c.IsServed))
                            return 0;
                        await Task.Delay(10, cancellation); // tidy: waits because responses are in transit
                    }
                },
                () => $"all sessions to be served; {clients.Count(static c => c.IsServed)} are");
            using (var kill = Process.Start("kill", ["-TERM", process.Id.ToString(CultureInfo.InvariantCulture)]))
                await kill.WaitForExitAsync(TestContext.Current.CancellationToken);
            string[] totals = (await output.ThatContains("accepted ")).Split(' ');
            await Deadline.Within(
                async cancellation =>
                {
                    await process.WaitForExitAsync(cancellation);
                    return 0;
                },
                () => "the end of the process");
            Assert.Equal(0, process.ExitCode);
            Assert.InRange(long.Parse(totals[1], CultureInfo.InvariantCulture), clients.Count(static c => c.IsServed),
                clients.Count);
            Assert.InRange(long.Parse(totals[3], CultureInfo.InvariantCulture), 1, clients.Count);
            Assert.Equal(1, int.Parse(totals[5], CultureInfo.InvariantCulture));
        }
        catch (Exception e) when (process.HasExited)
        {
            throw new InvalidOperationException(
                $"It ended with {process.ExitCode}: {string.Join('\n', await error.ToEndAsync())}", e);
        }
        finally
        {
            foreach (Client client in clients) client.Dispose();
            if (!process.HasExited) process.Kill();
            await process.WaitForExitAsync(CancellationToken.None);
        }
    }

    private static Process Start(string engine, string scheduling, int limit, int left, int high)
    {
        string program = BuiltProgram.PathOf("CrowdedServer");
        string command = string.Create(CultureInfo.InvariantCulture,
            $"ulimit -n {limit} && exec dotnet '{program}' {engine} {scheduling} {left} {high}");
        return Process.Start(new ProcessStartInfo("sh", ["-c", command])
        {
            RedirectStandardInput = true,
            RedirectStandardOutput = true,
            RedirectStandardError = true
        })!;
    }

    private static void NeedsEngine(string engine, int limit)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Needs the descriptor limit of Linux.");
        Assert.SkipUnless(limit <= s_ownLimit, $"The limit of this process is {s_ownLimit}.");
        EngineSupport support = Engine.SupportFor(Enum.Parse<EngineKind>(engine, ignoreCase: true));
        Assert.SkipUnless(support.IsAvailable, support.Reason);
    }

    private static int LimitOf(string process) =>
        int.Parse(File.ReadLines($"/proc/{process}/limits")
            .First(static l => l.StartsWith("Max open files", StringComparison.Ordinal))[14..]
            .Split(' ', StringSplitOptions.RemoveEmptyEntries)[1], CultureInfo.InvariantCulture);

    private static async Task Until(Func<bool> condition, string what) => await Deadline.Within(
        async cancellation =>
        {
            while (!condition()) await Task.Delay(5, cancellation); // tidy: waits because other tasks set the state
            return 0;
        },
        () => what);

    // Sends a line, and records whether it is answered or closed.
    private sealed class Client : IDisposable
    {
        private readonly Socket _socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        private volatile bool _isServed;
        private volatile bool _wasShed;

        internal Client(int port)
        {
            _socket.Connect(IPAddress.Loopback, port);
            _ = TalkAsync();
        }

        internal bool IsServed => _isServed;

        internal bool WasShed => _wasShed;

        private async Task TalkAsync()
        {
            byte[] answer = new byte[5];
            try
            {
                await _socket.SendAsync("hello"u8.ToArray());
                int count = await _socket.ReceiveAsync(answer);
                if (count > 0) _isServed = true;
                else _wasShed = true;
            }
            catch (SocketException)
            {
                _wasShed = true;
            }
            catch (ObjectDisposedException)
            {
                // The test is over.
            }
        }

        public void Dispose() => _socket.Dispose();
    }
}
