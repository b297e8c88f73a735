using System.Reflection;

namespace Whimbrel.Tool;

/// <summary><c>whimbrel explain</c>: troubleshooting pages (docs/symptoms) that messages name; they are embedded in the
/// tool.</summary>
internal static class ExplainCommand
{
    private const string Prefix = "symptoms/";
    private const string Ending = ".md";

    /// <summary>Sorted names of the pages, without extension.</summary>
    internal static IReadOnlyList<string> Pages { get; } =
    [
        .. Assembly.GetExecutingAssembly().GetManifestResourceNames()
            .Where(static n => n.StartsWith(Prefix, StringComparison.Ordinal))
            .Select(static n => n[Prefix.Length..^Ending.Length])
            .Order(StringComparer.Ordinal),
    ];

    /// <summary>Returns the name of a page, given with or without folder and extension; null if there is
    /// none.</summary>
    internal static string? NameOf(string text)
    {
        string name = Path.GetFileName(text);
        if (name.EndsWith(Ending, StringComparison.Ordinal)) name = name[..^Ending.Length];
        return Pages.Contains(name) ? name : null;
    }

    /// <summary>Prints a page, or without a name the list of pages.</summary>
    internal static int Run(string? text)
    {
        if (text is null)
        {
            foreach (string page in Pages)
                Console.Out.WriteLine($"{page}: {Read(page).Split('\n')[0].TrimStart('#', ' ')}");
            return ExitCode.Done;
        }

        Console.Out.Write(Read(NameOf(text)!));
        return ExitCode.Done;
    }

    private static string Read(string page)
    {
        using StreamReader reader =
            new(Assembly.GetExecutingAssembly().GetManifestResourceStream(Prefix + page + Ending)!);
        return reader.ReadToEnd();
    }
}
