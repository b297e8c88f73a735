using System.Globalization;
using System.Net.Sockets;
using System.Text;
using System.Text.Json;
using Whimbrel.Tool.Top;

namespace Whimbrel.Tool.Tests;

// whimbrel top with servers that run, have ended, or are no servers.
public sealed class TopTests : IDisposable
{
    private readonly TemporaryFolder _folder = new();

    private string Path => _folder["echo.status"];

    public void Dispose() => _folder.Dispose();

    [Fact]
    public async Task Json_prints_one_snapshot_of_the_server_by_path_and_by_process()
    {
        await using var server = await RunningTool.Serve("echo", "--loops", "2", "--status", Path);
        using var peer = await GreetAsync(server);
        var (code, byPath, errors) = await RunningTool.Run(null, "top", Path, "--json");
        Assert.Empty(errors);
        Assert.Equal(0, code);
        var status = JsonDocument.Parse(Assert.Single(byPath)).RootElement;
        Assert.Equal(server.Id, status.GetProperty("pid").GetInt32());
        Assert.Equal(2, status.GetProperty("loops").GetArrayLength());
        Assert.Equal((1, server.Address), (status.GetProperty("servers")[0].GetProperty("sessions").GetInt32(),
            status.GetProperty("servers")[0].GetProperty("addresses")[0].GetString()));

        Assert.SkipUnless(OperatingSystem.IsLinux(), "This system has no /proc.");
        var (again, byProcess, _) = await RunningTool.Run(null, "top", "--pid",
            server.Id.ToString(CultureInfo.InvariantCulture), "--json");
        Assert.Equal(0, again);
        Assert.Equal(server.Id, JsonDocument.Parse(Assert.Single(byProcess)).RootElement.GetProperty("pid").GetInt32());
    }

    [Fact]
    public async Task Without_a_terminal_it_prints_a_line_for_each_look_until_the_server_stops()
    {
        await using var server = await RunningTool.Serve("echo", "--loops", "1", "--status", Path);
        using var peer = await GreetAsync(server);
        await using var top = RunningTool.Start("top", Path, "--every", "0.1");
        for (var i = 0; i < 2; i++)
            Assert.Matches(@"^1 connections, 0 new/s, [\d.]+ messages/s, .*/s in, .*/s out, 0 B queued, 0 turned away, "
                + @"0 slow ended, 0 exceptions$", await top.Out.NextAsync());
        peer.Dispose();
        await server.StopAsync();
        Assert.False(System.IO.Path.Exists(Path));
        Assert.StartsWith($"whimbrel: The server has stopped, or its status is gone. {Path} does not exist",
            (await top.Error.ToEndAsync())[^1], StringComparison.Ordinal);
        Assert.Equal(1, await top.ExitCodeAsync());
    }

    [Fact]
    public async Task A_blocked_loop_is_seen_with_what_blocks_it()
    {
        await using var server = await RunningTool.ServeBlockable("echo", "--loops", "1", "--status", Path);
        await server.Input.WriteLineAsync("block");
        await server.Error.ThatContains(BlockedLoop.Told);
        await using var top = RunningTool.Start("top", Path, "--every", "0.1");
        await top.Out.ThatContains("loop 0 is blocked by a posted action (BlockedLoop.Block)");
        await top.SignalAsync("INT");
        Assert.Equal(0, await top.ExitCodeAsync());
    }

    [Fact]
    public async Task A_server_that_was_killed_is_said_to_have_ended_and_its_path_serves_the_next_one()
    {
        await using (var killed = await RunningTool.Serve("echo", "--status", Path)) await killed.SignalAsync("KILL");
        await AssertFailsAsync($"No server answers at {Path}: it has ended", Path);
        await using var next = await RunningTool.Serve("echo", "--status", Path);
        var (code, _, _) = await RunningTool.Run(null, "top", Path, "--json");
        Assert.Equal(0, code);
    }

    [Fact]
    public async Task A_status_that_cannot_be_opened_fails_the_start_with_the_reason()
    {
        await using var first = await RunningTool.Serve("echo", "--status", Path);
        var (code, _, errors) = await RunningTool.Run(null, "serve", "echo", "--port", "0", "--status", Path);
        Assert.Equal(1, code);
        Assert.Contains($"ServerOptions.StatusPath: Cannot listen on {Path}: already in use", errors[^1],
            StringComparison.Ordinal);
    }

    [Fact]
    public async Task An_invalid_status_is_reported_as_such()
    {
        await AssertFailsAsync($"{Path} does not exist: no server has it open", Path);
        await File.WriteAllTextAsync(_folder["file"], "text", TestContext.Current.CancellationToken);
        await AssertFailsAsync($"No server answers at {_folder["file"]}", _folder["file"]);
        await AssertFailsAsync("is too long, or not a valid path", new string('x', 300));

        foreach (var (says, expected) in ((string?, string)[])
        [
            ("SSH-2.0-OpenSSH_9.2\r\n", "is not a status socket of Whimbrel: it sent something else"),
            ("{\"whimbrel\":1,\"loops\":null}\n", "is not a status socket of Whimbrel: it sent something else"),
            ("{\"whimbrel\":1,\"loops\":[null]}\n", "is not a status socket of Whimbrel: it sent something else"),
            ("{\"whimbrel\":2,\"loops\":7}\n", "sends status version 2, and this tool knows 1"),
            ("no line", "it ended after 7 bytes, without a line"),
            (new string('x', 2_000_000), "its line has no end"),
        ])
        {
            using var answers = new Answers(_folder["other"], says);
            await AssertFailsAsync(expected, answers.Path);
        }
    }

