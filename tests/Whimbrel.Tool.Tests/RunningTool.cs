using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text.RegularExpressions;

namespace Whimbrel.Tool.Tests;

// The built tool as a separate process, started as a user starts it. Killed at the end of the test if it still runs.
internal sealed partial class RunningTool : IAsyncDisposable
{
    private readonly Process _process;

    // Opens a listening socket as descriptor 3 and becomes the tool, as systemd does for a service with a socket unit.
    private const string SystemdLauncher = """
        import os, socket, sys
        s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(64)
        s.detach() if s.fileno() == 3 else os.dup2(s.fileno(), 3)
        os.set_inheritable(3, True)
        os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="echo")
        os.execvp(sys.argv[1], sys.argv[1:])
        """;

    // The launcher is a command that replaces itself by the tool, so that no process is in between.
    private RunningTool(string[] arguments, string? tlsLayer = null, string? hook = null, params string[] launcher)
    {
        string[] command = [.. launcher, "dotnet", BuiltProgram.PathOf("Whimbrel.Tool"), .. arguments];
        var start = new ProcessStartInfo(command[0], command[1..])
        {
            RedirectStandardInput = true,
            RedirectStandardOutput = true,
            RedirectStandardError = true,
        };
        if (tlsLayer is not null) start.Environment["WHIMBREL_TLS"] = tlsLayer;
        if (hook is not null) start.Environment["DOTNET_STARTUP_HOOKS"] = hook;
        _process = Process.Start(start)!;
        Out = new Lines(_process.StandardOutput, "stdout");
        Error = new Lines(_process.StandardError, "stderr");
    }

    public Lines Out { get; }

    public Lines Error { get; }

    public StreamWriter Input => _process.StandardInput;

    public int Id => _process.Id;

    public EndPoint EndPoint { get; private set; } = null!;

    public string Address => EndPoint.ToString()!;

    public static RunningTool Start(params string[] arguments) => new(arguments);

    // A server that accepts connections, on any free port unless the options contain an address.
    public static Task<RunningTool> Serve(string kind, params string[] options) => ServeBy(null, kind, options);

    // Same as Serve, with one TLS provider only.
    public static Task<RunningTool> ServeBy(string? tlsLayer, string kind, params string[] options) =>
        ServeWith(tlsLayer, null, kind, options);

    // Same as Serve, with BlockedLoop inside.
    public static Task<RunningTool> ServeBlockable(string kind, params string[] options) =>
        ServeWith(null, typeof(BlockedLoop).Assembly.Location, kind, options);

    // Same as Serve, with a listening socket named "echo" that the service manager opened.
    public static Task<RunningTool> ServeAsService(string kind, params string[] options) =>
        ListeningAsync(new RunningTool(["serve", kind, .. options], launcher: ["python3", "-c", SystemdLauncher]));

    // The same for a service that does not start.
    public static RunningTool StartAsService(params string[] arguments) =>
        StartBy(["python3", "-c", SystemdLauncher], arguments);

    // Started by another program, which becomes the tool.
    public static RunningTool StartBy(string[] launcher, params string[] arguments) =>
        new(arguments, launcher: launcher);

    // Same as Serve, in a network namespace.
    public static Task<RunningTool> ServeIn(string space, string kind, params string[] options) =>
        ListeningAsync(new RunningTool(["serve", kind, .. options], launcher: ["ip", "netns", "exec", space]));

    private static Task<RunningTool> ServeWith(string? tlsLayer, string? hook, string kind, string[] options)
    {
        var isPlaced = options.Any(o => o is "--unix" or "--listen" or "--port");
        return ListeningAsync(new RunningTool(["serve", kind, .. isPlaced ? [] : (string[])["--port", "0"], .. options],
            tlsLayer, hook));
    }

    // A relay on any free port.
    public static Task<RunningTool> Relay(params string[] options) =>
        ListeningAsync(new RunningTool(["relay", "127.0.0.1:0", .. options]));

    private static async Task<RunningTool> ListeningAsync(RunningTool tool)
    {
        var line = await tool.Out.NextAsync() ?? throw new InvalidOperationException(
            $"The tool ended at once: {string.Join('\n', await tool.Error.ToEndAsync())}");
        var listening = Listening().Match(line);
        Assert.True(listening.Success, line);
        var place = listening.Groups["place"].Value;
        tool.EndPoint = IPEndPoint.TryParse(place, out var ip) ? ip : new UnixDomainSocketEndPoint(place);
        return tool;
    }

    // Runs the tool until it exits.
    public static async Task<(int ExitCode, List<string> Out, List<string> Error)> Run(string? input,
        params string[] arguments)
    {
        await using var tool = new RunningTool(arguments);
        if (input is not null) await tool.Input.WriteAsync(input);
        tool.Input.Close();
        var output = tool.Out.ToEndAsync();
        var errors = await tool.Error.ToEndAsync();
        // Diagnostic events that depend on the machine: io_uring is forbidden, as in containers, or a loop got no CPU
        // time.
        errors.RemoveAll(static line => line.StartsWith("notice: ", StringComparison.Ordinal)
            && (line.EndsWith("explain no-io-uring", StringComparison.Ordinal)
                || line.EndsWith("explain blocked-loop", StringComparison.Ordinal)));
        return (await tool.ExitCodeAsync(), await output, errors);
    }

    // Wrong arguments: exit code 2, and one line that names the correct form.
    public static async Task AssertRefused(string expected, string right, params string[] arguments)
    {
        var (code, output, errors) = await Run(null, arguments);
        Assert.Equal(2, code);
        Assert.Empty(output);
        var line = Assert.Single(errors);
        Assert.Contains(expected, line, StringComparison.Ordinal);
        Assert.Contains($"Right would be: {right}", line, StringComparison.Ordinal);
    }

    public Peer Connect() => new(EndPoint);

    public async Task SignalAsync(string name)
    {
        using var kill = Process.Start("sh",
            ["-c", string.Create(CultureInfo.InvariantCulture, $"kill -{name} {_process.Id}")]);
        await kill.WaitForExitAsync(TestContext.Current.CancellationToken);
        Assert.Equal(0, kill.ExitCode);
    }

    public Task<int> ExitCodeAsync() => Deadline.Within(
        async cancellation =>
        {
            await _process.WaitForExitAsync(cancellation);
            return _process.ExitCode;
        },
        () => "the end of the tool");

    // Stops the tool as a user does: drained, exit code 0. Returns the printed totals.
    public async Task<string> StopAsync()
    {
        await SignalAsync("TERM");
        var totals = await Out.ThatContains("total:");
        Assert.Equal(0, await ExitCodeAsync());
        return totals;
    }

    public async ValueTask DisposeAsync()
    {
        if (!_process.HasExited) _process.Kill();
        await _process.WaitForExitAsync(CancellationToken.None);
        _process.Dispose();
    }

    [GeneratedRegex(@"^listening on (?<place>\S+) \(engine [a-z]+, loops \d+(, TLS [a-z]+)?\)$")]
    private static partial Regex Listening();
}
