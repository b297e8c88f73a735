using System.CommandLine;

namespace Whimbrel.Tool;

/// <summary>
/// The command line tool. <see cref="CommandLine"/> knows the words, <see cref="ServeCommand"/>,
/// <see cref="ConnectCommand"/> and the doctor do the work. Exit codes: 0 done, 1 failed (doctor: has advice), 2 wrong arguments.
/// </summary>
internal static class Program
{
    public static async Task<int> Main(string[] args)
    {
        ParseResult parsed = CommandLine.Create().Parse(args);
        if (parsed.Errors.Count == 0)
        {
            // Without the library's own handling of signals, which ends the process after two seconds of draining.
            return await parsed.InvokeAsync(new InvocationConfiguration { ProcessTerminationTimeout = null });
        }

        // Not the library's dump of the whole help: one line that can be read, and found in a log.
        await Console.Error.WriteLineAsync($"whimbrel: {CommandLine.WrongIn(parsed)} Right would be: {CommandLine.UsageOf(parsed.CommandResult.Command)}");
        return ExitCode.WrongArguments;
    }
}
