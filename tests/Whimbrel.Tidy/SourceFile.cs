using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;
using Microsoft.CodeAnalysis.Text;

namespace Whimbrel.Tidy;

// One C# file: its path, text and syntax tree. A rule takes this type, so that a test can pass a bad example of three
// lines.
internal sealed class SourceFile(string path, string text)
{
    // No rule needs nullable analysis, which takes a third of the time.
    public static CSharpParseOptions ParseOptions { get; } = new CSharpParseOptions(LanguageVersion.CSharp14,
        DocumentationMode.Parse, preprocessorSymbols: ["NET", "NET10_0", "NET10_0_OR_GREATER", "RELEASE"])
        .WithFeatures([new("run-nullable-analysis", "never")]);

    public string Path { get; } = path;
    public string Text { get; } = text;
    public string Name => System.IO.Path.GetFileName(Path);
    public string[] Lines { get; } = text.ReplaceLineEndings("\n").Split('\n');
    public SyntaxTree Tree { get; } = CSharpSyntaxTree.ParseText(SourceText.From(text), ParseOptions, path);

    public CompilationUnitSyntax Root => (CompilationUnitSyntax)Tree.GetRoot();

    public IEnumerable<T> All<T>() where T : SyntaxNode => Root.DescendantNodes().OfType<T>();

    public bool IsIn(params string[] folders) => folders.Any(f => Path.StartsWith(f, StringComparison.Ordinal));

    public int LineOf(SyntaxNode node) => LineOf(node.SpanStart);
    public int LineOf(int position) => Tree.GetText().Lines.GetLinePosition(position).Line + 1;

    public Finding At(SyntaxNode node, string what) => new(Path, LineOf(node), what);

    /// True if the line, or a comment line directly above it, contains "// tidy: WORD because REASON".
    public bool Excuses(int line, string word)
    {
        bool Says(int index) => Lines[index].Contains($"// tidy: {word} because ", StringComparison.Ordinal);
        if (Says(line - 1)) return true;
        for (var above = line - 2;
            above >= 0 && Lines[above].TrimStart().StartsWith("//", StringComparison.Ordinal); above--)
        {
            if (Says(above)) return true;
        }
        return false;
    }
}
