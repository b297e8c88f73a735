using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;

namespace Whimbrel.Tidy;

// A compilation of source files against the running framework, for rules that need the meaning of a name. It is used
// for symbols and never emitted; unresolved references yield "unknown".
internal sealed class CodeModel
{
    private const string ImplicitUsings = "global using System; global using System.Collections.Generic; global using "
        + "System.IO; global using System.Linq; global using System.Net.Http; global using System.Threading; global "
        + "using System.Threading.Tasks;";

    private static readonly Lazy<MetadataReference[]> _framework =
        new(() => [.. ((string)AppContext.GetData("TRUSTED_PLATFORM_ASSEMBLIES")!)
            .Split(System.IO.Path.PathSeparator)
            .Where(p => System.IO.Path.GetFileName(p) is var name && (name.StartsWith("System.",
                StringComparison.Ordinal) || name.StartsWith("Microsoft.Win32", StringComparison.Ordinal)))
            .Select(p => MetadataReference.CreateFromFile(p))]);

    private readonly CSharpCompilation _compilation;

    public CodeModel(IEnumerable<SourceFile> files)
    {
        Files = [.. files];
        _compilation = CSharpCompilation.Create("Model",
            [.. Files.Select(f => f.Tree), CSharpSyntaxTree.ParseText(ImplicitUsings, SourceFile.ParseOptions)],
            _framework.Value,
            new CSharpCompilationOptions(OutputKind.DynamicallyLinkedLibrary, allowUnsafe: true,
                nullableContextOptions: NullableContextOptions.Enable));
    }

    public IReadOnlyList<SourceFile> Files { get; }

    public SemanticModel For(SourceFile file) => _compilation.GetSemanticModel(file.Tree);

    /// Every type declared in the files, nested ones included.
    public IEnumerable<INamedTypeSymbol> Types()
    {
        var waiting = new Stack<INamespaceOrTypeSymbol>([_compilation.Assembly.GlobalNamespace]);
        while (waiting.TryPop(out var next))
        {
            foreach (var member in next.GetMembers().OfType<INamespaceOrTypeSymbol>()) waiting.Push(member);
            if (next is INamedTypeSymbol { IsImplicitlyDeclared: false } type) yield return type;
        }
    }

    public static string PathOf(ISymbol symbol) =>
        symbol.DeclaringSyntaxReferences.FirstOrDefault()?.SyntaxTree.FilePath ?? "";

    public static Finding At(ISymbol symbol, string what)
    {
        var place = symbol.Locations[0].GetLineSpan();
        return new Finding(place.Path, place.StartLinePosition.Line + 1, what);
    }
}
