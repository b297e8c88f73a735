using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using System.Security.Cryptography;
using System.Text;
using System.Text.Json;
using Whimbrel.Http;

namespace Whimbrel.Tool.Tests;

// `whimbrel get` with `whimbrel serve http`, plain and over TLS, and without a server.
public sealed class GetTests : IDisposable
{
    private readonly TemporaryFolder _folder = new();

    public void Dispose() => _folder.Dispose();

    private static async Task<(int Code, string Out, string Error)> GetAsync(string? input, params string[] arguments)
    {
        (int code, List<string> output, List<string> errors) = await RunningTool.Run(input, ["get", .. arguments]);
        return (code, string.Join('\n', output), string.Join('\n', errors));
    }

    private static byte[] Random(int length)
    {
        byte[] bytes = new byte[length];
        new Random(length).NextBytes(bytes);
        return bytes;
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Bodies_go_both_ways_from_files_and_from_stdin(bool isTls)
    {
        var (server, site, trust) = await ServeAsync(isTls);
        await using RunningTool running = server;
        foreach ((string method, int length) in ((string, int)[])[("--post", 0), ("--put", 500_000),
            ("--post", 3_000_000)])
        {
            byte[] bytes = Random(length);
            await File.WriteAllBytesAsync(_folder["sent"], bytes, TestContext.Current.CancellationToken);
            Assert.Equal((0, "", ""),
                await GetAsync(null, [.. trust, method, _folder["sent"], "-o", _folder["got"], $"{site}/echo"]));
            Assert.Equal(SHA256.HashData(bytes),
                SHA256.HashData(await File.ReadAllBytesAsync(_folder["got"], TestContext.Current.CancellationToken)));
        }

        Assert.Equal((0, "from stdin", ""), await GetAsync("from stdin", [.. trust, "--post", "-", $"{site}/echo"]));
        Assert.Equal((0, "", ""), await GetAsync("value", [.. trust, "--put", "-", $"{site}/cache?key=a"]));
        Assert.Equal((0, "value", ""), await GetAsync(null, [.. trust, $"{site}/cache?key=a"]));
        Assert.Equal((0, "", ""), await GetAsync(null, [.. trust, "--method", "DELETE", $"{site}/cache?key=a"]));
        Assert.Contains("\"name\":\"X-One\",\"value\":\"1: 2, 3\"",
            (await GetAsync(null, [.. trust, "-H", "X-One: 1: 2, 3", "--header", "X-Two:", $"{site}/headers"])).Out,
            StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_server_on_a_unix_socket_is_asked_like_any_other()
    {
        await using var tool = await RunningTool.Serve("http", "--unix", _folder["http.sock"]);
        Assert.Equal((0, "0 ms", ""), await GetAsync(null, "--unix", _folder["http.sock"], "http://localhost/delay/0"));
    }

    [Fact]
    public async Task A_head_is_printed_without_what_steers_a_terminal()
    {
        await using var tool = await RunningTool.Serve("http");
        // also without a scheme
        (int code, string output, string error) = await GetAsync(null, "--head", $"{tool.Address}/bytes/7");
        Assert.Equal((0, ""), (code, error));
        Assert.StartsWith("HTTP/1.1 200 OK\n", output, StringComparison.Ordinal);
        Assert.Contains("\nContent-Length: 7", output, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Json_has_status_bytes_and_how_long_each_step_took(bool isTls)
    {
        var (server, site, trust) = await ServeAsync(isTls);
        await using RunningTool running = server;
        (int code, string output, string error) = await GetAsync(null, [.. trust, "--json", $"{site}/delay/100"]);
        Assert.Equal((0, ""), (code, error));
        using JsonDocument document = JsonDocument.Parse(output);
        JsonElement json = document.RootElement;
        Assert.Equal(($"{site}/delay/100", "GET", 200, 7, 0, 0), (json.GetProperty("url").GetString(),
            json.GetProperty("method").GetString(), json.GetProperty("status").GetInt32(), json.GetProperty("bytes")
                .GetInt32(), json.GetProperty("sent_bytes").GetInt32(), json.GetProperty("redirects").GetInt32()));
        double connect = json.GetProperty("connect_ms").GetDouble(), tls = json.GetProperty("tls_ms").GetDouble(),
            first = json.GetProperty("first_byte_ms").GetDouble(), total = json.GetProperty("total_ms").GetDouble();
        Assert.True(connect > 0 && first >= 99 && isTls == tls > 0 && total >= connect + tls + first, output);

        (code, output, error) = await GetAsync(null,
            [.. trust, "--json", "--post", "-", "-o", _folder["none"], $"{site}/status/404"]);
        using JsonDocument failed = JsonDocument.Parse(output);
        Assert.Equal((1, 405), (code, failed.RootElement.GetProperty("status").GetInt32()));
        Assert.Equal($"whimbrel: {failed.RootElement.GetProperty("message").GetString()}", error);
    }

    [Fact]
    public async Task An_answer_that_is_a_failure_is_shown_and_exits_with_1()
    {
        await using var tool = await RunningTool.Serve("http");
        (int code, string output, string error) = await GetAsync(null, $"http://{tool.Address}/status/404");
        Assert.Equal((1, "404 Not Found", $"whimbrel: GET http://{tool.Address}/status/404: 404 Not Found"),
            (code, output, error));
        await File.WriteAllTextAsync(_folder["kept"], "kept", TestContext.Current.CancellationToken);
        (code, output, error) = await GetAsync(null, "-o", _folder["kept"], $"http://{tool.Address}/status/503");
        Assert.Equal((1, "", "kept"),
            (code, output, await File.ReadAllTextAsync(_folder["kept"], TestContext.Current.CancellationToken)));
        Assert.EndsWith(": 503 Service Unavailable", error, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Redirects_are_followed_as_far_as_is_said()
    {
        Directory.CreateDirectory(_folder["root/sub"]);
        await File.WriteAllTextAsync(_folder["root/sub/index.html"], "home", TestContext.Current.CancellationToken);
        await using var tool = await RunningTool.Serve("http", "--files", _folder["root"]);
        string url = $"http://{tool.Address}/sub";
        Assert.Equal((0, "home", ""), await GetAsync(null, url));
        Assert.Contains("\"redirects\":1,", (await GetAsync(null, "--json", url)).Out, StringComparison.Ordinal);
        Assert.StartsWith("HTTP/1.1 301 ", (await GetAsync(null, "--redirects", "0", "--head", url)).Out,
            StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(1024 * 1024, true)]
    [InlineData((1024 * 1024) + 1, false)]
    public async Task A_body_of_up_to_1_MiB_is_sent_again_where_a_redirect_leads(int length, bool isSentAgain)
    {
        await using HttpServer site =
            new("http://127.0.0.1:0", new HttpOptions { BufferedBodyLimitBytes = 2 * length });
        site.Post("/from", static (_, response) =>
        {
            response.Status = 307;
            response.Add("Location", "/to");
            response.Text("elsewhere");
        });
        site.Post("/to", static (request, response) => response.Text($"{request.BodyBytes.Length}"));
        await site.StartAsync(TestContext.Current.CancellationToken);
        await File.WriteAllBytesAsync(_folder["sent"], Random(length), TestContext.Current.CancellationToken);
        (_, string output, _) = await GetAsync(null, "--post", _folder["sent"], $"http://{site.EndPoint}/from");
        Assert.Equal(isSentAgain ? $"{length}" : "elsewhere", output);
    }

    [Fact]
    public async Task Why_there_is_no_answer_is_said_with_a_way_out()
    {
        var (server, site, trust) = await ServeAsync(isTls: true);
        await using RunningTool running = server;
        (int code, string output, string error) = await GetAsync(null, site);
        Assert.Equal((1, ""), (code, output));
        Assert.Contains("--ca FILE, or a certificate by --pin HASH.", error, StringComparison.Ordinal);

        await using var gone = await RunningTool.Serve("http");
        await gone.StopAsync();
        (code, output, error) = await GetAsync(null, "--json", $"http://{gone.Address}/");
        Assert.Equal(1, code);
        Assert.Equal("Refused", JsonDocument.Parse(output).RootElement.GetProperty("failure").GetString());
        Assert.StartsWith($"whimbrel: GET http://{gone.Address}/: ", error, StringComparison.Ordinal);

        (code, _, error) = await GetAsync(null, [.. trust, "--timeout", "0.2", $"{site}/delay/60000"]);
        Assert.Equal(1, code);
        Assert.Contains("RequestTimeout", error, StringComparison.Ordinal);

        (code, _, error) = await GetAsync(null, [.. trust, "--post", _folder["missing"], $"{site}/echo"]);
        Assert.Equal(1, code);
        Assert.Contains("missing", error, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("http", "SSH-2.0-OpenSSH_9.2\r\n",
        "Is it an HTTP server? To see what it sends: whimbrel connect 127.0.0.1:")]
    [InlineData("http", "\u0015\u0003\u0003\0\u0002\u0002\n", "Is it an HTTP server?")]
    [InlineData("http", "", "Does it speak HTTP? With TLS: https://127.0.0.1:")]
    [InlineData("https", "SSH-2.0-OpenSSH_9.2\r\n", "Does it speak TLS? Without: http://127.0.0.1:")]
    public async Task A_port_of_another_protocol_is_said_to_be_perhaps_one(string scheme, string says, string expected)
    {
        using TcpListener listener = new(IPAddress.Loopback, 0);
        listener.Start();
        Task<(int Code, string Out, string Error)> asked = GetAsync(null, $"{scheme}://{listener.LocalEndpoint}/");
        using (Socket socket = await listener.AcceptSocketAsync(TestContext.Current.CancellationToken))
        {
            await socket.ReceiveAsync(new byte[4096], TestContext.Current.CancellationToken);
            if (says.Length > 0)
                await socket.SendAsync(Encoding.Latin1.GetBytes(says), TestContext.Current.CancellationToken);
            socket.Shutdown(SocketShutdown.Send);
            await asked;
        }

        (int code, _, string error) = await asked;
        Assert.Equal(1, code);
        Assert.Contains(expected, error, StringComparison.Ordinal);
        Assert.DoesNotContain("--ca", error, StringComparison.Ordinal);
    }

    [Fact]
    public async Task An_argument_that_is_required_is_shown_as_such()
    {
        foreach ((string[] words, string usage) in ((string[], string)[])[(["get"], "whimbrel get <URL>"),
            (["join"], "whimbrel join <GROUP>"), (["serve", "multicast"], "whimbrel serve multicast <GROUP>")])
        {
            (int code, List<string> output, _) = await RunningTool.Run(null, [.. words, "--help"]);
            Assert.Equal(0, code);
            Assert.Contains(output, line => line.Contains(usage, StringComparison.Ordinal));
        }
    }

    [Fact]
    public async Task Ctrl_C_ends_it()
    {
        await using var server = await RunningTool.Serve("http", "--stats");
        await using RunningTool tool = RunningTool.Start("get", $"http://{server.Address}/delay/600000");
        await server.Error.ThatContains("1 connections");
        await tool.SignalAsync("INT");
        // after diagnostic events, on a busy machine
        Assert.Equal("whimbrel: cancelled", await tool.Error.ThatContains("whimbrel: "));
        Assert.Equal(1, await tool.ExitCodeAsync());
    }

    [Fact]
    public async Task A_wrong_command_line_is_reported_in_one_line()
    {
        await RunningTool.AssertRefused("A URL is missing.", "whimbrel get", "get");
        await RunningTool.AssertRefused("'ftp://x/' is not an HTTP URL", "whimbrel get", "get", "ftp://x/");
        await RunningTool.AssertRefused("Give only one of --head, --post, --put and --method.", "whimbrel get", "get",
            "--head", "--post", "x", "http://x/");
        await RunningTool.AssertRefused("'X' has no colon", "whimbrel get", "get", "-H", "X", "http://x/");
        await RunningTool.AssertRefused("--header: A value has no control characters", "whimbrel get", "get", "-H",
            "X: a\r\nY: b", "http://x/");
        await RunningTool.AssertRefused("http:// has no TLS", "whimbrel get", "get", "--pin", new string('0', 64),
            "http://x/");
        await RunningTool.AssertRefused("There is no --insecure", "whimbrel get", "get", "--insecure", "https://x/");
    }

    // ------------------------------------------------------------------ progress

    [Fact]
    public async Task A_long_body_shows_how_far_it_is_on_a_terminal_and_nowhere_else()
    {
        OtherProgram.Needs("script");
        await using var server = await RunningTool.Serve("http");
        string tool = BuiltProgram.PathOf("Whimbrel.Tool"), url = $"http://{server.Address}/bytes/1000000000000";
        using Process terminal = OtherProgram.Start("script", "--quiet", "--return", "--command",
            $"dotnet {tool} get -o /dev/null {url}", "/dev/null");
        StringBuilder seen = new();
        await Deadline.Within(
            async cancellation =>
            {
                char[] room = new char[1000];
                int count;
                while (!seen.ToString().Contains(" left", StringComparison.Ordinal)
                    && (count = await terminal.StandardOutput.ReadAsync(room, cancellation)) > 0)
                    seen.Append(room, 0, count);
                return true;
            },
            () => $"progress on a terminal; there was: {seen}");
        terminal.Kill(entireProcessTree: true);
        await terminal.WaitForExitAsync(TestContext.Current.CancellationToken);
        Assert.Matches(@"\rin (\[\.+\] )?0 %, [\d.]+ [KMG]iB of 931\.32 GiB, [\d.]+ [KMG]iB/s, "
            + @"(\d+d\d+h|\d+h\d+m|\d+m\d+s|\d+ (d|h|min)) left", seen.ToString());

        (int code, string output, string error) = await GetAsync(null, "-o", "/dev/null", "--timeout", "1.5", url);
        Assert.Equal((1, ""), (code, output));
        Assert.Matches("^whimbrel: [^\\r\\n]*RequestTimeout[^\\r\\n]*$", error);
    }

    [Theory]
    [InlineData(0, 1000, 1, 80, "in [........................................] 0 %, 0 B of 1000 B, 0 B/s")]
    [InlineData(500, 1000, 1, 80, "in [#################.................] 50 %, 500 B of 1000 B, 500 B/s, 1 s left")]
    [InlineData(500, 1000, 1, 60, "in [#######.......] 50 %, 500 B of 1000 B, 500 B/s, 1 s left")]
    [InlineData(500, 1000, 1, 40, "in 50 %, 500 B of 1000 B, 500 B/s, 1 s l")]
    [InlineData(5_000_000, 10_000_000_000, 10, 46, "in 0 %, 4.8 MiB of 9.31 GiB, 488.3 KiB/s, 5h3")]
    [InlineData(5_000, -1, 10, 80, "in 4.9 KiB, 500 B/s")]
    [InlineData(0, 0, 0, 80, "in 0 B, 0 B/s")]
    public void The_line_fits_where_it_stands(long done, long total, int seconds, int width, string expected)
    {
        string line = ProgressLine.Format("in", done, total, TimeSpan.FromSeconds(seconds), width);
        Assert.True(line.Length <= Math.Max(width, expected.Length));
        Assert.StartsWith(expected[..Math.Min(expected.Length, width)], line, StringComparison.Ordinal);
    }

    private async Task<(RunningTool Server, string Site, string[] Trust)> ServeAsync(bool isTls)
    {
        if (!isTls)
        {
            RunningTool plain = await RunningTool.Serve("http");
            return (plain, $"http://{plain.Address}", []);
        }

        Assert.Equal(0, (await RunningTool.Run(null, "certs", "--out", _folder.Path, "--san", "localhost")).ExitCode);
        RunningTool server = await RunningTool.Serve("http", "--cert", _folder["server.pem"], "--key",
            _folder["server.key"]);
        return (server, $"https://localhost:{((IPEndPoint)server.EndPoint).Port}", ["--ca", _folder["ca.pem"]]);
    }
}
