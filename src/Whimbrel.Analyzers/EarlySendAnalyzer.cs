using System;
using System.Collections.Immutable;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.Diagnostics;
using Microsoft.CodeAnalysis.Operations;

namespace Whimbrel.Analyzers;

/// <summary>
/// WHIM0010: a session calls its own <c>Send</c>, <c>SendText</c> and so on in its constructor or in an initializer of
/// a field or property. It has no connection there, and the call returns <c>Closed</c>.
/// </summary>
[DiagnosticAnalyzer(LanguageNames.CSharp)]
public sealed class EarlySendAnalyzer : DiagnosticAnalyzer
{
    /// <inheritdoc/>
    public override ImmutableArray<DiagnosticDescriptor> SupportedDiagnostics { get; } = [Descriptors.EarlySend];

    /// <inheritdoc/>
    public override void Initialize(AnalysisContext context)
    {
        context.ConfigureGeneratedCodeAnalysis(GeneratedCodeAnalysisFlags.None);
        context.EnableConcurrentExecution();
        context.RegisterCompilationStartAction(static start =>
        {
            if (start.Compilation.GetTypeByMetadataName("Whimbrel.Session") is { } session)
                start.RegisterOperationAction(c => LookAt(c, session), OperationKind.Invocation);
        });
    }

    private static void LookAt(OperationAnalysisContext context, INamedTypeSymbol session)
    {
        IInvocationOperation call = (IInvocationOperation)context.Operation;
        IMethodSymbol method = call.TargetMethod;
        if (call.Instance is not IInstanceReferenceOperation
            || !method.Name.StartsWith("Send", StringComparison.Ordinal)
            || !LibraryCode.IsOf(method) || !LibraryCode.DerivesFrom(method.ContainingType, session))
            return;
        if (context.ContainingSymbol is IFieldSymbol or IPropertySymbol
                or IMethodSymbol { MethodKind: MethodKind.Constructor }
            && !IsInFunction(call))
            context.ReportDiagnostic(Diagnostic.Create(Descriptors.EarlySend, call.Syntax.GetLocation(), method.Name));
    }

    private static bool IsInFunction(IOperation operation)
    {
        for (IOperation? outer = operation.Parent; outer is not null; outer = outer.Parent)
        {
            if (outer is ILocalFunctionOperation or IAnonymousFunctionOperation) return true;
        }

        return false;
    }
}
