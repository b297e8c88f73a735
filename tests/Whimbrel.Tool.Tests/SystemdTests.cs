using System.Net.Sockets;
using System.Text.RegularExpressions;

namespace Whimbrel.Tool.Tests;

// The units of the guide, with the programs of systemd that run without systemd as process 1.
public sealed partial class SystemdTests : IDisposable
{
    private readonly TemporaryFolder _folder = new();

    public void Dispose() => _folder.Dispose();

    [Theory]
    [InlineData("systemd.md", "chat.service", "chat.socket")]
    [InlineData("deploys.md", "chat.service")]
    public async Task Units_of_the_guide_have_no_mistake(string page, params string[] units)
    {
        Assert.Equal(units, WriteUnits(page));
        Assert.Equal((0, ""), await VerifyAsync(units));
    }

    [Fact]
    public async Task A_mistake_in_a_unit_is_found()
    {
        string[] units = WriteUnits("systemd.md");
        string wrong = await File.ReadAllTextAsync(_folder[units[0]], TestContext.Current.CancellationToken);
        await File.WriteAllTextAsync(_folder[units[0]], wrong.Replace("LimitNOFILE", "LimitFiles",
            StringComparison.Ordinal), TestContext.Current.CancellationToken);
        (_, string said) = await VerifyAsync(units);
        Assert.Contains("LimitFiles", said, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_connection_that_arrives_before_the_service_starts_is_served_by_it()
    {
        OtherProgram.Needs("systemd-socket-activate");
        // The name of the socket unit in the guide.
        string name = Name().Match(await File.ReadAllTextAsync(PathOf("systemd.md"),
            TestContext.Current.CancellationToken)).Groups[1].Value;
        await using var service = RunningTool.StartBy(
            ["systemd-socket-activate", $"--fdname={name}", "-l", _folder["socket"]],
            "serve", "echo", "--listen", $"systemd:{name}");
        await service.Error.ThatContains("Listening on ");
        using Peer first = new(new UnixDomainSocketEndPoint(_folder["socket"]));
        await first.SayAsync("x");
        await service.Out.ThatContains("listening on ");
        await first.ReadAsync(2);
        using Peer second = new(new UnixDomainSocketEndPoint(_folder["socket"]));
        await second.SayAsync("y");
        await second.ReadAsync(2);
        first.Dispose();
        second.Dispose();
        Assert.Contains("total: 2 connections", await service.StopAsync(), StringComparison.Ordinal);
        Assert.True(File.Exists(_folder["socket"])); // it is the unit's
    }

    [Fact]
    public async Task Another_name_in_the_socket_unit_is_reported_with_the_name_that_was_passed()
    {
        OtherProgram.Needs("systemd-socket-activate");
        await using var service = RunningTool.StartBy(
            ["systemd-socket-activate", "--fdname=web", "-l", _folder["socket"]],
            "serve", "echo", "--listen", "systemd:chat");
        await service.Error.ThatContains("Listening on ");
        using Peer peer = new(new UnixDomainSocketEndPoint(_folder["socket"]));
        await service.Error.ThatContains($"systemd passed no listening socket named 'chat', but: Stream "
            + $"{_folder["socket"]}");
        Assert.Equal(1, await service.ExitCodeAsync());
    }

    private Task<(int Code, string Output)> VerifyAsync(string[] units) =>
        OtherProgram.RunAsync("systemd-analyze", ["verify", "--man=no", .. units.Select(u => _folder[u])]);

    // Each ini fence is a unit. Its program and folder exist here under other names.
    private string[] WriteUnits(string page)
    {
        List<string> names = [];
        foreach (Match fence in Fence().Matches(File.ReadAllText(PathOf(page))))
        {
            string unit = fence.Groups[1].Value;
            names.Add(unit.Contains("[Socket]", StringComparison.Ordinal) ? "chat.socket" : "chat.service");
            File.WriteAllText(_folder[names[^1]], Program().Replace(unit, "ExecStart=/bin/true")
                .Replace("WorkingDirectory=/opt/chat", "WorkingDirectory=/tmp", StringComparison.Ordinal));
        }

        return [.. names];
    }

    private static string PathOf(string page)
    {
        string folder = AppContext.BaseDirectory;
        while (!File.Exists(Path.Combine(folder, "Whimbrel.slnx"))) folder = Path.GetDirectoryName(folder)!;
        return Path.Combine(folder, "docs/guide", page);
    }

    [GeneratedRegex(@"^```ini\n(.*?)^```", RegexOptions.Multiline | RegexOptions.Singleline)]
    private static partial Regex Fence();

    [GeneratedRegex("^ExecStart=/opt/.*$", RegexOptions.Multiline)]
    private static partial Regex Program();

    [GeneratedRegex("^FileDescriptorName=(.+)$", RegexOptions.Multiline)]
    private static partial Regex Name();
}
