using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Text;
using System.Text.RegularExpressions;

namespace Whimbrel.Gallery;

/// <summary>A program of the gallery in a process of its own. It is killed when the test ends without a stop.</summary>
internal sealed partial class RunningProgram : IAsyncDisposable
{
    public static readonly TimeSpan Patience = TimeSpan.FromSeconds(60);

    private readonly Process _process;
    private readonly StringBuilder _output = new();
    private readonly Task<string> _errors;

    private RunningProgram(Process process)
    {
        _process = process;
        _errors = process.StandardError.ReadToEndAsync();
    }

    /// <summary>Addresses that the program has printed.</summary>
    public IReadOnlyList<IPEndPoint> EndPoints { get; private set; } = [];

    public IPEndPoint EndPoint => EndPoints[0];

    public int Port => EndPoint.Port;

    /// <summary>Starts a server and waits for the line with its address.</summary>
    public static Task<RunningProgram> StartAsync(string name, params string[] arguments) =>
        StartCommandAsync([PathOf(name), .. arguments]);

    /// <summary>The same with arguments of the command dotnet.</summary>
    public static async Task<RunningProgram> StartCommandAsync(params string[] arguments)
    {
        RunningProgram program = new(Process.Start(Describe(arguments))!);
        try
        {
            string line;
            do line = await program.ReadLineAsync(); while (!line.Contains("Ctrl-C stops.", StringComparison.Ordinal));
            program.EndPoints = [.. Address().Matches(line).Select(match => IPEndPoint.Parse(match.Value))];
            return program;
        }
        catch
        {
            await program.DisposeAsync();
            throw;
        }
    }

    /// <summary>Runs a program of the gallery to its end.</summary>
    public static Task<(int ExitCode, string Output)> RunAsync(string name, params string[] arguments) =>
        RunCommandAsync([PathOf(name), .. arguments]);

    /// <summary>Runs the command dotnet to its end.</summary>
    public static async Task<(int ExitCode, string Output)> RunCommandAsync(params string[] arguments)
    {
        await using RunningProgram program = new(Process.Start(Describe(arguments))!);
        return await program.EndAsync(TimeSpan.FromMinutes(10)); // a build beside others
    }

    public async Task<string> ReadLineAsync()
    {
        string? line = await _process.StandardOutput.ReadLineAsync().WaitAsync(Patience);
        if (line is null) Assert.Fail($"The program has ended:\n{_output}\n{await _errors.WaitAsync(Patience)}");
        _output.AppendLine(line);
        return line;
    }

    /// <summary>Stops the program as a terminal does. Returns its output.</summary>
    public async Task<string> StopAsync(string signal = "TERM")
    {
        Signal(signal);
        (int code, string output) = await EndAsync();
        Assert.True(code == 0, $"exit code {code}\n{output}");
        return output;
    }

    public void Signal(string signal)
    {
        Assert.SkipWhen(OperatingSystem.IsWindows(), "The test needs signals.");
        using Process kill = Process.Start("kill", [$"-{signal}", _process.Id.ToString(CultureInfo.InvariantCulture)]);
        kill.WaitForExit();
    }

    /// <summary>Waits until the program has ended.</summary>
    public async Task<(int ExitCode, string Output)> EndAsync(TimeSpan? limit = null)
    {
        _output.Append(await _process.StandardOutput.ReadToEndAsync().WaitAsync(limit ?? Patience));
        _output.Append(await _errors.WaitAsync(limit ?? Patience));
        await _process.WaitForExitAsync().WaitAsync(limit ?? Patience);
        return (_process.ExitCode, _output.ToString());
    }

    public ValueTask DisposeAsync()
    {
        if (!_process.HasExited) _process.Kill(entireProcessTree: true);
        _process.Dispose();
        return ValueTask.CompletedTask;
    }

    private static string PathOf(string name) => Path.Combine(AppContext.BaseDirectory, name + ".dll");

    private static ProcessStartInfo Describe(string[] arguments)
    {
        ProcessStartInfo start = new("dotnet", arguments)
        {
            WorkingDirectory = Repository.Programs,
            RedirectStandardInput = true,
            RedirectStandardOutput = true,
            RedirectStandardError = true,
        };
        // A test run started by the SDK inherits its settings, which a user's shell does not have.
        string[] foreign = [.. start.Environment.Keys.Where(static key =>
            key.StartsWith("MSBUILD", StringComparison.OrdinalIgnoreCase)
            || key.StartsWith("TESTINGPLATFORM", StringComparison.OrdinalIgnoreCase))];
        foreach (string key in foreign) start.Environment.Remove(key);
        start.Environment["MSBUILDDISABLENODEREUSE"] = "1";
        return start;
    }

    [GeneratedRegex(@"\d+\.\d+\.\d+\.\d+:\d+")]
    private static partial Regex Address();
}
