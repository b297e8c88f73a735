using System.CommandLine;

namespace Whimbrel.Tool;

/// <summary>
/// The command line tool. <see cref="CommandLine"/> parses arguments; <see cref="ServeCommand"/>,
/// <see cref="ConnectCommand"/> and the others run. Exit codes: 0 done, 1 failed (doctor: has advice), 2 wrong
/// arguments.
/// </summary>
internal static class Program
{
    public static async Task<int> Main(string[] args)
    {
        ParseResult parsed = CommandLine.Create().Parse(args);
        if (parsed.Errors.Count == 0)
        {
            // The library's handling of signals is off, because it ends the process after two seconds of draining.
            return await parsed.InvokeAsync(new InvocationConfiguration { ProcessTerminationTimeout = null });
        }

        // One line instead of the library's complete help, so that it is readable in a log.
        await Console.Error.WriteLineAsync($"whimbrel: {CommandLine.WrongIn(parsed)} Right would be: "
            + $"{CommandLine.UsageOf(parsed.CommandResult.Command)}");
        return ExitCode.WrongArguments;
    }
}
