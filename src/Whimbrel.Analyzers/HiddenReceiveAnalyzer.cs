using System.Collections.Immutable;
using System.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp.Syntax;
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
        if (hides is null || hidden is null || Uses(hides, hides.Name, ofBase: true, context)) return;
        if (!Uses(type, hidden.Name, ofBase: false, context))
            context.ReportDiagnostic(Diagnostic.Create(Descriptors.HiddenReceive, hidden.Locations[0], hidden.Name,
                hides.Name));
    }

    /// <summary>
    /// Returns whether the code calls the method, or makes a delegate of it: any use of its name except in
    /// <c>nameof</c>. With <paramref name="ofBase"/> only <c>base.Name</c> counts, otherwise everything else.
    /// </summary>
    private static bool Uses(ISymbol code, string name, bool ofBase, SymbolAnalysisContext context) =>
        code.DeclaringSyntaxReferences.Any(d => d.GetSyntax(context.CancellationToken).DescendantNodes()
            .OfType<IdentifierNameSyntax>()
            .Any(n => n.Identifier.ValueText == name && IsOfBase(n) == ofBase && !IsInNameOf(n)));

    private static bool IsOfBase(IdentifierNameSyntax name) =>
        name.Parent is MemberAccessExpressionSyntax { Expression: BaseExpressionSyntax } access && access.Name == name;

    private static bool IsInNameOf(SyntaxNode name) =>
        name.FirstAncestorOrSelf<InvocationExpressionSyntax>() is
        {
            Expression: IdentifierNameSyntax { Identifier.ValueText: "nameof" }
        };

    private static IMethodSymbol? Override(INamedTypeSymbol type, string name) =>
        type.GetMembers(name).OfType<IMethodSymbol>().FirstOrDefault(static m => m.IsOverride);
}
