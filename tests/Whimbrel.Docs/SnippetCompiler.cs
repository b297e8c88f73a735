using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;
using Microsoft.CodeAnalysis.Diagnostics;
using Whimbrel.Analyzers;

namespace Whimbrel.Docs;

// Compiles a snippet the way a reader would, against the assemblies beside this test. The fence's words select the
// wrapping (CONTRIBUTING.md, "Snippets"):
//   csharp                          types and top-level statements, as in Program.cs
//   csharp continues                the same, with the types of the page's earlier snippets in sight
//   csharp members [of Base]        members of a class derived from Base (Session when nothing is said)
//   csharp given TYPE NAME, ...     statements that find these variables already there
//   csharp test                     tests of xunit, which are run, with the types of the page's earlier snippets
// Errors are reported with the page's own line numbers.
internal static class SnippetCompiler
{
    private const string SdkUsings = "global using System; global using System.Collections.Generic; global using "
        + "System.IO; global using System.Linq; global using System.Net.Http; global using System.Threading; global "
        + "using System.Threading.Tasks;";
    private const string ExcerptUsings = "global using System.Net; global using System.Net.Sockets; global using "
        + "System.Security.Cryptography.X509Certificates; global using System.Text;";

    private static readonly CSharpParseOptions _parse = new(LanguageVersion.CSharp14);
    private static readonly Lazy<CSharpCompilation> _empty =
        new(() => CSharpCompilation.Create("Snippet", references: _references!.Value));
    private static readonly Lazy<CSharpCompilation> _emptyTest =
        new(() => CSharpCompilation.Create("Snippet", references: _references!.Value.Concat(_testReferences!.Value)));
    private static readonly Lazy<MetadataReference[]> _references =
        new(() => References(p => !IsXunit(p) && Path.GetFileName(p) != "Whimbrel.Docs.dll"));
    private static readonly Lazy<MetadataReference[]> _testReferences = new(() => References(IsXunit));

    private static bool IsXunit(string path) => Path.GetFileName(path).StartsWith("xunit", StringComparison.Ordinal);

    private static MetadataReference[] References(Func<string, bool> wanted) =>
        [.. ((string)AppContext.GetData("TRUSTED_PLATFORM_ASSEMBLIES")!).Split(Path.PathSeparator).Where(wanted)
            .Select(p => MetadataReference.CreateFromFile(p))];

    public static IReadOnlyList<string> Errors(Snippet snippet, IEnumerable<Snippet> earlier) =>
        Compile(snippet, earlier).Errors;

