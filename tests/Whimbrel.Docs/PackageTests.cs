using System.Diagnostics;
using System.Runtime.InteropServices;
using System.Text.RegularExpressions;

namespace Whimbrel.Docs;

// The README's first program, from the package, in a network namespace: it can listen on the documented port, and the
// machine's port is not bound.
public partial class PackageTests(PackedEcho echo) : IClassFixture<PackedEcho>
{
    private static readonly TimeSpan _patience = TimeSpan.FromSeconds(60);

    [Fact]
    public void The_README_program_is_twelve_lines()
    {
        Assert.SkipUnless(File.Exists(Repository.PathOf("README.md")), "README.md does not exist yet.");
        var program = Snippet.Of("README.md", File.ReadAllText(Repository.PathOf("README.md")))
            .FirstOrDefault(s => s.IsProgram);
        Assert.NotNull(program);
        var lines = program.Code.Split('\n').Count(l => l.Trim().Length > 0);
        Assert.True(lines <= 12, $"README.md:{program.Line}: the first program has grown to {lines} lines");
    }

    [Fact]
    public void The_README_program_builds_from_the_package()
    {
        Assert.SkipWhen(echo.Missing is not null, echo.Missing ?? "");
        if (echo.Failure is not null) Assert.Fail(echo.Failure);
    }

    [Fact]
    public async Task The_README_program_echoes()
    {
        Assert.SkipWhen(echo.Missing is not null, echo.Missing ?? "");
        if (echo.Failure is not null) Assert.Fail(echo.Failure);
        Assert.SkipUnless(OperatingSystem.IsLinux() && Environment.UserName == "root",
            "The test needs root on Linux to create a network namespace.");
        Assert.SkipUnless(Command.Exists("ip") && Command.Exists("bash"),
            "The test needs the commands ip (Debian: iproute2) and bash.");

        var space = $"whimbrel-{Environment.ProcessId}-{Random.Shared.Next(1 << 20):x}";
        var (code, output) = await Command.RunAsync(echo.Folder, _patience, "ip", "netns", "add", space);
        Assert.SkipUnless(code == 0, $"No network namespace can be created here: {output.Trim()}");
        try
        {
            (code, output) = await Command.RunAsync(echo.Folder, _patience, "ip", "-n", space, "link", "set",
                "lo", "up");
            Assert.True(code == 0, output);
            await EchoInAsync(space);
        }
        finally
        {
            await Command.RunAsync(echo.Folder, _patience, "ip", "netns", "delete", space);
        }
    }

    private async Task EchoInAsync(string space)
    {
        using var server =
            Process.Start(Command.Describe(echo.Folder, "ip", "netns", "exec", space, "dotnet", echo.Program))!;
        try
        {
            var firstLine = await server.StandardOutput.ReadLineAsync(TestContext.Current.CancellationToken).AsTask()
                .WaitAsync(_patience, TestContext.Current.CancellationToken);
            if (firstLine is null)
                Assert.Fail($"The program ended before it "
                    + $"listened:\n{await server.StandardError.ReadToEndAsync(TestContext.Current.CancellationToken)}");
            var place = EndPoint().Match(firstLine);
            Assert.True(place.Success, $"The program should say where it listens, and said: {firstLine}");
            // The process runs the precompiled library, which the package contains in addition to the IL-only one.
            var maps = await File.ReadAllTextAsync($"/proc/{server.Id}/maps", TestContext.Current.CancellationToken);
            if (RuntimeInformation.OSArchitecture == Architecture.X64)
                Assert.Contains("/runtimes/linux-x64/lib/net10.0/Whimbrel.dll", maps, StringComparison.Ordinal);

            var talk =
                $"exec 3<>/dev/tcp/127.0.0.1/{place.Groups["port"].Value} && printf 'whimbrel\\n' >&3 && head -n 1 <&3";
            var (code, answer) = await Command.RunAsync(echo.Folder, _patience, "ip", "netns", "exec", space, "bash",
                "-c", talk);
            Assert.True(code == 0, answer);
            Assert.Equal("whimbrel", answer.Trim());

            await server.StandardInput.WriteLineAsync(); // "Enter stops."
            await server.WaitForExitAsync(TestContext.Current.CancellationToken)
                .WaitAsync(_patience, TestContext.Current.CancellationToken);
            Assert.Equal(0, server.ExitCode);
        }
        finally
        {
            if (!server.HasExited) server.Kill(entireProcessTree: true);
        }
    }

    [GeneratedRegex(@":(?<port>\d{1,5})\b")]
    private static partial Regex EndPoint();
}
