namespace Whimbrel.Gallery;

// `dotnet run file.cs` as a user does it. One program in each run; all of them with --deep, because each is a build.
public sealed class DotnetRunTests
{
    public static TheoryData<string> Programs => Environment.GetEnvironmentVariable("WHIMBREL_DEEP") == "1"
        ? PageTests.Programs : ["chat"];

    [Theory, MemberData(nameof(Programs))]
    public async Task A_program_builds_without_warnings_and_runs(string name)
    {
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
