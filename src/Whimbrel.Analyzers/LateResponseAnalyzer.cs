using System.Collections.Immutable;
using System.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.Diagnostics;
using Microsoft.CodeAnalysis.Operations;

namespace Whimbrel.Analyzers;

/// <summary>
/// WHIM0011: a task or thread that nothing awaits uses the request or response of a handler.
/// </summary>
[DiagnosticAnalyzer(LanguageNames.CSharp)]
public sealed class LateResponseAnalyzer : DiagnosticAnalyzer
{
    /// <inheritdoc/>
    public override ImmutableArray<DiagnosticDescriptor> SupportedDiagnostics { get; } = [Descriptors.LateResponse];

    /// <inheritdoc/>
    public override void Initialize(AnalysisContext context)
    {
        context.ConfigureGeneratedCodeAnalysis(GeneratedCodeAnalysisFlags.None);
        context.EnableConcurrentExecution();
        context.RegisterOperationAction(LookAt, OperationKind.AnonymousFunction);
    }

    private static void LookAt(OperationAnalysisContext context)
    {
        IAnonymousFunctionOperation lambda = (IAnonymousFunctionOperation)context.Operation;
        if (StarterOf(lambda) is not { } starter) return;
        IOperation? use = lambda.Body.Descendants().FirstOrDefault(o => IsOfExchange(o, lambda.Syntax));
        if (use is not null)
            context.ReportDiagnostic(Diagnostic.Create(Descriptors.LateResponse, use.Syntax.GetLocation(),
                use.Syntax.ToString(), starter));
    }

    /// <summary>
    /// Returns whether an operation reads a request or response that is declared outside of the lambda.
    /// </summary>
    private static bool IsOfExchange(IOperation operation, SyntaxNode lambda)
    {
        ISymbol? symbol = operation switch
        {
            IParameterReferenceOperation parameter => parameter.Parameter,
            ILocalReferenceOperation local => local.Local,
            _ => null,
        };
        return symbol is not null && operation.Type?.Name is "HttpRequest" or "HttpResponse"
            && LibraryCode.IsOf(operation.Type)
            && !symbol.DeclaringSyntaxReferences.Any(d => lambda.Span.Contains(d.Span));
    }

    /// <summary>
    /// Returns the name of the method that runs the lambda on another thread without a caller that waits; otherwise
    /// null.
    /// </summary>
    private static string? StarterOf(IAnonymousFunctionOperation lambda)
    {
        IOperation? outer = lambda.Parent;
        while (outer is IDelegateCreationOperation or IConversionOperation or IArgumentOperation) outer = outer.Parent;
        switch (outer)
        {
            case IObjectCreationOperation { Type: { Name: "Thread" } type } when IsOfThreading(type):
                return "new Thread";
            case IInvocationOperation
            {
                TargetMethod: { Name: "QueueUserWorkItem" or "UnsafeQueueUserWorkItem" } method
            }
                when IsOfThreading(method.ContainingType):
                return $"ThreadPool.{method.Name}";
            case IInvocationOperation { TargetMethod: { Name: "Run" or "StartNew" } method } call
                when method.ContainingType.ContainingNamespace.ToDisplayString() == "System.Threading.Tasks"
                    && IsDropped(call):
                return LibraryCode.NameOf(method);
            default:
                return null;
        }
    }

    private static bool IsOfThreading(ITypeSymbol type) =>
        type.ContainingNamespace.ToDisplayString() == "System.Threading";

    /// <summary>Returns whether nothing keeps the result of a call.</summary>
    private static bool IsDropped(IOperation call) => call.Parent switch
    {
        IExpressionStatementOperation => true,
        ISimpleAssignmentOperation { Target: IDiscardOperation } => true,
        IConversionOperation conversion => IsDropped(conversion),
        _ => false,
    };
}
