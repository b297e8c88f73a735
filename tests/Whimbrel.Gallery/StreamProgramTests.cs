using System.Diagnostics;
using System.Globalization;

namespace Whimbrel.Gallery;

// Programs over TCP: each runs in a process of its own and serves a real client.
public sealed class StreamProgramTests
{
    private const string AnyPort = "tcp://127.0.0.1:0";

    [Fact]
    public async Task Guests_of_chat_talk_and_receive_a_goodbye_when_it_stops()
    {
        await using RunningProgram chat = await RunningProgram.StartAsync("chat", AnyPort);
        using LineClient anna = await LineClient.ConnectAsync(chat.EndPoint);
        using LineClient bert = await LineClient.ConnectAsync(chat.EndPoint);
        Assert.Equal("Your name?", await anna.ReadLineAsync());
        Assert.Equal("Hello Anna. /quit leaves.", await anna.AskAsync("Anna\n"));
        Assert.Equal("Your name?", await bert.ReadLineAsync());
        Assert.Equal("Hello Bert. /quit leaves.", await bert.AskAsync("Bert\n"));
        Assert.Equal("Bert is here", await anna.ReadLineAsync());
        Assert.Equal("Anna: hi", await ReadAfterAsync(anna, "hi\n", bert));
        Assert.Equal("Bert has left", await ReadAfterAsync(bert, "/quit\n", anna));
        Task<string> stopped = chat.StopAsync("INT");
        Assert.Equal("The server stops. Good-bye.", await anna.ReadLineAsync());
        await stopped;
    }

    [Fact]
    public async Task A_second_signal_ends_a_program_that_still_drains()
    {
        await using RunningProgram relay = await RunningProgram.StartAsync("relay", AnyPort, "tcp://127.0.0.1:9");
        await using RunningProgram chat = await RunningProgram.StartAsync("cluster", AnyPort, AnyPort);
        await using RunningProgram front = await RunningProgram.StartAsync("relay", AnyPort, $"tcp://{chat.EndPoint}");
        using LineClient guest = await LineClient.ConnectAsync(front.EndPoint);
        using LineClient direct = await LineClient.ConnectAsync(chat.EndPoint);
        await guest.SendAsync("hi\n");
        Assert.EndsWith(": hi", await direct.ReadLineAsync(), StringComparison.Ordinal);
        // The relay waits ten seconds for its client, which stays. The listener is closed as soon as the stop begins.
        front.Signal("INT");
        await AssertRefusesAsync(front);
        Stopwatch clock = Stopwatch.StartNew();
        front.Signal("INT");
        Assert.NotEqual(0, (await front.EndAsync()).ExitCode);
        Assert.True(clock.Elapsed < TimeSpan.FromSeconds(8), $"{clock.Elapsed}");
    }

    [Fact]
    public async Task Redis_cli_sets_and_gets_a_value()
    {
        await using RunningProgram redis = await RunningProgram.StartAsync("resp", AnyPort);
        using LineClient raw = await LineClient.ConnectAsync(redis.EndPoint);
        Assert.Equal("+PONG", await raw.AskAsync("*1\r\n$4\r\nPING\r\n"));
        Assert.Equal("-ERR unknown command or wrong number of arguments", await raw.AskAsync("*1\r\n$3\r\nGET\r\n"));
        Assert.Equal("$-1", await raw.AskAsync("*2\r\n$3\r\nGET\r\n$4\r\nnone\r\n"));
        Assert.Equal("-ERR Protocol error: expected '*' and a number from 1 to 1024", await raw.AskAsync("PING\r\n"));
        Assert.Null(await raw.ReadLineAsync());
        Assert.Equal("PONG", await RedisAsync(redis, "PING"));
        Assert.Equal("OK", await RedisAsync(redis, "SET", "name", "anna"));
        Assert.Equal("anna", await RedisAsync(redis, "GET", "name"));
        Assert.Equal("1", await RedisAsync(redis, "DEL", "name", "other"));
        await redis.StopAsync();
    }

    [Fact]
    public async Task A_relay_passes_a_connection_to_the_target_that_serves()
    {
        await using RunningProgram target = await RunningProgram.StartAsync("cluster", AnyPort, AnyPort);
        await using RunningProgram relay = await RunningProgram.StartAsync("relay", AnyPort,
            $"tcp://{target.EndPoints[0]}", $"tcp://{target.EndPoints[1]}");
        using LineClient one = await LineClient.ConnectAsync(relay.EndPoint);
        using LineClient two = await LineClient.ConnectAsync(target.EndPoint);
        await one.SendAsync("through\n");
        Assert.EndsWith(": through", await two.ReadLineAsync(), StringComparison.Ordinal);
        one.Dispose();
        Assert.Contains("Stopped: ", await relay.StopAsync(), StringComparison.Ordinal);
        await target.StopAsync();
    }