    /// The errors, or the assembly if there are none.
    public static (IReadOnlyList<string> Errors, byte[] Assembly) Compile(Snippet snippet, IEnumerable<Snippet> earlier)
    {
        string body = Marked(snippet), words = snippet.Words;
        var trees = new List<SyntaxTree>();
        if (words.StartsWith("members", StringComparison.Ordinal))
        {
            var parent = words.Split(" of ") is [_, var named] ? named.Trim() : "Session";
            trees.Add(Parse($"class Excerpt : {parent}\n{{\n{body}\n#line default\n}}"));
        }
        else if (words.StartsWith("given ", StringComparison.Ordinal))
        {
            trees.Add(Parse($"static class Excerpt\n{{\nstatic async System.Threading.Tasks.Task "
                + $"Run({words["given ".Length..]})\n{{\n{body}\n#line default\n}}\n}}"));
        }
        else if (words is "" or "continues" or Snippet.Test)
        {
            trees.Add(Parse(body));
        }
        else
        {
            return ([$"{snippet.Path}:{snippet.Line - 1}: unknown words '{words}' on the fence; CONTRIBUTING.md lists "
                + $"the known ones"], []);
        }

        var isProgram = trees[0].GetRoot().DescendantNodes().OfType<GlobalStatementSyntax>().Any();
        if (!snippet.IsProgram) trees.AddRange(EarlierTypes(trees[0], snippet, earlier));
        trees.Add(Parse(snippet.IsProgram ? SdkUsings
            : SdkUsings + ExcerptUsings + (HasWhimbrel ? "global using Whimbrel; global using Whimbrel.Http;" : "")
                + (words == Snippet.Test ? "global using Xunit;" : "")));

        var options = new CSharpCompilationOptions(
            isProgram ? OutputKind.ConsoleApplication : OutputKind.DynamicallyLinkedLibrary, allowUnsafe: true,
            nullableContextOptions: NullableContextOptions.Enable);
        using var output = new MemoryStream();
        // The references are bound once for all snippets.
        var empty = words == Snippet.Test ? _emptyTest.Value : _empty.Value;
        List<string> errors = [.. empty.WithOptions(options).AddSyntaxTrees(trees).Emit(output).Diagnostics
            .Where(d => d.Severity == DiagnosticSeverity.Error)
            .Select(d => (Place: d.Location.GetMappedLineSpan(), Said: d))
            .Select(d => $"{(d.Place.HasMappedPath ? d.Place.Path : snippet.Path)}:"
                + $"{(d.Place.HasMappedPath ? d.Place.StartLinePosition.Line + 1 : snippet.Line)}: {d.Said.Id} "
                + $"{d.Said.GetMessage(System.Globalization.CultureInfo.InvariantCulture)}")];
        if (errors.Count == 0) errors.AddRange(Warnings(empty.WithOptions(options).AddSyntaxTrees(trees), snippet));
        return (errors, output.ToArray());
    }

    /// Warnings of the packaged analyzers for a user that copies the snippet.
    private static IEnumerable<string> Warnings(CSharpCompilation compilation, Snippet snippet) =>
        from found in compilation.WithAnalyzers([new AsyncVoidAnalyzer(), new IgnoredSendAnalyzer(),
            new BlockingCallAnalyzer(), new RawSendAnalyzer()]).GetAnalyzerDiagnosticsAsync().GetAwaiter().GetResult()
        let place = found.Location.GetMappedLineSpan()
        where place.HasMappedPath && place.Path == snippet.Path
        select $"{place.Path}:{place.StartLinePosition.Line + 1}: {found.Id} "
            + found.GetMessage(System.Globalization.CultureInfo.InvariantCulture);

    private static bool HasWhimbrel => File.Exists(Path.Combine(AppContext.BaseDirectory, "Whimbrel.dll"));

    private static SyntaxTree Parse(string text) => CSharpSyntaxTree.ParseText(text, _parse);

    // SDK directives are removed for the compiler, but their lines stay so that line numbers remain correct.
    private static string Marked(Snippet snippet) =>
        $"#line {snippet.Line} \"{snippet.Path}\"\n" + string.Join('\n',
            snippet.Code.Split('\n').Select(l => l.StartsWith("#:", StringComparison.Ordinal) ? "" : l));

    private static IEnumerable<SyntaxTree> EarlierTypes(SyntaxTree own, Snippet snippet, IEnumerable<Snippet> earlier)
    {
        if (snippet.Words is not ("continues" or Snippet.Test)) yield break;
        var known = TypesOf(own).Select(t => t.Identifier.Text).ToHashSet();
        foreach (var page in earlier.Where(e => e.Words is "" or "continues"
            || (e.Words == Snippet.Test && snippet.Words == Snippet.Test)).Reverse())
        {
            var root = (CompilationUnitSyntax)Parse(Marked(page)).GetRoot();
            var types = TypesOf(root.SyntaxTree).Where(t => known.Add(t.Identifier.Text))
                .ToList<MemberDeclarationSyntax>();
            yield return CSharpSyntaxTree.Create(root.WithMembers(SyntaxFactory.List(types)), _parse);
        }
    }

    private static IEnumerable<BaseTypeDeclarationSyntax> TypesOf(SyntaxTree tree) =>
        ((CompilationUnitSyntax)tree.GetRoot()).Members.OfType<BaseTypeDeclarationSyntax>();
}
