using System.Net;
using System.Net.Sockets;
using System.Text.Json;

namespace Whimbrel.Tool.Tests;

// `whimbrel bench` against our own servers, and against servers with known delays and mistakes.
public sealed class LoadTests : IDisposable
{
    private static readonly string[] s_short = ["--warm-up", "0.1", "--duration", "0.5"];

    private readonly TemporaryFolder _folder = new();

    public void Dispose() => _folder.Dispose();

    [Theory]
    [InlineData("tcp")]
    [InlineData("tls")]
    [InlineData("ws")]
    [InlineData("wss")]
    [InlineData("http")]
    [InlineData("https")]
    [InlineData("udp")]
    [InlineData("unix")]
    public async Task Each_protocol_is_measured(string kind)
    {
        (RunningTool server, string[] target) = await ServeAsync(kind);
        await using RunningTool running = server;
        LoadRun run = await LoadRun.RunAsync([.. target, "--rate", "300", "--connections", "3", .. s_short]);
        Assert.True(run.ExitCode == 0, run.Text);
        // At 300 a second 150 messages are due in half a second, and one more at either edge.
        Assert.InRange(run.Count("due"), 149, 151);
        Assert.Equal(run.Count("due"), run.Count("answered"));
        Assert.InRange(run.LatencyMs("p50"), 0.001, 1000);
        Assert.Equal("open", run.Report.GetProperty("load").GetProperty("loop").GetString());
        if (kind.StartsWith("http", StringComparison.Ordinal))
            Assert.True(run.Cell.GetProperty("status").GetProperty("200").GetInt64() >= 150, run.Text);
    }

    [Theory]
    [InlineData("tcp", "1")]
    [InlineData("ws", "8KiB")]
    [InlineData("tcp", "1MiB")]
    public async Task Messages_of_each_size_are_compared_on_several_loops(string kind, string size)
    {
        (RunningTool server, string[] target) = await ServeAsync(kind);
        await using RunningTool running = server;
        LoadRun run = await LoadRun.RunAsync([.. target, "--rate", "50", "--connections", "4", "--loops", "2",
            "--size", size, .. s_short]);
        Assert.True(run.ExitCode == 0, run.Text);
        Assert.Equal(run.Count("due"), run.Count("answered"));
        Assert.InRange(run.Count("due"), 24, 27);
    }

    [Fact]
    public async Task A_closed_loop_says_so_and_sends_after_each_answer()
    {
        await using RunningTool server = await RunningTool.Serve("echo");
        LoadRun run = await LoadRun.RunAsync(["tcp", server.Address, "--closed-loop", "--connections", "2",
            "--server-pid", $"{server.Id}", .. s_short]);
        Assert.True(run.ExitCode == 0, run.Text);
        Assert.Equal("closed", run.Report.GetProperty("load").GetProperty("loop").GetString());
        Assert.Contains("CLOSED loop", run.Text, StringComparison.Ordinal);
        Assert.Contains("closed loop: each answer is followed by the next message", run.Text, StringComparison.Ordinal);
        Assert.False(run.Cell.TryGetProperty("rate", out _));
        Assert.True(run.Count("answered") > 100, run.Text);
        Assert.True(run.Cell.GetProperty("server_ns").GetDouble() > 0, run.Text);
    }

    // ------------------------------------------------------------------ known times

    [Fact]
    public async Task A_known_delay_of_the_server_is_in_each_percentile()
    {
        await using LoadServer server = LoadServer.Delaying(TimeSpan.FromMilliseconds(40));
        LoadRun run = await LoadRun.RunAsync(["tcp", server.Address, "--rate", "200", .. s_short]);
        Assert.True(run.ExitCode == 0, run.Text);
        Assert.InRange(run.LatencyMs("p50"), 40, 400);
        Assert.True(run.LatencyMs("max") >= run.LatencyMs("p90"), run.Text);
    }

