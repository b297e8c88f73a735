using System.Collections.Immutable;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.Diagnostics;
using Microsoft.CodeAnalysis.Operations;

namespace Whimbrel.Analyzers;

/// <summary>
/// WHIM0005: calls of <c>Send</c> and <c>SendAsync</c>, inherited from <c>Session</c>, in a WebSocket session.
/// </summary>
[DiagnosticAnalyzer(LanguageNames.CSharp)]
public sealed class RawSendAnalyzer : DiagnosticAnalyzer
{
    /// <inheritdoc/>
    public override ImmutableArray<DiagnosticDescriptor> SupportedDiagnostics { get; } = [Descriptors.RawSend];

    /// <inheritdoc/>
    public override void Initialize(AnalysisContext context)
    {
        context.ConfigureGeneratedCodeAnalysis(GeneratedCodeAnalysisFlags.None);
        context.EnableConcurrentExecution();
        context.RegisterCompilationStartAction(static start =>
        {
            if (start.Compilation.GetTypeByMetadataName("Whimbrel.Session") is { } session
                && start.Compilation.GetTypeByMetadataName("Whimbrel.Http.WebSocketSession") is { } socket)
                start.RegisterOperationAction(c => LookAt(c, session, socket), OperationKind.Invocation);
        });
    }

    private static void LookAt(OperationAnalysisContext context, INamedTypeSymbol session, INamedTypeSymbol socket)
    {
        IInvocationOperation call = (IInvocationOperation)context.Operation;
        IMethodSymbol method = call.TargetMethod;
        if (method.Name is not ("Send" or "SendAsync")
            || !SymbolEqualityComparer.Default.Equals(method.ContainingType, session))
            return;
        IOperation? receiver = call.Instance;
        while (receiver is IConversionOperation conversion) receiver = conversion.Operand;
        if (LibraryCode.DerivesFrom(receiver?.Type, socket))
            context.ReportDiagnostic(Diagnostic.Create(Descriptors.RawSend, call.Syntax.GetLocation(), method.Name));
    }
}
