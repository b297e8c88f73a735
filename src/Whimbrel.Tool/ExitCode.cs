namespace Whimbrel.Tool;

/// <summary>What the process says when it ends.</summary>
internal static class ExitCode
{
    internal const int Done = 0;
    internal const int Failed = 1;
    internal const int WrongArguments = 2;
}