    [Fact]
    public async Task A_pause_of_the_server_counts_for_each_message_that_was_due_in_it()
    {
        // The server pauses for 100 of each 200 ms. With one message in flight only one message of each pause is sent
        // before or in it, so the times from the sending hide it; those from the due moment do not.
        await using LoadServer server = LoadServer.StallingHalfOf(TimeSpan.FromMilliseconds(200));
        LoadRun run = await LoadRun.RunAsync("tcp", server.Address, "--rate", "400", "--in-flight", "1", "--warm-up",
            "0.1", "--duration", "2");
        Assert.InRange(run.LatencyMs("p90"), 50, 2000);
        Assert.True(run.ServiceMs("p90") < run.LatencyMs("p90") / 2, run.Text);
    }

    [Fact]
    public async Task A_server_below_the_rate_has_latencies_that_grow()
    {
        // 20 ms for each message, one after the other: 50 a second, and 100 are due.
        await using LoadServer server = LoadServer.Start(static async (socket, stop) =>
        {
            await foreach (byte[] piece in LoadServer.PiecesAsync(socket, stop))
            {
                // tidy: waits because the delay of the server is what is measured
                await Task.Delay(20, stop);
                await socket.SendAsync(piece, stop);
            }
        });
        LoadRun run = await LoadRun.RunAsync("tcp", server.Address, "--rate", "100", "--in-flight", "1", "--warm-up",
            "0", "--duration", "1", "--timeout", "30");
        Assert.Equal(run.Count("due"), run.Count("answered"));
        // The last message was due after 1 s and was answered after at least 100 times 20 ms.
        Assert.True(run.LatencyMs("max") >= 900, run.Text);
        Assert.True(run.ServiceMs("p50") < 500, run.Text);
    }

    // ------------------------------------------------------------------ servers that fail

    [Fact]
    public async Task A_server_that_stops_answering_ends_with_a_report()
    {
        // One answer for the probe, and ten more.
        await using LoadServer server = LoadServer.Start(static async (socket, stop) =>
        {
            int left = 11 * 32;
            await foreach (byte[] piece in LoadServer.PiecesAsync(socket, stop))
            {
                int count = Math.Min(left, piece.Length);
                left -= count;
                if (count > 0) await socket.SendAsync(piece.AsMemory(0, count), stop);
            }
        });
        LoadRun run = await LoadRun.RunAsync("tcp", server.Address, "--rate", "100", "--warm-up", "0", "--duration",
            "1", "--timeout", "0.5");
        Assert.Equal(1, run.ExitCode);
        Assert.Equal((10, run.Count("due") - 10), (run.Count("answered"), run.Count("unanswered")));
        Assert.True(run.LatencyMs("max") >= 1000, run.Text);
        Assert.Contains("messages had no answer 500 ms after the end", run.Text, StringComparison.Ordinal);
    }

    [Fact]
    public async Task At_the_limit_in_flight_further_messages_wait_and_count()
    {
        const int Size = 32, Limit = 5;
        long received = 0;
        await using LoadServer server = LoadServer.Start(async (socket, stop) =>
        {
            await foreach (byte[] piece in LoadServer.PiecesAsync(socket, stop))
            {
                // Only the probe is answered.
                if (Interlocked.Add(ref received, piece.Length) <= Size) await socket.SendAsync(piece, stop);
            }
        });
        LoadRun run = await LoadRun.RunAsync("tcp", server.Address, "--rate", "100", "--in-flight", "5", "--warm-up",
            "0", "--duration", "0.5", "--timeout", "0.2");
        Assert.Equal((1 + Limit) * Size, Interlocked.Read(ref received));
        Assert.Equal((Limit, run.Count("due")), (run.Count("sent"), run.Count("unanswered")));
    }

