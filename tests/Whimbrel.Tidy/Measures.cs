using System.Globalization;
using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace Whimbrel.Tidy;

// Figures that are printed and not judged: sizes of files and methods, and the share of repeated text.
internal static class Measures
{
    private const int LongFile = 600, LongMethod = 70, RunLines = 8;

    public static IEnumerable<string> Of(IReadOnlyCollection<SourceFile> files)
    {
        if (files.Count == 0) yield break;
        var sizes = files.Select(f => f.Lines.Length).Order().ToList();
        yield return $"{files.Count} files, {sizes.Sum()} lines; median {sizes[sizes.Count / 2]} (aim 120), p90 "
            + $"{sizes[sizes.Count * 9 / 10]} (aim 350), longest {sizes[^1]}";
        foreach (var file in files.Where(f => f.Lines.Length > LongFile))
            yield return $"over {LongFile} lines: {file.Path} ({file.Lines.Length})";

        foreach (var file in files)
        {
            foreach (var method in file.All<BaseMethodDeclarationSyntax>())
            {
                var span = method.GetLocation().GetLineSpan();
                var lines = span.EndLinePosition.Line - span.StartLinePosition.Line + 1;
                if (lines > LongMethod)
                    yield return $"over {LongMethod} lines: {file.Path}:{file.LineOf(method)} ({lines})";
            }
        }
        yield return string.Create(CultureInfo.InvariantCulture,
            $"repeated runs of {RunLines} lines: {Repeated(files):0.0} % (aim 3 %)");
    }

    /// Share of the code lines (without blanks, comments, usings and lone braces) in runs of 8 lines that also occur
    /// elsewhere.
    internal static double Repeated(IEnumerable<SourceFile> files)
    {
        var seen = new Dictionary<string, (int File, int Line)>();
        var repeated = new HashSet<(int, int)>();
        var total = 0;
        foreach (var (number, file) in files.Index())
        {
            var code = file.Lines.Select(l => l.Trim()).Where(IsCode).ToArray();
            total += code.Length;
            for (var at = 0; at + RunLines <= code.Length; at++)
            {
                var run = string.Join('\n', code, at, RunLines);
                if (seen.TryAdd(run, (number, at))) continue;
                var first = seen[run];
                for (var i = 0; i < RunLines; i++)
                {
                    repeated.Add((number, at + i));
                    repeated.Add((first.File, first.Line + i));
                }
            }
        }
        return total == 0 ? 0 : 100.0 * repeated.Count / total;
    }

    private static bool IsCode(string line) =>
        line.Length > 1 && !line.StartsWith("//", StringComparison.Ordinal)
        && !line.StartsWith("using ", StringComparison.Ordinal) && line != "});";
}
