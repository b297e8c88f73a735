using System.Collections.Immutable;
using System.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.Diagnostics;
using Microsoft.CodeAnalysis.Operations;

namespace Whimbrel.Analyzers;

/// <summary>
/// WHIM0003: many sends to one session with ignored results. Not reported for a loop over sessions with one send each,
/// and for <c>_ = session.Send(...)</c>, which ignores the result explicitly.
/// </summary>
[DiagnosticAnalyzer(LanguageNames.CSharp)]
public sealed class IgnoredSendAnalyzer : DiagnosticAnalyzer
{
    /// <inheritdoc/>
    public override ImmutableArray<DiagnosticDescriptor> SupportedDiagnostics { get; } = [Descriptors.IgnoredSend];

    /// <inheritdoc/>
    public override void Initialize(AnalysisContext context)
    {
        context.ConfigureGeneratedCodeAnalysis(GeneratedCodeAnalysisFlags.None);
        context.EnableConcurrentExecution();
        context.RegisterCompilationStartAction(static start =>
        {
            if (start.Compilation.GetTypeByMetadataName("Whimbrel.SendResult") is { } result)
                start.RegisterOperationAction(c => LookAt(c, result), OperationKind.ExpressionStatement);
        });
    }

    private static void LookAt(OperationAnalysisContext context, INamedTypeSymbol result)
    {
        IOperation operation = ((IExpressionStatementOperation)context.Operation).Operation;
        IInvocationOperation? call = operation as IInvocationOperation
            ?? (operation as IConditionalAccessOperation)?.WhenNotNull as IInvocationOperation;
        if (call is null || !LibraryCode.IsOf(call.TargetMethod)
            || !SymbolEqualityComparer.Default.Equals(call.TargetMethod.ReturnType, result))
            return;
        IOperation? receiver = call.Instance is IConditionalAccessInstanceOperation
            ? ((IConditionalAccessOperation)operation).Operation
            : call.Instance;
        if (LoopAround(operation) is { } loop && !IsOfOneRound(receiver, loop))
            context.ReportDiagnostic(Diagnostic.Create(Descriptors.IgnoredSend, call.Syntax.GetLocation(),
                call.TargetMethod.Name));
    }

    /// <summary>Returns the innermost loop of the same function.</summary>
    private static ILoopOperation? LoopAround(IOperation operation)
    {
        for (IOperation? outer = operation.Parent;
            outer is not null and not (IAnonymousFunctionOperation or ILocalFunctionOperation); outer = outer.Parent)
        {
            if (outer is ILoopOperation loop) return loop;
        }

        return null;
    }

    /// <summary>
    /// Returns whether the receiver comes from a variable of the loop: another session in each iteration.
    /// </summary>
    private static bool IsOfOneRound(IOperation? receiver, ILoopOperation loop) =>
        receiver is not null && receiver.DescendantsAndSelf().OfType<ILocalReferenceOperation>()
            .Any(reference => reference.Local.DeclaringSyntaxReferences.Any(d => loop.Syntax.Span.Contains(d.Span)));
}
