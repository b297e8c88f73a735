using Whimbrel.Compat.Tests.Connections;

namespace Whimbrel.Compat.Tests.Differences;

/// <summary>Texts of what a behaviour shows.</summary>
internal static class Seen
{
    /// <summary>The values with a space between them; an exception is its type.</summary>
    internal static string All(params Func<object?>[] values) => string.Join(' ', values.Select(One));

    internal static string One(Func<object?> value)
    {
        try
        {
            return value()?.ToString() ?? "null";
        }
        catch (Exception e)
        {
            return e.GetType().Name;
        }
    }

    /// <summary>Several behaviours as one.</summary>
    internal static string Lines(params Func<string>[] runs) => string.Join(" ~ ", runs.Select(static r => r()));

    /// <summary>The lines that begin with the word, without it.</summary>
    internal static string Of(Log log, string word) =>
        string.Join(", ", log.Lines.Where(l => l.StartsWith(word + ":", StringComparison.Ordinal))
            .Select(l => l[(word.Length + 2)..]));

    /// <summary>All lines.</summary>
    internal static string Of(Log log) => string.Join(", ", log.Lines);

    /// <summary>Values of the properties with these names.</summary>
    internal static string Properties(object of, params string[] names) =>
        string.Join(' ', names.Select(n => $"{n}={of.GetType().GetProperty(n)!.GetValue(of) ?? "null"}"));

    /// <summary>Values of all options.</summary>
    internal static string Options(object of) => string.Join(' ', of.GetType().GetProperties()
        .Where(static p => p.Name.StartsWith("Option", StringComparison.Ordinal))
        .OrderBy(static p => p.Name, StringComparer.Ordinal)
        .Select(p => $"{p.Name[6..]}={p.GetValue(of)}"));
}
