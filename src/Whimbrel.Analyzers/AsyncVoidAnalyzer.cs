using System.Collections.Immutable;
using System.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.Diagnostics;
using Microsoft.CodeAnalysis.Operations;

namespace Whimbrel.Analyzers;

/// <summary>WHIM0001, WHIM0002 and WHIM0006: async void code that Whimbrel calls without waiting for it.</summary>
[DiagnosticAnalyzer(LanguageNames.CSharp)]
public sealed class AsyncVoidAnalyzer : DiagnosticAnalyzer
{
    /// <inheritdoc/>
    public override ImmutableArray<DiagnosticDescriptor> SupportedDiagnostics { get; } = [Descriptors.AsyncVoidDelegate,
        Descriptors.AsyncVoidOverride, Descriptors.AsyncVoidCall];

    /// <inheritdoc/>
    public override void Initialize(AnalysisContext context)
    {
        context.ConfigureGeneratedCodeAnalysis(GeneratedCodeAnalysisFlags.None);
        context.EnableConcurrentExecution();
        context.RegisterOperationAction(LookAtDelegate, OperationKind.DelegateCreation);
        context.RegisterOperationAction(LookAtCall, OperationKind.Invocation);
        context.RegisterSymbolAction(LookAtMethod, SymbolKind.Method);
    }

    private static void LookAtCall(OperationAnalysisContext context)
    {
        IInvocationOperation call = (IInvocationOperation)context.Operation;
        if (call.TargetMethod is not { IsAsync: true, ReturnsVoid: true } method) return;
        ISymbol here = context.ContainingSymbol;
        string? place = LibraryCode.CallbackAround(call, here) is { } callback ? LibraryCode.TextOf(callback, here)
            : LibraryCode.BaseOf(here.ContainingType) is { } ancestor ? $"a class that derives from {ancestor.Name}"
            : null;
        if (place is not null)
            context.ReportDiagnostic(Diagnostic.Create(Descriptors.AsyncVoidCall, call.Syntax.GetLocation(),
                method.Name, place));
    }

    private static void LookAtDelegate(OperationAnalysisContext context)
    {
        IDelegateCreationOperation creation = (IDelegateCreationOperation)context.Operation;
        string? what = creation.Target switch
        {
            IAnonymousFunctionOperation { Symbol: { IsAsync: true, ReturnsVoid: true } } => "lambda",
            IMethodReferenceOperation { Method: { IsAsync: true, ReturnsVoid: true } } => "method",
            _ => null,
        };
        if (what is null || LibraryCode.TakerOf(creation) is not { } taker) return;
        context.ReportDiagnostic(Diagnostic.Create(Descriptors.AsyncVoidDelegate, creation.Syntax.GetLocation(),
            LibraryCode.NameOf(taker), what, CureFor(taker, what)));
    }

    /// <summary>Returns the advice, which depends on an overload for functions that return a task.</summary>
    private static string CureFor(ISymbol taker, string what)
    {
        if (taker is not IMethodSymbol method)
            return "Start the async part as a task there and handle its exceptions, or post it: "
                + "loop.Post(async () => ...).";
        bool takesTasks = method.ContainingType.GetMembers(method.Name).OfType<IMethodSymbol>()
            .Any(static m => m.Parameters.Any(static p => ReturnsTask(p.Type)));
        if (!takesTasks) return "Start the async part as a task there and handle its exceptions.";
        return what == "method"
            ? "Let the method return a Task: there is an overload that takes one."
            : "Let it return a Task: there is an overload that takes one.";
    }

    private static bool ReturnsTask(ITypeSymbol type) =>
        (type as INamedTypeSymbol)?.DelegateInvokeMethod?.ReturnType.Name is "Task" or "ValueTask";

    private static void LookAtMethod(SymbolAnalysisContext context)
    {
        IMethodSymbol method = (IMethodSymbol)context.Symbol;
        if (!method.IsAsync || !method.ReturnsVoid || !method.IsOverride
            || LibraryCode.OverriddenBy(method) is not { } overridden)
            return;
        context.ReportDiagnostic(Diagnostic.Create(Descriptors.AsyncVoidOverride, method.Locations[0],
            LibraryCode.NameOf(overridden)));
    }
}