    [Theory]
    [InlineData("wrong", "the bytes after 0 are not those that were sent")]
    [InlineData("half", "16 of 32 bytes came back within")]
    [InlineData("twice", "64 bytes came back of 32 that were sent")]
    [InlineData("nothing", "0 of 32 bytes came back within")]
    [InlineData("close", "closed by the peer")]
    public async Task A_server_that_does_not_echo_is_noticed_before_the_load(string lie, string expected)
    {
        await using LoadServer server = lie == "close"
            ? LoadServer.Start(static async (socket, stop) => await socket.ReceiveAsync(new byte[64], stop))
            : LoadServer.Answering(piece => lie switch
            {
                "wrong" => [.. piece.Select(static b => (byte)~b)],
                "half" => piece[..(piece.Length / 2)],
                "twice" => [.. piece, .. piece],
                _ => [],
            });
        (int code, List<string> output, List<string> errors) = await RunningTool.Run(null, "bench", "tcp",
            server.Address, "--timeout", "0.5");
        Assert.Equal((1, 0), (code, output.Count));
        Assert.Contains(expected, errors[^1], StringComparison.Ordinal);
        Assert.EndsWith("bench tcp needs a server that sends every byte back, such as whimbrel serve echo.", errors[^1],
            StringComparison.Ordinal);
    }

    [Fact]
    public async Task Bytes_that_turn_wrong_later_are_counted_by_kind()
    {
        int pieces = 0;
        await using LoadServer server = LoadServer.Answering(piece =>
        {
            if (Interlocked.Increment(ref pieces) % 10 == 0) piece[^1]++;
            return piece;
        });
        LoadRun run = await LoadRun.RunAsync(["tcp", server.Address, "--rate", "200", .. s_short]);
        Assert.Equal(1, run.ExitCode);
        Assert.True(run.Cell.GetProperty("errors").GetProperty("wrong-echo").GetInt64() >= 2, run.Text);
        Assert.True(run.Count("answered") > 20 && run.Count("reconnects") >= 2, run.Text);
        Assert.Equal(run.Count("due"), run.Count("answered") + run.Count("lost") + run.Count("unanswered"));
    }

