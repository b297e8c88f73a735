using System.Diagnostics;

namespace Whimbrel.Tool.Tests;

// External programs on the PATH. A test that needs a missing one is skipped.
internal static class OtherProgram
{
    public static void Needs(params string[] names)
    {
        string[] folders = (Environment.GetEnvironmentVariable("PATH") ?? "").Split(Path.PathSeparator);
        foreach (string name in names)
            Assert.SkipUnless(folders.Any(f => File.Exists(Path.Combine(f, name))), $"{name} is not installed.");
    }

    public static async Task<(int ExitCode, string Output)> RunAsync(string name, params string[] arguments)
    {
        Needs(name);
        using Process process = Start(name, arguments);
        process.StandardInput.Close();
        return await Deadline.Within(
            async cancellation =>
            {
                using CancellationTokenRegistration kill = cancellation.Register(process.Kill);
                Task<string> errors = process.StandardError.ReadToEndAsync(cancellation);
                string output = await process.StandardOutput.ReadToEndAsync(cancellation);
                output += await errors;
                await process.WaitForExitAsync(cancellation);
                return (process.ExitCode, output);
            },
            () => $"{name} {string.Join(' ', arguments)}");
    }

    public static Process Start(string name, params string[] arguments) =>
        Process.Start(new ProcessStartInfo(name, arguments)
        {
            RedirectStandardInput = true,
            RedirectStandardOutput = true,
            RedirectStandardError = true
        })!;
}
