using System.Globalization;
using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Tool.Tests;

public class LifeTests
{
    [Fact]
    public async Task SIGTERM_drains_and_prints_totals()
    {
        await using var tool = await RunningTool.Serve("echo");
        using var peer = tool.Connect();
        await peer.SayAsync("x");
        await peer.ReadAsync(2);
        var stopping = tool.StopAsync();
        Assert.Equal(0, await peer.ReadSomeAsync(new byte[1]));
        peer.Dispose();
        Assert.Matches(@"^total: 1 connections, 2 bytes in, 2 bytes out, \d+\.\d seconds, 1 drained, 0 aborted$",
            await stopping);
    }

    [Theory]
    [InlineData("systemd:echo")]
    [InlineData("systemd:")]
    [InlineData("fd:3")]
    public async Task It_serves_the_socket_of_a_systemd_unit(string address)
    {
        await using var tool = await RunningTool.ServeAsService("echo", "--listen", address);
        using var peer = tool.Connect();
        await peer.SayAsync("x");
        await peer.ReadAsync(2);
        peer.Dispose();
        Assert.Contains("total: 1 connections", await tool.StopAsync(), StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_name_that_systemd_did_not_pass_is_reported_with_those_that_it_did()
    {
        await using var tool = RunningTool.StartAsService("serve", "echo", "--listen", "systemd:web");
        Assert.Equal(1, await tool.ExitCodeAsync());
        Assert.Contains("Address = systemd:web, systemd passed no listening socket named 'web', but: Stream 127.0.0.1:",
            string.Join(' ', await tool.Error.ToEndAsync()), StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("echo")]
    [InlineData("udp")]
    public async Task SIGTERM_ends_the_tool_even_if_a_loop_is_blocked_and_the_cause_is_named(string kind)
    {
        await using var tool = await RunningTool.ServeBlockable(kind, "--loops", "1");
        await tool.Input.WriteLineAsync("block");
        await tool.Error.ThatContains(BlockedLoop.Told);
        await tool.SignalAsync("TERM");
        await tool.Error.ThatContains("a posted action (BlockedLoop.Block) on loop 0");
        Assert.Equal(1, await tool.ExitCodeAsync());
    }

    [Theory]
    [InlineData("echo")]
    [InlineData("push")]
    public async Task It_ends_by_itself_after_the_time_it_was_given(string kind)
    {
        await using var tool = await RunningTool.Serve(kind, "--for", "1");
        await tool.Out.ThatContains("total: 0 connections");
        Assert.Equal(0, await tool.ExitCodeAsync());
    }

    [Fact]
    public async Task A_taken_port_is_reported_with_its_holder()
    {
        await using var holder = await RunningTool.Serve("echo");
        var (code, output, errors) = await RunningTool.Run(null, "serve", "chat", "--listen", holder.Address);
        Assert.Equal(1, code);
        Assert.Empty(output);
        var line = Assert.Single(errors);
        Assert.Contains($"Cannot listen on {holder.Address}: already in use by 'dotnet' (pid {holder.Id})", line,
            StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("A command is missing. Right would be: whimbrel serve echo|discard|chat|push|groups")]
    [InlineData("A command is missing. Right would be: whimbrel serve echo|discard|chat|push|groups", "serve")]
    [InlineData("'sing' is not known here. Right would be", "serve", "sing")]
    [InlineData("'serv' is not known here. Did you mean 'serve'?", "serv")]
    [InlineData("whimbrel join GROUP, whimbrel certs, whimbrel doctor, whimbrel top PATH, or whimbrel explain PAGE",
        "jion-in")]
    [InlineData("'ecko' is not known here. Did you mean 'echo'?", "serve", "ecko")]
    [InlineData("'--prot' is not known here. Did you mean '--port'?", "serve", "echo", "--prot", "5")]
    [InlineData("There is no page 'descriptor-limits'. Did you mean 'descriptor-limit'?", "explain",
        "descriptor-limits")]
    [InlineData("'--rate' is not known here.", "serve", "echo", "--rate", "5")]
    [InlineData("--port takes a port from 0 to 65535, not '65536'.", "serve", "echo", "--port", "65536")]
    [InlineData("--listen: 'tcp://::1:80' is no address: an IPv6 address stands in brackets; right would be "
        + "tcp://[::1]:80.", "serve", "echo", "--listen", "::1:80")]
    [InlineData("--engine takes auto|", "serve", "echo", "--engine", "2")]
    [InlineData("--loops takes a number from 1 to 256, not '0'.", "serve", "echo", "--loops", "0")]
    [InlineData("--for takes seconds", "serve", "echo", "--for", "-1")]
    [InlineData("--size takes a number from 32 to 32768, not '31'.", "serve", "push", "--size", "31")]
    [InlineData("--size times --batch is 204800 bytes", "serve", "push", "--size", "1024", "--batch", "200")]
    [InlineData("Give only one of --listen, --port and --unix.", "serve", "chat", "--port", "0", "--unix", "x")]
    [InlineData("An address is missing. Right would be: whimbrel connect HOST:PORT", "connect")]
    [InlineData("'tcp://localhost' is no address: the port is missing; right would be tcp://localhost:80.", "connect",
        "localhost")]
    [InlineData("'localhost:0' has port 0: a port to connect to", "connect", "localhost:0")]
    [InlineData("'tls://localhost' is no address: the port is missing; right would be tls://localhost:80.", "connect",
        "tls://localhost")]
    [InlineData("'http' is no scheme here, allowed tcp, tls, unix and memory.", "connect", "http://localhost:80")]
    [InlineData("names of this kind belong to one engine", "connect", "memory://a")]
    [InlineData("names the service 'no-such-service', which is not in the list of services of this system", "connect",
        "localhost:no-such-service")]
    [InlineData("--listen: 'example.org:80' names a host: a server listens at an address of this machine, at "
        + "localhost, or at * for all.", "serve", "echo", "--listen", "example.org:80")]
    [InlineData("--unix: 'unix:' is no address: the path is missing; right would be unix:/path.", "serve", "echo",
        "--unix", "")]
    public Task Wrong_arguments_give_one_line_that_says_what_is_right(string expected, params string[] arguments) =>
        RunningTool.AssertRefused(expected, "whimbrel ", arguments);

    [Fact]
    public async Task Explain_prints_the_page_that_a_diagnostic_event_named_and_lists_them_all()
    {
        var (code, page, _) = await RunningTool.Run(null, "explain", "docs/symptoms/descriptor-limit.md");
        Assert.Equal(0, code);
        Assert.Equal("# No descriptor left", page[0]);
        var (_, pages, errors) = await RunningTool.Run(null, "explain");
        Assert.Contains("descriptor-limit: No descriptor left", pages);
        Assert.Contains("accept-failed: New connections are no longer accepted", pages);
        Assert.Empty(errors);
    }

    [Fact]
    public async Task Signals_for_measurements_are_answered()
    {
        await using var tool = await RunningTool.Serve("echo");
        await tool.SignalAsync("USR1");
        var words = (await tool.Out.NextAsync())!.Split(' ');
        Assert.Equal(["allocated", "turns", "empty", "completions"], words.Where(static (_, i) => i % 2 == 0));
        var numbers = words.Where(static (_, i) => i % 2 == 1)
            .Select(static n => long.Parse(n, CultureInfo.InvariantCulture)).ToArray();
        Assert.InRange(numbers[0], 1, long.MaxValue);
        Assert.InRange(numbers[2], 0, numbers[1]);
        await tool.SignalAsync("USR2");
        Assert.Equal("collected", await tool.Out.NextAsync());
        await tool.StopAsync();
    }

    [Theory]
    [InlineData("one\ntwo\n", "one\ntwo")]
    [InlineData("no end", "no end")]
    public async Task Connect_sends_its_input_and_prints_what_comes_back(string input, string expected)
    {
        await using var server = await RunningTool.Serve("echo");
        var (code, output, errors) = await RunningTool.Run(input, "connect",
            server.Address.Replace("127.0.0.1", "localhost", StringComparison.Ordinal));
        Assert.Equal(expected, string.Join('\n', output));
        Assert.Equal("closed by this side", errors[^1]);
        Assert.Equal(0, code);
    }

    [Theory]
    [InlineData("tcp://127.0.0.1:0")]
    [InlineData("tcp://localhost:0")]
    [InlineData("*:0")]
    [InlineData("unix:PATH")]
    [InlineData("unix:@PATH")]
    public async Task The_one_form_of_an_address_is_taken_by_both_commands(string address)
    {
        var path = Path.Combine(Path.GetTempPath(), $"whimbrel-{Guid.NewGuid():n}.sock");
        await using var server = await RunningTool.Serve("echo", "--listen",
            address.Replace("PATH", path, StringComparison.Ordinal));
        var target = server.EndPoint is IPEndPoint ip
            ? $"tcp://{(address[0] == '*' ? "localhost" : "127.0.0.1")}:{ip.Port}"
            : $"unix:{server.Address}";
        var (code, output, errors) = await RunningTool.Run("hello\n", "connect", target);
        Assert.Equal("hello", string.Join('\n', output));
        Assert.Equal("closed by this side", errors[^1]);
        Assert.Equal(0, code);
    }

    [Fact]
    public async Task Connect_says_that_it_does_not_know_the_host()
    {
        // A name that every resolver rejects without a query, because one label is too long.
        var (code, _, errors) = await RunningTool.Run("", "connect",
            $"tcp://{string.Join('.', Enumerable.Repeat("whimbrel-no-such-host", 11))}.invalid:80");
        Assert.Equal(1, code);
        Assert.Contains("the host name is unknown", Assert.Single(errors), StringComparison.Ordinal);
    }

    [Fact]
    public async Task Connect_closes_when_it_is_asked_to_end()
    {
        await using var server = await RunningTool.Serve("chat");
        await using var client = RunningTool.Start("connect", server.Address);
        await client.Out.ThatContains("* welcome, ");
        await client.SignalAsync("TERM");
        await client.Error.ThatContains("closed by this side");
        Assert.Equal(0, await client.ExitCodeAsync());
    }

    [Fact]
    public async Task Connect_says_why_it_cannot()
    {
        // Bound but not listening: no other socket can take the port, and connects are refused.
        using var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        socket.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        var (code, _, errors) = await RunningTool.Run("", "connect", socket.LocalEndPoint!.ToString()!);
        Assert.Equal(1, code);
        Assert.Contains("connection refused", Assert.Single(errors), StringComparison.Ordinal);
    }
}
