using System.Diagnostics;
using System.Net;
using System.Net.Http.Json;
using System.Net.Sockets;
using System.Text;
using System.Text.RegularExpressions;

namespace Whimbrel.Docs;

// Projects created by `dotnet new` from the packed templates, built with the packages: they run, respond, and drain
// when they are stopped.
public partial class TemplateTests(MadeProjects made) : IClassFixture<MadeProjects>
{
    private static readonly TimeSpan _patience = TimeSpan.FromSeconds(60);

    [Fact]
    public async Task An_echo_server_echoes_and_stops_at_a_signal()
    {
        await using var server = await StartAsync("Echo", "tcp://127.0.0.1:0");
        using var client = await server.ConnectAsync();
        Assert.Equal("hello", await AskAsync(client, "hello\n"));
        client.Close(); // a drain waits for connected clients
        Assert.Contains("Stopped: ", await server.StopAsync(), StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_chat_lets_guests_talk_and_says_good_bye_when_the_host_stops()
    {
        await using var server = await StartAsync("Chat", "--Chat:Address=tcp://127.0.0.1:0");
        using var anna = await server.ConnectAsync();
        using var bert = await server.ConnectAsync();
        Assert.Equal("Who are you?", await AskAsync(anna, "anna\n"));
        Assert.Equal("Hello anna. /quit leaves.", await AskAsync(anna, ""));
        await AskAsync(bert, "bert\n");
        await AskAsync(bert, "hi\n");
        Assert.Equal("bert is here", await AskAsync(anna, ""));
        Assert.Equal("bert: hi", await AskAsync(anna, ""));
        var stopped = server.StopAsync();
        Assert.Equal("The server stops. Good-bye.", await AskAsync(anna, ""));
        anna.Close();
        bert.Close();
        Assert.Contains("Chat has stopped", await stopped, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_chat_with_mistakes_in_its_settings_names_them_and_does_not_start()
    {
        made.Check();
        var (code, output) = await Command.RunAsync(made.FolderOf("Chat"), _patience, "dotnet", made.ProgramOf("Chat"),
            "--Chat:Address=tcp://127.0.0.1:0", "--Chat:Socket:Backlog=0", "--Chat:Limits:Connection=3");
        Assert.NotEqual(0, code);
        Assert.Contains("Chat:Socket:Backlog = 0", output, StringComparison.Ordinal);
        Assert.Contains("Chat:Limits:Connection: there is no such option", output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task The_tests_of_a_chat_pass()
    {
        made.Check();
        var (code, output) = await Command.RunAsync(made.FolderOf("Chat"), MadeProjects.Limit, "dotnet", "test",
            "tests", "-c", "Release", "--no-build");
        Assert.True(code == 0, output);
        Assert.Matches(@"Passed:\s*3,.*Total:\s*3,", output);
    }

    // Every project that README's first ten minutes make is among those that these tests build.
    [Fact]
    public void Projects_of_the_README_are_built_with_the_names_of_the_README()
    {
        var named = Made().Matches(File.ReadAllText(Repository.PathOf("README.md")))
            .Select(static m => (m.Groups["template"].Value, m.Groups["name"].Value)).ToList();
        Assert.NotEmpty(named);
        Assert.Empty(named.Except(MadeProjects.Projects));
    }

    [Fact]
    public async Task A_web_server_with_the_name_of_the_README_answers_as_it_says()
    {
        await using var server = await StartAsync("Notes", "--Web:Address=http://127.0.0.1:0");
        using var client = new HttpClient { BaseAddress = new Uri($"http://{server.EndPoint}") };
        Assert.Equal("Hello anna", await client.GetStringAsync("/hello/anna"));
    }

    [GeneratedRegex("dotnet new (?<template>whimbrel-[a-z]+) -o (?<name>[A-Za-z-]+)")]
    private static partial Regex Made();

    [Fact]
    public async Task A_web_server_has_routes_files_and_WebSocket()
    {
        await using var server = await StartAsync("My-Site", "--Web:Address=http://127.0.0.1:0");
        using var client = new HttpClient { BaseAddress = new Uri($"http://{server.EndPoint}") };
        Assert.Equal("Hello you", await client.GetStringAsync("/hello/you"));
        Assert.Contains("<h1>My-Site</h1>", await client.GetStringAsync("/"), StringComparison.Ordinal);
        Assert.Equal(HttpStatusCode.Created,
            (await client.PostAsJsonAsync("/notes", new { text = "buy milk" })).StatusCode);
        Assert.Equal(HttpStatusCode.BadRequest,
            (await client.PostAsync("/notes", new StringContent("{", null, "application/json"))).StatusCode);
        Assert.Equal("""[{"text":"buy milk"}]""", await client.GetStringAsync("/notes"));

        using var socket = new System.Net.WebSockets.ClientWebSocket();
        await socket.ConnectAsync(new Uri($"ws://{server.EndPoint}/echo"), CancellationToken.None).WaitAsync(_patience);
        await socket.SendAsync(Encoding.UTF8.GetBytes("hello"), System.Net.WebSockets.WebSocketMessageType.Text,
            endOfMessage: true, CancellationToken.None);
        var answer = new byte[100];
        var received = await socket.ReceiveAsync(answer, CancellationToken.None).WaitAsync(_patience);
        Assert.Equal("hello", Encoding.UTF8.GetString(answer, 0, received.Count));
        socket.Abort();
        client.Dispose();
        Assert.Contains("Web has stopped", await server.StopAsync(), StringComparison.Ordinal);
    }

    private async Task<RunningProgram> StartAsync(string name, string argument)
    {
        made.Check();
        var program = new RunningProgram(
            Process.Start(Command.Describe(made.FolderOf(name), "dotnet", made.ProgramOf(name), argument))!);
        await program.ListensAsync();
        return program;
    }

    // Sends a text and reads a line.
    private static async Task<string> AskAsync(TcpClient client, string text)
    {
        await client.GetStream().WriteAsync(Encoding.UTF8.GetBytes(text));
        var line = new StringBuilder();
        var one = new byte[1];
        while (await client.GetStream().ReadAsync(one).AsTask().WaitAsync(_patience) == 1 && one[0] != '\n')
            line.Append((char)one[0]);
        return line.ToString();
    }

    private sealed partial class RunningProgram(Process process) : IAsyncDisposable
    {
        private readonly StringBuilder _said = new();

        public IPEndPoint EndPoint { get; private set; } = null!;

        public async Task ListensAsync()
        {
            while (await process.StandardOutput.ReadLineAsync().WaitAsync(_patience) is { } line)
            {
                _said.AppendLine(line);
                if (Listens().Match(line) is not { Success: true } place) continue;
                EndPoint = IPEndPoint.Parse(place.Groups["place"].Value);
                return;
            }
            Assert.Fail($"It ended before it listened:\n{_said}\n{await process.StandardError.ReadToEndAsync()}");
        }

        public async Task<TcpClient> ConnectAsync()
        {
            var client = new TcpClient();
            await client.ConnectAsync(EndPoint);
            return client;
        }

        /// Stops the program, and returns its output.
        public async Task<string> StopAsync()
        {
            Assert.SkipUnless(OperatingSystem.IsLinux() || OperatingSystem.IsMacOS(), "The test needs signals.");
            using var kill = Process.Start("kill",
                ["-TERM", process.Id.ToString(System.Globalization.CultureInfo.InvariantCulture)]);
            _said.Append(await process.StandardOutput.ReadToEndAsync().WaitAsync(_patience));
            await process.WaitForExitAsync().WaitAsync(_patience);
            Assert.True(process.ExitCode == 0,
                $"exit code {process.ExitCode}\n{_said}\n{await process.StandardError.ReadToEndAsync()}");
            return _said.ToString();
        }

        public ValueTask DisposeAsync()
        {
            if (!process.HasExited) process.Kill(entireProcessTree: true);
            process.Dispose();
            return ValueTask.CompletedTask;
        }

        [GeneratedRegex(@"(Listening|listens) at (?<place>127\.0\.0\.1:\d+)")]
        private static partial Regex Listens();
    }
}
