namespace Whimbrel.Tool.Tests;

public class EchoTests
{
    [Fact]
    public async Task Every_byte_comes_back()
    {
        await using var tool = await RunningTool.Serve("echo");
        using var peer = tool.Connect();
        await EchoesAsync(peer, 4_000_000);
        Assert.Contains("1 connections, 4000000 bytes in, 4000000 bytes out", await tool.StopAsync(),
            StringComparison.Ordinal);
    }

    [Fact]
    public async Task It_listens_on_a_unix_path()
    {
        var path = Path.Combine(Path.GetTempPath(), $"whimbrel-{Guid.NewGuid():n}.sock");
        await using var tool = await RunningTool.Serve("echo", "--unix", path);
        Assert.Equal(path, tool.Address);
        using (var peer = tool.Connect()) await EchoesAsync(peer, 100_000);
        await tool.StopAsync();
        Assert.False(File.Exists(path));
    }

    [Theory]
    [InlineData("auto")]
    [InlineData("uring")]
    [InlineData("epoll")]
    [InlineData("portable")]
    public async Task Both_commands_run_on_each_engine(string engine)
    {
        var asked = Enum.Parse<EngineKind>(engine, ignoreCase: true);
        var support = Engine.SupportFor(asked);
        Assert.SkipUnless(support.IsAvailable, support.Reason);
        await using var server = await RunningTool.Serve("echo", "--engine", engine);
        Assert.Contains($"(engine {support.Kind.ToString().ToLowerInvariant()}, ", server.Out.Seen,
            StringComparison.Ordinal);
        var text = string.Concat(Enumerable.Range(0, 20_000).Select(static i => $"line {i}\n"));
        var (code, output, errors) = await RunningTool.Run(text, "connect", server.Address, "--engine", engine);
        Assert.Equal(text, string.Join('\n', output) + "\n");
        Assert.Equal("closed by this side", errors[^1]);
        Assert.Equal(0, code);
    }

    [Fact]
    public async Task It_listens_on_the_given_address_with_the_given_number_of_loops()
    {
        await using var tool = RunningTool.Start("serve", "echo", "--listen", "[::1]:0", "--loops", "3",
            "--engine", "auto");
        var line = await tool.Out.ThatContains("listening on [::1]:");
        Assert.EndsWith(", loops 3)", line, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Statistics_come_on_stderr_while_it_runs()
    {
        await using var tool = await RunningTool.Serve("echo", "--stats");
        using var peer = tool.Connect();
        await EchoesAsync(peer, 1000);
        var line = await tool.Error.ThatContains("1 connections, ");
        Assert.Matches(@"^1 connections, \d+ receives/s, \d+\.\d MB/s in, \d+\.\d MB/s out$", line);
    }

    [Fact]
    public async Task Discard_reads_and_answers_nothing()
    {
        await using var tool = await RunningTool.Serve("discard");
        using var peer = tool.Connect();
        await peer.SendAsync(new byte[1_000_000]);
        peer.ShutdownSend();
        Assert.Equal(0, await peer.ReadSomeAsync(new byte[1]));
        Assert.Contains("1000000 bytes in, 0 bytes out", await tool.StopAsync(), StringComparison.Ordinal);
    }

    private static async Task EchoesAsync(Peer peer, int count)
    {
        var sent = new byte[count];
        new Random(1).NextBytes(sent);
        var sending = peer.SendAsync(sent);
        Assert.Equal(sent, await peer.ReadAsync(count));
        await sending;
    }
}
