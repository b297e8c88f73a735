using System.Collections.Immutable;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.Diagnostics;
using Microsoft.CodeAnalysis.Operations;

namespace Whimbrel.Analyzers;

/// <summary>
/// WHIM0009: <c>server.StartAsync();</c> and <c>_ = client.ConnectAsync();</c>, with or without <c>AsTask()</c>.
/// </summary>
[DiagnosticAnalyzer(LanguageNames.CSharp)]
public sealed class IgnoredStartAnalyzer : DiagnosticAnalyzer
{
    /// <inheritdoc/>
    public override ImmutableArray<DiagnosticDescriptor> SupportedDiagnostics { get; } = [Descriptors.IgnoredStart];

    /// <inheritdoc/>
    public override void Initialize(AnalysisContext context)
    {
        context.ConfigureGeneratedCodeAnalysis(GeneratedCodeAnalysisFlags.None);
        context.EnableConcurrentExecution();
        context.RegisterOperationAction(LookAt, OperationKind.ExpressionStatement);
    }

    private static void LookAt(OperationAnalysisContext context)
    {
        IOperation operation = ((IExpressionStatementOperation)context.Operation).Operation;
        if (operation is ISimpleAssignmentOperation { Target: IDiscardOperation } discard) operation = discard.Value;
        while (operation is IConversionOperation conversion) operation = conversion.Operand;
        if (operation is IInvocationOperation { TargetMethod.Name: "AsTask", Instance: { } inner }) operation = inner;
        if (operation is not IInvocationOperation { TargetMethod: { Name: "StartAsync" or "ConnectAsync" } method } call
            || !LibraryCode.IsOf(method))
            return;
        if (method.ReturnType.Name is "Task" or "ValueTask")
            context.ReportDiagnostic(Diagnostic.Create(Descriptors.IgnoredStart, call.Syntax.GetLocation(),
                LibraryCode.NameOf(method)));
    }
}
