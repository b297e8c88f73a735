namespace Whimbrel.Gallery;

// `dotnet run file.cs` as a user does it. Only with --deep, because each program is a build of its own and of what it
// references; the other tests compile all programs at once.
public sealed class DotnetRunTests
{
    public static TheoryData<string> Programs => PageTests.Programs;

    [Theory, MemberData(nameof(Programs))]
    public async Task A_program_builds_without_warnings_and_runs(string name)
    {
        Assert.SkipUnless(Depth.IsDeep, "Builds each program by `dotnet build`: ./test --deep");
        (int code, string output) = await RunningProgram.RunCommandAsync("build", "-c", "Release", name + ".cs");
        Assert.True(code == 0, output);
        Assert.DoesNotContain("warning", output, StringComparison.Ordinal);
        if (name != "chat") return;
        await using RunningProgram chat = await RunningProgram.StartCommandAsync(
            "run", "-c", "Release", "--no-build", "chat.cs", "tcp://127.0.0.1:0");
        using LineClient anna = await LineClient.ConnectAsync(chat.EndPoint);
        Assert.Equal("Your name?", await anna.ReadLineAsync());
        await chat.StopAsync();
    }
}
