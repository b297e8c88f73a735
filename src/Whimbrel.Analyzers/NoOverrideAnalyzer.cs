using System.Collections.Immutable;
using System.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.Diagnostics;

namespace Whimbrel.Analyzers;

/// <summary>
/// WHIM0007: <c>public void OnReceived(byte[] buffer, long offset, long size)</c> in a session, as in other libraries.
/// Not reported if the class also overrides the callback: it is then a helper of the same name.
/// </summary>
[DiagnosticAnalyzer(LanguageNames.CSharp)]
public sealed class NoOverrideAnalyzer : DiagnosticAnalyzer
{
    /// <inheritdoc/>
    public override ImmutableArray<DiagnosticDescriptor> SupportedDiagnostics { get; } = [Descriptors.NoOverride];

    /// <inheritdoc/>
    public override void Initialize(AnalysisContext context)
    {
        context.ConfigureGeneratedCodeAnalysis(GeneratedCodeAnalysisFlags.None);
        context.EnableConcurrentExecution();
        context.RegisterSymbolAction(LookAt, SymbolKind.Method);
    }

    private static void LookAt(SymbolAnalysisContext context)
    {
        IMethodSymbol method = (IMethodSymbol)context.Symbol;
        if (method.IsOverride || method.IsStatic || method.MethodKind != MethodKind.Ordinary
            || !method.Name.StartsWith("On", System.StringComparison.Ordinal))
            return;
        IMethodSymbol? callback = null;
        for (INamedTypeSymbol? type = method.ContainingType; type is not null && callback is null; type = type.BaseType)
        {
            foreach (IMethodSymbol other in type.GetMembers(method.Name).OfType<IMethodSymbol>())
            {
                if (!LibraryCode.IsOf(other) && other.IsOverride) return;
                // With the same parameters the compiler reports CS0114.
                if (LibraryCode.IsOf(other)
                    && (other.IsVirtual || other.IsAbstract || other is { IsOverride: true, IsSealed: false })
                    && !HasSameParameters(method, other))
                    callback ??= other;
            }
        }

        if (callback is null) return;
        context.ReportDiagnostic(Diagnostic.Create(
            Descriptors.NoOverride, method.Locations[0], $"{method.ContainingType.Name}.{method.Name}",
            callback.ContainingType.Name, callback.ToDisplayString(s_format)));
    }

    private static readonly SymbolDisplayFormat s_format = new(
        genericsOptions: SymbolDisplayGenericsOptions.IncludeTypeParameters,
        memberOptions: SymbolDisplayMemberOptions.IncludeParameters | SymbolDisplayMemberOptions.IncludeType,
        parameterOptions: SymbolDisplayParameterOptions.IncludeType | SymbolDisplayParameterOptions.IncludeName
            | SymbolDisplayParameterOptions.IncludeParamsRefOut,
        miscellaneousOptions: SymbolDisplayMiscellaneousOptions.UseSpecialTypes);

    private static bool HasSameParameters(IMethodSymbol one, IMethodSymbol other) =>
        one.Parameters.Length == other.Parameters.Length && one.Parameters.Zip(other.Parameters,
            static (a, b) => SymbolEqualityComparer.Default.Equals(a.Type, b.Type)).All(static same => same);
}