    [Fact]
    public async Task Calls_of_rpc_are_answered()
    {
        await using RunningProgram server = await RunningProgram.StartAsync("rpc", AnyPort);
        (int code, string output) = await RunningProgram.RunAsync("rpc", $"tcp://{server.EndPoint}", "call");
        Assert.True(code == 0, output);
        Assert.Equal("eno owt eerht", output.Trim());
        await server.StopAsync();
        (code, output) = await RunningProgram.RunAsync("rpc", $"tcp://{server.EndPoint}", "call");
        Assert.Equal(1, code);
        Assert.Contains(server.EndPoint.ToString(), output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_game_moves_its_players_at_60_steps_a_second()
    {
        await using RunningProgram game = await RunningProgram.StartAsync("game", AnyPort);
        using LineClient player = await LineClient.ConnectAsync(game.EndPoint);
        await player.SendAsync("d");
        (long Step, int X, int Y) first, last;
        do first = Parse(await player.ReadLineAsync()); while (first.X == 0);
        Stopwatch clock = Stopwatch.StartNew();
        do last = Parse(await player.ReadLineAsync()); while (last.Step < first.Step + 60);
        Assert.Equal(0, last.Y);
        Assert.Equal(last.Step - first.Step, last.X - first.X);
        Assert.InRange(clock.Elapsed.TotalSeconds, 0.5, 10); // about one second; machines of tests are busy
        Assert.Contains("Stopped: ", await game.StopAsync(), StringComparison.Ordinal);
    }

    [Fact]
    public async Task The_load_generator_measures_an_echo_server()
    {
        await using Server echo = await Server.StartAsync(AnyPort,
            static async (ConnectionStream peer, CancellationToken stop) => await peer.CopyToAsync(peer, stop));
        (int code, string output) = await RunningProgram.RunAsync("load", $"tcp://{echo.EndPoint}", "10", "0.5");
        Assert.True(code == 0, output);
        Assert.Contains("10 of 10 connections are open", output, StringComparison.Ordinal);
        Assert.Matches(@"\n[1-9]\d* answers a second\np50 \d+ us, p99 \d+ us, p99.9 \d+ us", output);
    }

    [Fact]
    public async Task The_load_generator_reports_that_no_server_is_there()
    {
        await using Server gone = await Server.StartAsync(AnyPort, static (_, _) => Task.CompletedTask);
        string address = $"tcp://{gone.EndPoint}";
        await gone.StopAsync();
        (int code, string output) = await RunningProgram.RunAsync("load", address, "2", "1");
        Assert.Equal(1, code);
        Assert.Contains("refused", output, StringComparison.OrdinalIgnoreCase);
    }

    [Fact]
    public async Task Guests_of_two_nodes_share_a_room()
    {
        await using RunningProgram nodes = await RunningProgram.StartAsync("cluster", AnyPort, AnyPort);
        using LineClient here = await LineClient.ConnectAsync(nodes.EndPoints[0]);
        using LineClient there = await LineClient.ConnectAsync(nodes.EndPoints[1]);
        Task<string?> received = there.ReadLineAsync();
        do
        {
            await here.SendAsync("hello\n");
        }
        // tidy: waits because the first broadcasts may leave before the other node has a member.
        while (await Task.WhenAny(received, Task.Delay(100)) != received);
        Assert.EndsWith(": hello", await received, StringComparison.Ordinal);
        await nodes.StopAsync();
    }

    [Fact]
    public async Task A_reader_that_comes_back_gets_what_it_missed()
    {
        await using RunningProgram feed = await RunningProgram.StartAsync("recoverable", AnyPort);
        using LineClient writer = await LineClient.ConnectAsync(feed.EndPoint);
        string position;
        using (LineClient reader = await LineClient.ConnectAsync(feed.EndPoint))
        {
            Assert.EndsWith("later messages follow", await reader.AskAsync("follow\n"), StringComparison.Ordinal);
            await writer.SendAsync("say one\n");
            string? first = await reader.ReadLineAsync();
            Assert.EndsWith(" one", first, StringComparison.Ordinal);
            position = first!.Split(' ')[0];
        }

        await writer.SendAsync("say two\nsay three\n");
        using LineClient again = await LineClient.ConnectAsync(feed.EndPoint);
        Assert.EndsWith(" two", await again.AskAsync($"follow {position}\n"), StringComparison.Ordinal);
        Assert.EndsWith(" three", await again.ReadLineAsync(), StringComparison.Ordinal);
        Assert.Equal("This is no position.", await again.AskAsync("follow nowhere\n"));
        await feed.StopAsync();
    }

    [Fact]
    public async Task A_protocol_holds_on_simulated_networks()
    {
        (int code, string output) = await RunningProgram.RunAsync("simulation", "200");
        Assert.True(code == 0, output);
        Assert.Contains("200 networks: each of 20 messages arrived once and in order.", output,
            StringComparison.Ordinal);
    }

    private static async Task<string?> ReadAfterAsync(LineClient sender, string text, LineClient receiver)
    {
        await sender.SendAsync(text);
        return await receiver.ReadLineAsync();
    }

    private static async Task AssertRefusesAsync(RunningProgram program)
    {
        for (long until = Environment.TickCount64 + 30_000; Environment.TickCount64 < until;)
        {
            try
            {
                using LineClient client = await LineClient.ConnectAsync(program.EndPoint);
            }
            catch (System.Net.Sockets.SocketException)
            {
                return;
            }
        }

        Assert.Fail("The program still accepts connections.");
    }

    // "120 7:3,0": the step, and the players with their places
    private static (long Step, int X, int Y) Parse(string? line)
    {
        string[] parts = line!.Split(' ', ':', ',');
        return parts.Length < 4 ? (0, 0, 0) : (long.Parse(parts[0], CultureInfo.InvariantCulture),
            int.Parse(parts[2], CultureInfo.InvariantCulture), int.Parse(parts[3], CultureInfo.InvariantCulture));
    }

    private static async Task<string> RedisAsync(RunningProgram server, params string[] command)
    {
        Process? process;
        try
        {
            process = Process.Start(new ProcessStartInfo("redis-cli",
                ["-p", server.Port.ToString(CultureInfo.InvariantCulture), .. command])
            {
                RedirectStandardOutput = true,
                RedirectStandardError = true,
            });
        }
        catch (System.ComponentModel.Win32Exception)
        {
            Assert.Skip("redis-cli is not installed.");
            throw;
        }

        using Process cli = process!;
        string output = await cli.StandardOutput.ReadToEndAsync().WaitAsync(RunningProgram.Patience);
        return (output + await cli.StandardError.ReadToEndAsync()).Trim();
    }
}
