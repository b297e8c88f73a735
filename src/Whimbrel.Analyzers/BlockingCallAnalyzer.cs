using System;
using System.Collections.Immutable;
using System.Linq;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.Diagnostics;
using Microsoft.CodeAnalysis.Operations;

namespace Whimbrel.Analyzers;

/// <summary>
/// WHIM0004: blocking calls on a loop's thread, in overrides of the library's methods and in lambdas passed to it.
/// Methods called by a callback are not analysed, and work started elsewhere (<c>Task.Run</c>) may block.
/// </summary>
[DiagnosticAnalyzer(LanguageNames.CSharp)]
public sealed class BlockingCallAnalyzer : DiagnosticAnalyzer
{
    private const string Async = "Async";
    private const string AndWait = "AndWait";

    /// <inheritdoc/>
    public override ImmutableArray<DiagnosticDescriptor> SupportedDiagnostics { get; } = [Descriptors.BlockingCall];

    /// <inheritdoc/>
    public override void Initialize(AnalysisContext context)
    {
        context.ConfigureGeneratedCodeAnalysis(GeneratedCodeAnalysisFlags.None);
        context.EnableConcurrentExecution();
        context.RegisterOperationAction(LookAtCall, OperationKind.Invocation);
        context.RegisterOperationAction(LookAtProperty, OperationKind.PropertyReference);
    }

    private static void LookAtCall(OperationAnalysisContext context)
    {
        IMethodSymbol method = ((IInvocationOperation)context.Operation).TargetMethod;
        if (Blocks(method))
            Report(context, method.Name == "GetResult" ? "GetAwaiter().GetResult()" : LibraryCode.NameOf(method));
    }

    private static void LookAtProperty(OperationAnalysisContext context)
    {
        IPropertySymbol property = ((IPropertyReferenceOperation)context.Operation).Property;
        if (property.Name == "Result" && IsTask(property.ContainingType))
            Report(context, $"{property.ContainingType.Name}.Result");
    }

    private static void Report(OperationAnalysisContext context, string what)
    {
        if (LibraryCode.CallbackAround(context.Operation, context.ContainingSymbol) is { } callback
            && LibraryCode.RunsOnLoops(callback))
            context.ReportDiagnostic(Diagnostic.Create(Descriptors.BlockingCall, context.Operation.Syntax.GetLocation(),
                what, LibraryCode.TextOf(callback, context.ContainingSymbol)));
    }

    private static bool Blocks(IMethodSymbol method)
    {
        INamedTypeSymbol type = method.ContainingType;
        string space = type.ContainingNamespace.ToDisplayString();
        return (space, type.Name, method.Name) switch
        {
            ("System.Threading", "Thread", "Sleep" or "Join") => true,
            ("System.Threading", "SemaphoreSlim" or "ManualResetEventSlim" or "CountdownEvent", "Wait") => true,
            ("System.Threading", "WaitHandle", "WaitOne" or "WaitAny" or "WaitAll") => true,
            ("System.Threading.Tasks", "Task", "Wait" or "WaitAll" or "WaitAny") => true,
            ("System.Runtime.CompilerServices", _, "GetResult") =>
                type.Name.EndsWith("Awaiter", System.StringComparison.Ordinal),
            _ => LibraryCode.IsOf(method) && HasTimeLimit(method),
        };
    }

    /// <summary>
    /// Returns whether a method of the library blocks the calling thread: it has a timeout, and an async counterpart
    /// exists: <c>Stop</c> and <c>StopAsync</c>, <c>CloseAndWait</c> and <c>CloseAsync</c>.
    /// </summary>
    private static bool HasTimeLimit(IMethodSymbol method)
    {
        string name = method.Name;
        if (name.EndsWith(Async, StringComparison.Ordinal)) return false;
        if (!method.Parameters.Any(static p => p is { Name: "timeout", Type.Name: "TimeSpan" })) return false;
        if (name.EndsWith(AndWait, StringComparison.Ordinal)) name = name.Substring(0, name.Length - AndWait.Length);
        return !method.ContainingType.GetMembers(name + Async).IsEmpty;
    }

    private static bool IsTask(INamedTypeSymbol type) =>
        type.Name is "Task" or "ValueTask" && type.ContainingNamespace.ToDisplayString() == "System.Threading.Tasks";
}
