namespace Whimbrel.Tool;

/// <summary>Exit codes of the process.</summary>
internal static class ExitCode
{
    internal const int Done = 0;
    internal const int Failed = 1;
    internal const int WrongArguments = 2;

    /// <summary>The driver of a load was the limit, so its figures are not those of the server.</summary>
    internal const int Refused = 3;
}
