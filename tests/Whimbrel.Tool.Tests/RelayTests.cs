using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Tool.Tests;

// `whimbrel relay` with `whimbrel serve echo` as its target.
public sealed class RelayTests
{
    private static CancellationToken Stop => TestContext.Current.CancellationToken;

    [Fact]
    public async Task Lines_come_back_through_two_relays_that_pass_on_the_clients_address()
    {
        await using var echo = await RunningTool.Serve("echo");
        await using var inner = await RunningTool.Relay(echo.Address, "--from-proxies", "127.0.0.1,10.0.0.0/8");
        await using var outer = await RunningTool.Relay(inner.Address, "--proxy-protocol", "2");
        using (var peer = outer.Connect())
        {
            await peer.SayAsync("hello");
            await peer.Lines.ThatContains("hello");
        }

        string totals = await outer.StopAsync();
        Assert.Contains("total: 1 connections, 0 not served", totals, StringComparison.Ordinal);
        await inner.StopAsync();
    }

    [Fact]
    public async Task TLS_ends_at_the_relay_also_after_a_header()
    {
        await using var echo = await RunningTool.Serve("echo");
        await using var inner = await RunningTool.Relay(echo.Address, "--from-proxies", "127.0.0.1", "--tls");
        await using var outer = await RunningTool.Relay(inner.Address, "--proxy-protocol", "1");
        string said = await inner.Error.ThatContains("SHA-256 ");
        await using var client = RunningTool.Start("connect", $"tls://{outer.Address}", "--pin",
            said[(said.LastIndexOf(' ') + 1)..]);
        await client.Input.WriteAsync("hello\n".AsMemory(), Stop);
        await client.Input.FlushAsync(Stop);
        await client.Out.ThatContains("hello");
    }

    [Fact]
    public async Task TLS_continues_to_a_target_after_the_header_and_only_to_the_right_one()
    {
        await using var echo = await RunningTool.Serve("echo");
        await using var inner = await RunningTool.Relay(echo.Address, "--from-proxies", "127.0.0.1", "--tls");
        string said = await inner.Error.ThatContains("SHA-256 ");
        string pin = said[(said.LastIndexOf(' ') + 1)..];
        await using var outer = await RunningTool.Relay($"tls://{inner.Address}", "--proxy-protocol", "2",
            "--target-pin", pin, "--check", "0.5");
        using (var peer = outer.Connect())
        {
            await peer.SayAsync("hello");
            await peer.Lines.ThatContains("hello");
        }

        await using var wrong = await RunningTool.Relay($"tls://{inner.Address}", "--proxy-protocol", "2",
            "--target-pin", new string('0', 64), "--check", "0.5");
        await wrong.Error.ThatContains($"{inner.Address} is down");
    }

    [Fact]
    public async Task A_target_that_is_down_is_named_and_the_client_is_reset_by_the_relay()
    {
        using Socket nobody = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        // Bound but not listening, so that no other socket takes the port.
        nobody.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        await using var relay = await RunningTool.Relay($"{nobody.LocalEndPoint}");
        using Socket client = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        await Assert.ThrowsAsync<SocketException>(async () =>
        {
            await client.ConnectAsync(relay.EndPoint, Stop); // the reset may arrive during the connect
            await client.ReceiveAsync(new byte[1], Stop);
        });
        await relay.Error.ThatContains($"{nobody.LocalEndPoint} is down");
        Assert.Contains("1 not served", await relay.StopAsync(), StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_check_names_a_target_that_accepts_and_ends_at_once()
    {
        using TcpListener ends = new(IPAddress.Loopback, 0);
        ends.Start();
        await using var relay = await RunningTool.Relay($"{ends.LocalEndpoint}", "--check", "0.2");
        Task<string> said = relay.Error.ThatContains($"{ends.LocalEndpoint} is down");
        while (!said.IsCompleted)
        {
            Task<Socket> accepted = ends.AcceptSocketAsync(Stop).AsTask();
            await Task.WhenAny(accepted, said);
            if (accepted.IsCompleted) (await accepted).Dispose();
        }

        Assert.Contains("is down: ", await said, StringComparison.Ordinal);
        await relay.StopAsync();
    }

    [Fact]
    public async Task Wrong_arguments_are_refused_with_what_would_be_right()
    {
        await RunningTool.AssertRefused("The listening address is missing", "whimbrel relay LISTEN TARGET", "relay");
        await RunningTool.AssertRefused("A target is missing", "whimbrel relay LISTEN TARGET", "relay", "127.0.0.1:0");
        await RunningTool.AssertRefused("port 0", "whimbrel relay LISTEN TARGET", "relay", "127.0.0.1:0",
            "127.0.0.1:0");
        await RunningTool.AssertRefused("--proxy-protocol", "whimbrel relay LISTEN TARGET", "relay", "127.0.0.1:0",
            "127.0.0.1:1", "--proxy-protocol", "3");
        await RunningTool.AssertRefused("--check", "whimbrel relay LISTEN TARGET", "relay", "127.0.0.1:0",
            "127.0.0.1:1", "--check", "0");
        await RunningTool.AssertRefused("Either all targets use tls:// or none", "whimbrel relay LISTEN TARGET",
            "relay", "127.0.0.1:0", "127.0.0.1:1", "tls://127.0.0.1:2");
        await RunningTool.AssertRefused("need tls:// targets", "whimbrel relay LISTEN TARGET", "relay", "127.0.0.1:0",
            "127.0.0.1:1", "--target-name", "a");
        await RunningTool.AssertRefused("'x'", "whimbrel relay LISTEN TARGET", "relay", "127.0.0.1:0", "127.0.0.1:1",
            "--from-proxies", "x");
    }
}
