using System.CommandLine;

namespace Whimbrel.Tool.Top;

/// <summary>Arguments of <c>whimbrel top</c>.</summary>
internal static class TopCommandLine
{
    internal const string Usage =
        "whimbrel top PATH, or whimbrel top --pid N [--json] [--every SECONDS] [--for SECONDS]";

    private static readonly Argument<string?> s_path = new("PATH")
    {
        Arity = ArgumentArity.ZeroOrOne,
        Description = "Status socket of a server: ServerOptions.StatusPath, or the path of serve --status."
    };
    private static readonly Option<int?> s_pid = CommandLine.Value("--pid", "N",
        "Process id instead of the path; the socket's name must end in .status (Linux).", "a process id",
        static text => CommandLine.Number(text, 1, int.MaxValue));
    private static readonly Option<double?> s_every = CommandLine.Value<double?>("--every", "SECONDS",
        "Time between two updates. Default 1.", "seconds from 0.1 to 3600, or a time such as 500ms",
        static text => CommandLine.Seconds(text, 0.1, 3600));
    private static readonly Option<bool> s_json =
        new("--json") { Description = "Print one snapshot of the server as a line of JSON, and end." };

    internal static Command Top()
    {
        Command command = new("top", "Shows a running server: loops, connections, rates, queues, slow sessions. "
            + "Without a terminal one line per update. Ctrl-C ends. Exit code 1: no server answers, or it has stopped.")
        {
            s_path, s_pid, s_json, s_every, CommandLine.For,
        };
        command.Validators.Add(static result =>
        {
            bool hasPath = result.GetResult(s_path) is { Tokens.Count: > 0 };
            if (hasPath == CommandLine.IsGiven(result, s_pid))
                result.AddError(hasPath ? "Give a path or --pid." : "A path is missing, or --pid.");
        });
        command.SetAction(static parsed => TopCommand.RunAsync(new TopSettings(
            parsed.GetValue(s_path),
            parsed.GetValue(s_pid) ?? 0,
            parsed.GetValue(s_json),
            TimeSpan.FromSeconds(parsed.GetValue(s_every) ?? 1),
            parsed.GetValue(CommandLine.For) is { } seconds ? TimeSpan.FromSeconds(seconds) : null)));
        return command;
    }
}
