using System.Globalization;
using System.Text.RegularExpressions;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;

namespace Whimbrel.Tidy;

// Frequency of words that make code a person, or time a place, in comments and pages.
internal static partial class Words
{
    /// The groups of words, and the aim per 10,000 words.
    private static readonly (string Name, Regex Pattern, double Aim)[] s_groups =
        [("who", Who(), 3), ("somebody, nobody", Somebody(), 2), ("tell, hear", Tell(), 2), ("behind", Behind(), 1.5),
            ("goes on", GoesOn(), 1)];

    /// A line with the rates, and the groups above their ceiling, in the order of the groups.
    public static (string Line, IReadOnlyList<string> Above) Judge(string text, params double[] ceilings)
    {
        int words = Word().Count(text);
        var rates = s_groups.Select(g => (g.Name, g.Aim, Rate: 10_000.0 * g.Pattern.Count(text) / Math.Max(words, 1)))
            .ToList();
        string line = string.Join(", ", rates.Select(static r => string.Create(CultureInfo.InvariantCulture,
            $"{r.Name} {r.Rate:0.0} (aim {r.Aim:0.#})")));
        var above = rates.Zip(ceilings).Where(static r => r.First.Rate > r.Second)
            .Select(static r => string.Create(CultureInfo.InvariantCulture,
                $"{r.First.Name}: {r.First.Rate:0.0} of 10,000 words, at most {r.Second:0.#}")).ToList();
        return (string.Create(CultureInfo.InvariantCulture, $"{words} words; of 10,000: {line}"), above);
    }

    public static string CommentsOf(IEnumerable<SourceFile> files) =>
        string.Join('\n', files.SelectMany(static f => f.Root.DescendantTrivia())
            .Where(static t => t.IsKind(SyntaxKind.SingleLineCommentTrivia)
                || t.IsKind(SyntaxKind.MultiLineCommentTrivia)
                || t.IsKind(SyntaxKind.SingleLineDocumentationCommentTrivia))
            .Select(static t => t.ToFullString()));

    [GeneratedRegex(@"[A-Za-z][A-Za-z']*")]
    private static partial Regex Word();

    [GeneratedRegex(@"\b(who|whom|whose|whoever)\b", RegexOptions.IgnoreCase)]
    private static partial Regex Who();

    [GeneratedRegex(@"\b(some|no|any|every)body\b", RegexOptions.IgnoreCase)]
    private static partial Regex Somebody();

    [GeneratedRegex(@"\b(tells?|told|telling|hears?|heard|hearing)\b", RegexOptions.IgnoreCase)]
    private static partial Regex Tell();

    [GeneratedRegex(@"\bbehind\b", RegexOptions.IgnoreCase)]
    private static partial Regex Behind();

    [GeneratedRegex(@"\b(go|goes|going|went|gone) on\b", RegexOptions.IgnoreCase)]
    private static partial Regex GoesOn();
}
