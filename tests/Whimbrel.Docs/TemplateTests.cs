using System.Diagnostics;
using System.Text.RegularExpressions;

namespace Whimbrel.Docs;

// Projects created by `dotnet new` from the packed templates, built with the packages: they run, respond, and drain
// when they are stopped.
public partial class TemplateTests(MadeProjects made) : IClassFixture<MadeProjects>
{
    [Fact]
    public async Task An_echo_server_echoes_and_stops_at_a_signal()
    {
        await using var server = await StartAsync("Echo", "tcp://127.0.0.1:0");
        await TemplateExchanges.EchoAsync(server);
    }

    [Fact]
    public async Task A_chat_lets_guests_talk_and_says_good_bye_when_the_host_stops()
    {
        await using var server = await StartAsync("Chat", "--Chat:Address=tcp://127.0.0.1:0");
        await TemplateExchanges.ChatAsync(server);
    }

    [Fact]
    public async Task A_chat_with_mistakes_in_its_settings_names_them_and_does_not_start()
    {
        made.Check();
        var (code, output) = await Command.RunAsync(made.FolderOf("Chat"), RunningProgram.Patience,
            "dotnet", made.ProgramOf("Chat"),
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
        await TemplateExchanges.WebAsync(server, "My-Site");
    }

    private async Task<RunningProgram> StartAsync(string name, string argument)
    {
        made.Check();
        var program = new RunningProgram(
            Process.Start(Command.Describe(made.FolderOf(name), "dotnet", made.ProgramOf(name), argument))!);
        await program.ListensAsync();
        return program;
    }
}
