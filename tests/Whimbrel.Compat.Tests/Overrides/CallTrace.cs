namespace Whimbrel.Compat.Tests.Overrides;

/// <summary>Names of the overrides that a call passes, in order, with <c>&lt;</c> between them. One for each thread:
/// callbacks of other threads are not part of the call.</summary>
internal sealed class CallTrace
{
    [ThreadStatic] private static List<string>? t_names;

    /// <summary>Returns the overrides that the call passes on this thread.</summary>
    internal static string Of(Action call)
    {
        t_names = [];
        try
        {
            call();
            return string.Join(" > ", t_names);
        }
        finally
        {
            t_names = null;
        }
    }

    internal static void Add(string name) => t_names?.Add(name);
}