    [Fact]
    public async Task Resets_are_counted_and_the_connection_is_replaced()
    {
        await using LoadServer server = LoadServer.Start(static async (socket, stop) =>
        {
            int pieces = 0;
            await foreach (byte[] piece in LoadServer.PiecesAsync(socket, stop))
            {
                if (++pieces == 10)
                {
                    socket.LingerState = new LingerOption(true, 0);
                    return;
                }

                await socket.SendAsync(piece, stop);
            }
        });
        LoadRun run = await LoadRun.RunAsync(["tcp", server.Address, "--rate", "200", .. s_short]);
        Assert.Equal(1, run.ExitCode);
        Assert.True(run.Cell.GetProperty("errors").GetProperty("peer-reset").GetInt64() >= 2, run.Text);
        Assert.True(run.Count("reconnects") >= 2 && run.Count("lost") >= 2, run.Text);
        Assert.Contains("peer-reset", run.Text, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Statuses_are_counted_and_errors_of_them_exit_with_1()
    {
        await using RunningTool server = await RunningTool.Serve("http");
        LoadRun run = await LoadRun.RunAsync(["http", $"{server.Address}/status/503", "--rate", "100", .. s_short]);
        Assert.Equal(1, run.ExitCode);
        Assert.True(run.Cell.GetProperty("status").GetProperty("503").GetInt64() >= 49, run.Text);
        Assert.Equal(run.Count("due"), run.Count("answered"));
    }

    [Fact]
    public async Task A_server_that_closes_after_each_answer_is_connected_to_again()
    {
        await using LoadServer server = LoadServer.Start(static async (socket, stop) =>
        {
            await socket.ReceiveAsync(new byte[4096], stop);
            await socket.SendAsync(
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"u8.ToArray(), stop);
            socket.Shutdown(SocketShutdown.Send);
            await socket.ReceiveAsync(new byte[1], stop);
        });
        LoadRun run = await LoadRun.RunAsync(["http", server.Address, "--rate", "50", .. s_short]);
        Assert.True(run.ExitCode == 0, run.Text);
        Assert.Equal(run.Count("due"), run.Count("answered"));
        Assert.True(run.Count("reconnects") >= 24, run.Text);
    }

    [Fact]
    public async Task Datagrams_that_do_not_come_back_are_lost_and_in_no_percentile()
    {
        using Socket socket = new(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp);
        socket.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        using CancellationTokenSource stop = new();
        Task serving = Task.Run(async () =>
        {
            byte[] buffer = new byte[2048];
            for (int i = 0; ; i++)
            {
                SocketReceiveFromResult got = await socket.ReceiveFromAsync(buffer, new IPEndPoint(IPAddress.Any, 0),
                    stop.Token);
                if (i % 2 == 0) await socket.SendToAsync(buffer.AsMemory(0, got.ReceivedBytes), got.RemoteEndPoint);
            }
        });
        LoadRun run = await LoadRun.RunAsync(["udp", socket.LocalEndPoint!.ToString()!, "--rate", "200", "--timeout",
            "0.5", .. s_short]);
        Assert.True(run.ExitCode == 0, run.Text);
        Assert.Equal(run.Count("due"), run.Count("answered") + run.Count("lost"));
        Assert.InRange(run.Count("lost"), run.Count("due") / 2 - 2, run.Count("due") / 2 + 2);
        Assert.Contains("messages were lost, and are in no percentile", run.Text, StringComparison.Ordinal);
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => serving);
    }

    [Fact]
    public async Task A_place_without_a_server_is_one_line()
    {
        await using RunningTool gone = await RunningTool.Serve("echo");
        await gone.StopAsync();
        (int code, List<string> output, List<string> errors) =
            await RunningTool.Run(null, "bench", "tcp", gone.Address);
        Assert.Equal((1, 0), (code, output.Count));
        Assert.Contains("no socket listens there", errors[^1], StringComparison.Ordinal);
    }

    // ------------------------------------------------------------------ the driver

    [Fact]
    public async Task A_driver_that_did_not_run_refuses_to_report_the_cell()
    {
        await using RunningTool server = await RunningTool.Serve("echo");
        await using RunningTool tool = RunningTool.Start("bench", "tcp", server.Address, "--rate", "500", "--warm-up",
            "0", "--duration", "3", "--json", _folder["report.json"]);
        await tool.Error.ThatContains("3 s measured");
        // tidy: waits because the pause is to come within the measured time
        await Task.Delay(700, TestContext.Current.CancellationToken);
        await tool.SignalAsync("STOP");
        // tidy: waits because the length of the pause is the test
        await Task.Delay(500, TestContext.Current.CancellationToken);
        await tool.SignalAsync("CONT");
        string text = string.Join('\n', await tool.Out.ToEndAsync());
        Assert.Equal(3, await tool.ExitCodeAsync());
        Assert.Contains("REFUSED, the driver was the limit", text, StringComparison.Ordinal);
        Assert.Contains("--report-limited reports it anyway", text, StringComparison.Ordinal);
        using JsonDocument report = JsonDocument.Parse(await File.ReadAllTextAsync(_folder["report.json"],
            TestContext.Current.CancellationToken));
        JsonElement cell = report.RootElement.GetProperty("cells")[0];
        Assert.True(cell.GetProperty("refused").GetBoolean());
        Assert.False(cell.TryGetProperty("latency_ns", out _));
        Assert.Contains("away", cell.GetProperty("driver").GetProperty("limits").EnumerateArray()
            .Select(static l => l.GetString()));
    }

    [Fact]
    public async Task Ctrl_C_prints_what_was_measured_so_far()
    {
        await using RunningTool server = await RunningTool.Serve("echo");
        await using RunningTool tool = RunningTool.Start("bench", "tcp", server.Address, "--rate", "500", "--warm-up",
            "0", "--duration", "600", "--report-limited");
        await tool.Error.ThatContains("measured");
        // tidy: waits because something is to be measured
        await Task.Delay(1000, TestContext.Current.CancellationToken);
        await tool.SignalAsync("INT");
        string text = string.Join('\n', await tool.Out.ToEndAsync());
        Assert.Equal(1, await tool.ExitCodeAsync());
        Assert.Contains("interrupted after", text, StringComparison.Ordinal);
        Assert.Matches(@"(?m)^1 +500 +\d+ ", text);
    }

    [Fact]
    public async Task Several_connections_and_rates_are_cells_of_one_report()
    {
        await using RunningTool server = await RunningTool.Serve("echo");
        LoadRun run = await LoadRun.RunAsync("tcp", server.Address, "--rate", "50,100", "--connections", "1,3",
            "--warm-up", "0", "--duration", "0.2");
        Assert.Equal(["1/50", "1/100", "3/50", "3/100"], run.Report.GetProperty("cells").EnumerateArray()
            .Select(static c => $"{c.GetProperty("connections")}/{c.GetProperty("rate")}"));
    }

    // ------------------------------------------------------------------ arguments

    [Theory]
    [InlineData("A command is missing.", "tcp|tls|ws|http|udp", "bench")]
    [InlineData("An address is missing.", "tcp", "bench", "tcp")]
    [InlineData("bench tcp, which takes HOST:PORT or tcp://", "tcp", "bench", "tcp", "http://a")]
    [InlineData("http:// has no TLS", "http", "bench", "http", "http://a", "--ca", "x")]
    [InlineData("--rate or --closed-loop", "tcp", "bench", "tcp", "a:1", "--rate", "5", "--closed-loop")]
    [InlineData("--rate takes numbers from 1 to 10000000, not '0'", "tcp", "bench", "tcp", "a:1", "--rate", "0")]
    [InlineData("to 20000, not '20001'", "tcp", "bench", "tcp", "a:1", "--connections", "20001")]
    [InlineData("are 65 cells, allowed 1 to 64", "tcp", "bench", "tcp", "a:1", "--connections", "1,2,3,4,5",
        "--rate", "1,2,3,4,5,6,7,8,9,10,11,12,13")]
    [InlineData("--size takes a size from 1 to 1048576", "tcp", "bench", "tcp", "a:1", "--size", "1048577")]
    [InlineData("--size of a datagram is 16 to", "udp", "bench", "udp", "a:1", "--size", "15")]
    [InlineData("--in-flight takes a number from 1 to 65536", "ws", "bench", "ws", "ws://a", "--in-flight", "65537")]
    [InlineData("are 20000000 messages, allowed 1 to 16777216", "tcp", "bench", "tcp", "a:1", "--connections",
        "1,20000", "--in-flight", "1000")]
    [InlineData("--server-pid takes the number of a running process", "tcp", "bench", "tcp", "a:1", "--server-pid",
        "2147483647")]
    [InlineData("'--in-flight' is not known here", "http", "bench", "http", "http://a", "--in-flight", "2")]
    public Task Wrong_arguments_are_one_line_with_the_usage(string expected, string kind, params string[] arguments) =>
        RunningTool.AssertRefused(expected, $"whimbrel bench {kind} ADDRESS", arguments);

    [Fact]
    public async Task A_report_that_cannot_be_written_is_noticed_before_the_load()
    {
        (int code, _, List<string> errors) = await RunningTool.Run(null, "bench", "tcp", "127.0.0.1:9", "--json",
            _folder["none/report.json"]);
        Assert.Equal(1, code);
        Assert.Contains("report.json", Assert.Single(errors), StringComparison.Ordinal);
    }

    private async Task<(RunningTool Server, string[] Target)> ServeAsync(string kind)
    {
        if (kind == "unix")
            return (await RunningTool.Serve("echo", "--unix", _folder["echo.sock"]),
                ["tcp", $"unix:{_folder["echo.sock"]}"]);
        if (kind == "udp")
        {
            RunningTool datagrams = await RunningTool.Serve("udp");
            return (datagrams, ["udp", datagrams.Address]);
        }

        bool isSecure = kind is "tls" or "wss" or "https";
        string service = kind[0] switch { 't' => "echo", 'w' => "ws", _ => "http" };
        if (!isSecure)
        {
            RunningTool plain = await RunningTool.Serve(service);
            return (plain, [kind, plain.Address]);
        }

        Assert.Equal(0, (await RunningTool.Run(null, "certs", "--out", _folder.Path, "--san", "localhost")).ExitCode);
        RunningTool server = await RunningTool.Serve(service, "--cert", _folder["server.pem"], "--key",
            _folder["server.key"]);
        return (server, [kind.TrimEnd('s') is "tl" ? "tls" : kind[..^1],
            $"{kind}://localhost:{((IPEndPoint)server.EndPoint).Port}/".TrimEnd(kind == "tls" ? '/' : ' '),
            "--ca", _folder["ca.pem"]]);
    }
}
