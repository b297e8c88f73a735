using System.Text.RegularExpressions;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace Whimbrel.Tidy;

// The shape of text: the width of lines, the length of sentences in XML documentation, and the first word of a
// parameter's text.
internal static partial class TextShape
{
    public const int MaxColumns = 120;
    public const int MaxWords = 35;

    /// Lines over 120 columns: of comments and of code. Lines of a raw string literal are text of another language.
    public static (int Comments, int Code) WideLines(IEnumerable<SourceFile> files)
    {
        var wide = files.SelectMany(static f => WideLinesOf(f)).Select(static l => l.TrimStart()).ToList();
        int comments = wide.Count(static l => l.StartsWith("//", StringComparison.Ordinal));
        return (comments, wide.Count - comments);
    }

    private static IEnumerable<string> WideLinesOf(SourceFile file) => file.Tree.GetText().Lines
        .Where(l => l.Span.Length > MaxColumns && !IsInRawString(file.Root, l.Start)).Select(static l => l.ToString());

    /// Whether the line that begins at this position is a line of a raw string literal.
    private static bool IsInRawString(SyntaxNode root, int start)
    {
        var token = root.FindToken(start);
        bool isPlain = token.IsKind(SyntaxKind.MultiLineRawStringLiteralToken)
            || token.IsKind(SyntaxKind.Utf8MultiLineRawStringLiteralToken);
        return (isPlain && token.SpanStart < start)
            || token.Parent!.AncestorsAndSelf().OfType<InterpolatedStringExpressionSyntax>().Any(text =>
                text.SpanStart < start
                && text.StringStartToken.IsKind(SyntaxKind.InterpolatedMultiLineRawStringStartToken));
    }

    /// Lines of a page over 120 columns, without table rows, headings and code fences.
    public static int WideLines(string page)
    {
        bool isCode = false;
        int wide = 0;
        foreach (string line in page.Split('\n'))
        {
            string text = line.TrimStart();
            if (text.StartsWith("```", StringComparison.Ordinal)) isCode = !isCode;
            else if (!isCode && line.Length > MaxColumns && text.Contains(' ', StringComparison.Ordinal)
                && !text.StartsWith('|') && !text.StartsWith('#'))
                wide++;
        }

        return wide;
    }

    /// Sentences of XML documentation with more than 35 words.
    public static int LongSentences(SourceFile file) => file.Root.DescendantNodes(descendIntoTrivia: true)
        .OfType<DocumentationCommentTriviaSyntax>()
        .SelectMany(static d => Block().Split(d.ToFullString()))
        .SelectMany(static b => SentenceEnd().Split(Tag().Replace(Slashes().Replace(b, " "), " x ")))
        .Count(static s => Word().Count(s) > MaxWords);

    /// Texts of parameters and results that begin like a riddle ("Where they begin.").
    public static IEnumerable<Finding> Riddles(SourceFile file)
    {
        for (int i = 0; i < file.Lines.Length; i++)
        {
            if (Riddle().IsMatch(file.Lines[i]))
                yield return new Finding(file.Path, i + 1,
                    "a parameter's text begins with a noun: \"Offset of the first byte.\", not \"Where they begin.\"");
        }
    }

    [GeneratedRegex(@"</?(?:summary|remarks|param|returns|item|para|exception|value|typeparam)\b[^>]*>")]
    private static partial Regex Block();

    [GeneratedRegex(@"<[^>]+>")]
    private static partial Regex Tag();

    [GeneratedRegex(@"^\s*///", RegexOptions.Multiline)]
    private static partial Regex Slashes();

    [GeneratedRegex(@"(?<=[.!?])\s+")]
    private static partial Regex SentenceEnd();

    [GeneratedRegex(@"[\w'’.-]+")]
    private static partial Regex Word();

    [GeneratedRegex(@"<(?:param name=""\w+""|returns)>(?:Where|How many|How much|Whose|Whom?|Of|As there|What)\b")]
    private static partial Regex Riddle();
}
