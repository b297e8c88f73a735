using System.Reflection;

namespace Whimbrel.Tool;

/// <summary><c>whimbrel explain</c>: the pages that notices and errors name (docs/symptoms), which are part of the tool.</summary>
internal static class ExplainCommand
{
    private const string Prefix = "symptoms/";
    private const string Ending = ".md";

    /// <summary>The names of the pages, in order, without their ending.</summary>
    internal static IReadOnlyList<string> Pages { get; } =
    [
        .. Assembly.GetExecutingAssembly().GetManifestResourceNames()
            .Where(static n => n.StartsWith(Prefix, StringComparison.Ordinal))
            .Select(static n => n[Prefix.Length..^Ending.Length])
            .Order(StringComparer.Ordinal),
    ];

    /// <summary>The name of a page, given with or without its folder and ending; null when there is none.</summary>
    internal static string? NameOf(string text)
    {
        string name = Path.GetFileName(text);
        if (name.EndsWith(Ending, StringComparison.Ordinal)) name = name[..^Ending.Length];
        return Pages.Contains(name) ? name : null;
    }

    /// <summary>Prints a page, or without a name what pages there are.</summary>
    internal static int Run(string? text)
    {
        if (text is null)
        {
            foreach (string page in Pages) Console.Out.WriteLine($"{page}: {Read(page).Split('\n')[0].TrimStart('#', ' ')}");
            return ExitCode.Done;
        }

        Console.Out.Write(Read(NameOf(text)!));
        return ExitCode.Done;
    }

    private static string Read(string page)
    {
        using StreamReader reader = new(Assembly.GetExecutingAssembly().GetManifestResourceStream(Prefix + page + Ending)!);
        return reader.ReadToEnd();
    }
}