    [Fact]
    public async Task A_status_that_takes_several_reads_is_read_whole()
    {
        string says = $"{{\"whimbrel\":1,{new string(' ', 40_000)}\"pid\":77,\"engine\":{{\"kind\":\"epoll\"}},"
            + "\"loops\":[],\"servers\":[]}\n";
        using var answers = new Answers(_folder["long"], says);
        var (line, snapshot) = await TopSource.ReadAsync(answers.Path, TestContext.Current.CancellationToken);
        Assert.Equal((says.Length - 1, 77), (line.Length, snapshot.Pid));
    }

    [Fact]
    public async Task A_silent_process_is_not_waited_for_forever()
    {
        using var answers = new Answers(_folder["silent"], null);
        await AssertFailsAsync($"Nothing was received from {answers.Path} in 5 seconds", answers.Path);
    }

    [Fact]
    public async Task A_process_without_a_status_socket_is_reported()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "This system has no /proc.");
        await using var without = await RunningTool.Serve("echo");
        var (code, _, errors) = await RunningTool.Run(null, "top", "--pid",
            without.Id.ToString(CultureInfo.InvariantCulture));
        Assert.Equal(1, code);
        Assert.Contains($"Process {without.Id} has no status socket whose name ends in .status", Assert.Single(errors),
            StringComparison.Ordinal);
        (code, _, errors) = await RunningTool.Run(null, "top", "--pid", "2147483647");
        Assert.Equal(1, code);
        Assert.Contains("There is no process 2147483647", Assert.Single(errors), StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("A path is missing, or --pid.", "top")]
    [InlineData("Give a path or --pid.", "top", "x", "--pid", "1")]
    [InlineData("--every takes seconds from 0.1 to 3600, or a time such as 500ms, not '0'.", "top", "x",
        "--every", "0")]
    [InlineData("--every takes seconds from 0.1 to 3600, or a time such as 500ms, not '50 ms'.", "top", "x",
        "--every", "50 ms")]
    [InlineData("--pid takes a process id, not 'me'.", "top", "--pid", "me")]
    public Task Wrong_arguments_give_one_line_that_says_what_is_right(string expected, params string[] arguments) =>
        RunningTool.AssertRefused(expected, "whimbrel top PATH, or whimbrel top --pid N", arguments);

    [Fact]
    public void Listening_sockets_of_a_table_are_found_with_paths_of_any_form()
    {
        string[] table =
        [
            "Num       RefCount Protocol Flags    Type St Inode Path",
            "0000000000000000: 00000002 00000000 00010000 0001 01 111 /run/a.status",
            "0000000000000000: 00000002 00000000 00010000 0001 01 222 /run/with space.status",
            "0000000000000000: 00000003 00000000 00000000 0001 03 333 /run/a.status",
            "0000000000000000: 00000002 00000000 00010000 0001 01 444 @abstract.status",
            "0000000000000000: 00000003 00000000 00000000 0001 03 555",
        ];
        Assert.Equal([("111", "/run/a.status"), ("222", "/run/with space.status")], TopFinder.Listening(table));
    }

    private static async Task<Peer> GreetAsync(RunningTool server)
    {
        var peer = server.Connect();
        await peer.SayAsync("hello");
        await peer.ReadAsync(6);
        return peer;
    }

    private static async Task AssertFailsAsync(string expected, string path)
    {
        var (code, output, errors) = await RunningTool.Run(null, "top", path);
        Assert.Empty(output);
        Assert.Contains(expected, Assert.Single(errors), StringComparison.Ordinal);
        Assert.Equal(1, code);
    }

    // A Unix socket of another program, which sends one text to each peer and closes; null: sends nothing and stays
    // open.
    private sealed class Answers : IDisposable
    {
        private readonly Socket _listener = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        private readonly List<Socket> _peers = [];

        public Answers(string path, string? says)
        {
            Path = path;
            _listener.Bind(new UnixDomainSocketEndPoint(path));
            _listener.Listen();
            _ = Task.Run(async () =>
            {
                while (true)
                {
                    var peer = await _listener.AcceptAsync();
                    _peers.Add(peer);
                    if (says is null) continue;
                    try
                    {
                        await peer.SendAsync(Encoding.UTF8.GetBytes(says));
                    }
                    catch (SocketException)
                    {
                        // The text was sent: close.
                    }
                    peer.Dispose();
                }
            });
        }

        public string Path { get; }

        public void Dispose()
        {
            _listener.Dispose();
            foreach (var peer in _peers) peer.Dispose();
        }
    }
}
