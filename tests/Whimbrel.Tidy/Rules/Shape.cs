using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;

namespace Whimbrel.Tidy.Rules;

// Shape of types and files: sealed unless meant for override, shallow, documented, one per file, well named.
internal static class Shape
{
    // Classes that a user (or an engine) derives from. Abstract classes are always meant for that.
    private static readonly HashSet<string> _openForOverride = ["Server", "Client", "CallClient", "Session",
        "SessionGroup", "Engine", "LoopTimer", "MemoryEngine", "Completion", "HttpSession", "HttpClientSession",
        "WebSocketSession", "DatagramHandler"];

    // Groups of options that servers or clients use as they are and the other side extends
    // (docs/design/0074-options-in-groups.md).
    private static readonly string[] _extendedGroups = ["ConnectionLimits", "ConnectionTimeouts"];

    // Abstract halves of a class that a package completes: docs/design/0072-calls-and-datagrams-as-packages.md.
    private static readonly string[] _halves = ["DatagramResident"];
    private static readonly string[] _emptySuffixes = ["Manager", "Helper", "Helpers", "Util", "Utils",
        "Utility", "Impl"];
    private const int SmallTypeLines = 30;

    public static IEnumerable<Finding> Sealed(CodeModel model) =>
        from type in model.Types()
        where type is { TypeKind: TypeKind.Class, IsSealed: false, IsAbstract: false, IsStatic: false }
            && !_openForOverride.Contains(type.Name) && !_extendedGroups.Contains(type.Name) && !IsOfOldApi(type)
        select CodeModel.At(type, $"class {type.Name} is neither sealed, abstract nor static, and not on the list of "
            + $"classes meant for override");

    public static IEnumerable<Finding> Depth(CodeModel model)
    {
        foreach (var type in model.Types())
        {
            var depth = 1;
            for (var parent = type.BaseType; parent is not null && CodeModel.PathOf(parent).Length > 0;
                parent = parent.BaseType)
            {
                if (!_halves.Contains(parent.Name)) depth++;
            }


            if (depth > 2 && !IsOfOldApi(type))
                yield return CodeModel.At(type,
                    $"{type.Name} stands on {depth - 1} classes of ours: a class and one ancestor are enough");
        }
    }

    // The form of the old libraries' classes is given: docs/design/0039.
    private static bool IsOfOldApi(INamedTypeSymbol type) =>
        type.ContainingNamespace.ToDisplayString() is "NetCoreServer" or "CSharpServer";

    /// Every visible type and member has a documentation comment.
    public static IEnumerable<Finding> Documented(CodeModel model)
    {
        foreach (var type in model.Types().Where(IsVisible))
        {
            if (!HasComment(type)) yield return CodeModel.At(type, $"{type.Name} is public and not documented");
            if (type.TypeKind == TypeKind.Delegate) continue;
            foreach (var member in type.GetMembers())
            {
                if (member.IsImplicitlyDeclared || member is INamedTypeSymbol || !IsVisible(member)
                    || HasComment(member))
                    continue;
                if (member is IMethodSymbol
                    {
                        MethodKind: not (MethodKind.Ordinary or MethodKind.Constructor or MethodKind.UserDefinedOperator
                            or MethodKind.Conversion)
                    })
                    continue;
                if (IsPrimaryConstructorPart(member)) continue;
                yield return CodeModel.At(member, $"{type.Name}.{member.Name} is public and not documented");
            }
        }
    }

    public static IEnumerable<Finding> HiddenWarnings(string path, string text) =>
        text.Split('\n').Index()
            .Where(l => l.Item.Contains("CS1591", StringComparison.Ordinal)
                && (l.Item.Contains("NoWarn", StringComparison.Ordinal) || l.Item.Contains("#pragma",
                    StringComparison.Ordinal) || l.Item.Contains("none", StringComparison.Ordinal)
                    || l.Item.Contains("Suppress", StringComparison.Ordinal)))
            .Select(l => new Finding(path, l.Index + 1, "hides CS1591: public members are documented, not silenced"));

    public static IEnumerable<Finding> FileScopedNamespaces(SourceFile file) =>
        file.All<NamespaceDeclarationSyntax>().Select(n => file.At(n, "block namespace: use the file-scoped form"));

    public static IEnumerable<Finding> Names(SourceFile file) =>
        from type in file.All<BaseTypeDeclarationSyntax>()
        from suffix in _emptySuffixes
        where type.Identifier.Text.EndsWith(suffix, StringComparison.Ordinal)
        select file.At(type,
            $"{type.Identifier.Text}: the ending '{suffix}' says nothing; name the thing (docs/glossary.md)");

    // A file is named like its type. Small related types may be in the same file: enums, delegates, file-local types,
    // and structs, records or exceptions of up to 30 lines.
    public static IEnumerable<Finding> OneTypePerFile(SourceFile file)
    {
        var types = file.Root.DescendantNodes(n => n is CompilationUnitSyntax or BaseNamespaceDeclarationSyntax)
            .OfType<MemberDeclarationSyntax>()
            .Where(m => m is BaseTypeDeclarationSyntax or DelegateDeclarationSyntax).ToList();
        if (types.Count == 0) yield break;

        var owner = file.Name.Split('.')[0];
        if (!types.Any(t => NameOf(t) == owner))
            yield return new Finding(file.Path, 1, $"no type in {file.Name} is called {owner}");
        foreach (var type in types.Where(t => NameOf(t) != owner && !IsSmall(t)))
            yield return file.At(type, $"{NameOf(type)} deserves a file of its own beside {owner}");
    }

    private static string NameOf(MemberDeclarationSyntax type) => type switch
    {
        BaseTypeDeclarationSyntax t => t.Identifier.Text,
        DelegateDeclarationSyntax d => d.Identifier.Text,
        _ => "",
    };

    private static bool IsSmall(MemberDeclarationSyntax type) =>
        type is EnumDeclarationSyntax or DelegateDeclarationSyntax
        || type.Modifiers.Any(SyntaxKind.FileKeyword)
        || ((type is StructDeclarationSyntax or RecordDeclarationSyntax
            || NameOf(type).EndsWith("Exception", StringComparison.Ordinal))
            && type.GetText().Lines.Count <= SmallTypeLines);

    private static bool IsVisible(ISymbol symbol)
    {
        for (var at = symbol; at is not null and not INamespaceSymbol; at = at.ContainingType)
        {
            if (at.DeclaredAccessibility is not (Accessibility.Public or Accessibility.Protected
                or Accessibility.ProtectedOrInternal))
                return false;
        }
        return true;
    }

    private static bool HasComment(ISymbol symbol) => !string.IsNullOrWhiteSpace(symbol.GetDocumentationCommentXml());

    // Positional parameters of records and primary constructors are documented on the type.
    private static bool IsPrimaryConstructorPart(ISymbol member) =>
        member.DeclaringSyntaxReferences.FirstOrDefault()?.GetSyntax() is ParameterSyntax or TypeDeclarationSyntax;
}
