using System.Collections.Immutable;
using System.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.Diagnostics;

namespace Whimbrel.Analyzers;

/// <summary>
/// WHIM0008: <c>OnData</c>, <c>OnReceived</c> and <c>OnReceivedAsync</c> call the next one by default. In a class
/// that overrides two, only the first receives data, unless the class calls the other one itself.
/// </summary>
[DiagnosticAnalyzer(LanguageNames.CSharp)]
public sealed class HiddenReceiveAnalyzer : DiagnosticAnalyzer
{
    /// <inheritdoc/>
    public override ImmutableArray<DiagnosticDescriptor> SupportedDiagnostics { get; } = [Descriptors.HiddenReceive];

    /// <inheritdoc/>
    public override void Initialize(AnalysisContext context)
    {
        context.ConfigureGeneratedCodeAnalysis(GeneratedCodeAnalysisFlags.None);
        context.EnableConcurrentExecution();
        context.RegisterCompilationStartAction(static start =>
        {
            if (start.Compilation.GetTypeByMetadataName("Whimbrel.Session") is { } session)
                start.RegisterSymbolAction(c => LookAt(c, session), SymbolKind.NamedType);
        });
    }

    private static void LookAt(SymbolAnalysisContext context, INamedTypeSymbol session)
    {
        INamedTypeSymbol type = (INamedTypeSymbol)context.Symbol;
        if (LibraryCode.IsOf(type) || !LibraryCode.DerivesFrom(type, session)) return;
        IMethodSymbol? all = Override(type, "OnData");
        IMethodSymbol? each = Override(type, "OnReceived");
        IMethodSymbol? later = Override(type, "OnReceivedAsync");
        Report(context, type, hides: all, hidden: each);
        Report(context, type, hides: all ?? each, hidden: later);
    }

    private static void Report(SymbolAnalysisContext context, INamedTypeSymbol type, IMethodSymbol? hides,
        IMethodSymbol? hidden)
    {
        if (hides is null || hidden is null || Mentions(hides, "base", context) > 0) return;
        // One mention is its declaration.
        if (Mentions(type, hidden.Name, context) == 1)
            context.ReportDiagnostic(Diagnostic.Create(Descriptors.HiddenReceive, hidden.Locations[0], hidden.Name,
                hides.Name));
    }

    private static int Mentions(ISymbol code, string word, SymbolAnalysisContext context) =>
        code.DeclaringSyntaxReferences.Sum(d => d.GetSyntax(context.CancellationToken).DescendantTokens()
            .Count(t => t.Text == word));

    private static IMethodSymbol? Override(INamedTypeSymbol type, string name) =>
        type.GetMembers(name).OfType<IMethodSymbol>().FirstOrDefault(static m => m.IsOverride);
}
