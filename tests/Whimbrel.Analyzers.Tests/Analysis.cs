using System.Collections.Immutable;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.Diagnostics;

namespace Whimbrel.Analyzers.Tests;

// Compiles a part of a program against the library, as a user's project does, and returns the diagnostics of the
// analyzers.
internal static class Analysis
{
    private const string Usings = """
        global using System; global using System.Collections.Generic; global using System.Linq; global using System.Threading; global using System.Threading.Tasks;
        global using Whimbrel; global using Whimbrel.Http;
        """;

    private static readonly MetadataReference[] s_references =
        [.. ((string)AppContext.GetData("TRUSTED_PLATFORM_ASSEMBLIES")!).Split(Path.PathSeparator)
            .Where(static p => !Path.GetFileName(p).StartsWith("Whimbrel.Analyzers", StringComparison.Ordinal))
            .Select(static p => MetadataReference.CreateFromFile(p))];

    internal static readonly ImmutableArray<DiagnosticAnalyzer> Analyzers = [new AsyncVoidAnalyzer(),
        new IgnoredSendAnalyzer(), new BlockingCallAnalyzer(), new RawSendAnalyzer(), new NoOverrideAnalyzer(),
        new HiddenReceiveAnalyzer(), new IgnoredStartAnalyzer(), new EarlySendAnalyzer(), new LateResponseAnalyzer()];

    // One "WHIM0001 async () => ..." per diagnostic, in text order.
    internal static async Task<string[]> OfAsync(string code)
    {
        Diagnostic[] found = await DiagnosticsOfAsync(code);
        return [
            .. found.Select(static d => $"{d.Id} {d.Location.SourceTree!.GetText().ToString(d.Location.SourceSpan)}")];
    }

    internal static async Task<Diagnostic[]> DiagnosticsOfAsync(string code)
    {
        CSharpParseOptions parse = new(LanguageVersion.CSharp14);
        CSharpCompilation compilation = CSharpCompilation.Create(
            "Program",
            [CSharpSyntaxTree.ParseText(code, parse), CSharpSyntaxTree.ParseText(Usings, parse)],
            s_references,
            new CSharpCompilationOptions(OutputKind.DynamicallyLinkedLibrary,
                nullableContextOptions: NullableContextOptions.Enable));
        Assert.Empty(compilation.GetDiagnostics(TestContext.Current.CancellationToken)
            .Where(static d => d.Severity == DiagnosticSeverity.Error));
        ImmutableArray<Diagnostic> all = await compilation.WithAnalyzers(Analyzers)
            .GetAnalyzerDiagnosticsAsync(TestContext.Current.CancellationToken);
        Assert.DoesNotContain(all, static d => d.Id == "AD0001"); // an analyzer threw
        return [.. all.OrderBy(static d => d.Location.SourceSpan.Start)];
    }

    internal static string Body(string statements, string parameters = "Session session, Loop loop, HttpServer web") =>
        $"class C {{ async Task M({parameters}) {{ {statements} ; await Task.Yield(); }} async void Fire() => await "
        + $"Task.Yield(); async Task FireAsync() => await Task.Yield(); }}";
}
