using System.Diagnostics;
using System.Text;

namespace Whimbrel.Docs;

// Runs a program until it exits, or kills it and its children at the deadline. Returns both output streams as one text.
internal static class Command
{
    public static async Task<(int ExitCode, string Output)> RunAsync(string folder, TimeSpan limit, string program,
        params string[] arguments)
    {
        using var process = Process.Start(Describe(folder, program, arguments))!;
        process.StandardInput.Close();
        var output = new StringBuilder();
        var both = Task.WhenAll(CollectAsync(process.StandardOutput, output),
            CollectAsync(process.StandardError, output));
        using var timer = new CancellationTokenSource(limit);
        try
        {
            await process.WaitForExitAsync(timer.Token);
            await both.WaitAsync(TimeSpan.FromSeconds(10), CancellationToken.None);
        }
        catch (OperationCanceledException)
        {
            process.Kill(entireProcessTree: true);
            return (-1, $"{program} {string.Join(' ', arguments)} did not end within {limit}\n{Text(output)}");
        }
        catch (TimeoutException)
        {
            // A build server that the program started may keep the pipe open: what was read until now is enough.
        }
        return (process.ExitCode, Text(output));
    }

    public static ProcessStartInfo Describe(string folder, string program, params string[] arguments)
    {
        var start = new ProcessStartInfo(program, arguments)
        {
            WorkingDirectory = folder,
            RedirectStandardInput = true,
            RedirectStandardOutput = true,
            RedirectStandardError = true
        };
        // A test run started by the SDK inherits its settings, which a user's shell does not have.
        foreach (var name in start.Environment.Keys.Where(k => k.StartsWith("MSBUILD",
            StringComparison.OrdinalIgnoreCase) || k.StartsWith("TESTINGPLATFORM", StringComparison.OrdinalIgnoreCase))
            .ToList())
            start.Environment.Remove(name);
        start.Environment["MSBUILDDISABLENODEREUSE"] = "1";
        start.Environment["UseSharedCompilation"] = "false";
        return start;
    }

    public static bool Exists(string program) => Find(program) is not null;

    /// Full path of a command in PATH.
    public static string? Find(string program) =>
        (Environment.GetEnvironmentVariable("PATH") ?? "").Split(Path.PathSeparator)
            .Select(folder => Path.Combine(folder, program)).FirstOrDefault(File.Exists);

    private static async Task CollectAsync(StreamReader from, StringBuilder into)
    {
        while (await from.ReadLineAsync() is { } line)
        {
            lock (into) into.AppendLine(line);
        }
    }

    private static string Text(StringBuilder output)
    {
        lock (output) return output.ToString();
    }
}
