using System.Diagnostics;
using System.Text;

namespace Whimbrel.Docs;

// Runs a program to its end, or kills it and everything it started when the time is up. Both output streams as one text.
internal static class Command
{
    public static async Task<(int ExitCode, string Output)> RunAsync(string folder, TimeSpan limit, string program, params string[] arguments)
    {
        using var process = Process.Start(Describe(folder, program, arguments))!;
        process.StandardInput.Close();
        var output = new StringBuilder();
        var both = Task.WhenAll(CollectAsync(process.StandardOutput, output), CollectAsync(process.StandardError, output));
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
            // A build server that the program left behind holds the pipe open: what was read is enough.
        }
        return (process.ExitCode, Text(output));
    }

    public static ProcessStartInfo Describe(string folder, string program, params string[] arguments)
    {
        var start = new ProcessStartInfo(program, arguments) { WorkingDirectory = folder, RedirectStandardInput = true, RedirectStandardOutput = true, RedirectStandardError = true };
        // A test run that was itself started by the SDK carries its settings; a reader's shell does not.
        foreach (var name in start.Environment.Keys.Where(k => k.StartsWith("MSBUILD", StringComparison.OrdinalIgnoreCase) || k.StartsWith("TESTINGPLATFORM", StringComparison.OrdinalIgnoreCase)).ToList()) start.Environment.Remove(name);
        start.Environment["MSBUILDDISABLENODEREUSE"] = "1";
        start.Environment["UseSharedCompilation"] = "false";
        return start;
    }

    public static bool Exists(string program) => Find(program) is not null;

    /// The file that the PATH gives for a command.
    public static string? Find(string program) =>
        (Environment.GetEnvironmentVariable("PATH") ?? "").Split(Path.PathSeparator).Select(folder => Path.Combine(folder, program)).FirstOrDefault(File.Exists);

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
