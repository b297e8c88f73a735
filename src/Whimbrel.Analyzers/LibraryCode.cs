using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.Operations;

namespace Whimbrel.Analyzers;

/// <summary>Detects members of Whimbrel, and delegates passed to it.</summary>
internal static class LibraryCode
{
    /// <summary>
    /// Returns whether a symbol is declared in one of the packages, without Whimbrel.Compat: its old APIs have rules of
    /// their own.
    /// </summary>
    internal static bool IsOf(ISymbol? symbol) =>
        symbol?.ContainingAssembly?.Name is { } name
        && (name == "Whimbrel" || name is "Whimbrel.Calls" or "Whimbrel.Datagrams" or "Whimbrel.Http"
            or "Whimbrel.Relays" or "Whimbrel.Kestrel" or "Whimbrel.Hosting" or "Whimbrel.Testing"
            or "Whimbrel.Cluster" or "Whimbrel.Cluster.Nats" or "Whimbrel.Cluster.Redis"
            or "Whimbrel.Cluster.RabbitMq" or "Whimbrel.Acme" or "Whimbrel.Dashboard");

    /// <summary>Returns whether a symbol is declared in a package that runs delegates and overrides on loops.</summary>
    internal static bool RunsOnLoops(ISymbol symbol) => IsOf(symbol)
        && symbol.ContainingAssembly.Name is not ("Whimbrel.Kestrel" or "Whimbrel.Hosting" or "Whimbrel.Testing"
            or "Whimbrel.Acme" or "Whimbrel.Dashboard");

    /// <summary>
    /// Returns the parameter, property or event of a package that receives a delegate, through conversions and
    /// conditional expressions; otherwise null.
    /// </summary>
    internal static ISymbol? TakerOf(IOperation created)
    {
        IOperation inner = created;
        for (IOperation? outer = created.Parent; outer is not null; (inner, outer) = (outer, outer.Parent))
        {
            switch (outer)
            {
                case IConversionOperation or IConditionalOperation or ICoalesceOperation or IParenthesizedOperation
                    or IDelegateCreationOperation:
                    continue;
                case IArgumentOperation argument:
                    return IsOf(argument.Parameter?.ContainingSymbol) ? argument.Parameter!.ContainingSymbol : null;
                case IAssignmentOperation assignment when ReferenceEquals(assignment.Value, inner):
                    return assignment.Target is IPropertyReferenceOperation property && IsOf(property.Property)
                        ? property.Property
                        : null;
                case IEventAssignmentOperation { EventReference: IEventReferenceOperation raised }:
                    return IsOf(raised.Event) ? raised.Event : null;
                default:
                    return null;
            }
        }

        return null;
    }

    /// <summary>Returns the method of a package that this one overrides; otherwise null.</summary>
    internal static IMethodSymbol? OverriddenBy(ISymbol symbol)
    {
        IMethodSymbol? last = null;
        for (IMethodSymbol? method = (symbol as IMethodSymbol)?.OverriddenMethod;
            method is not null; method = method.OverriddenMethod)
            last = method;
        return IsOf(last) ? last : null;
    }

    /// <summary>
    /// Returns the member of a package that calls the enclosing body: the overridden method, or the member that
    /// receives the lambda. Null if there is none, or another function is between.
    /// </summary>
    internal static ISymbol? CallbackAround(IOperation operation, ISymbol containing)
    {
        for (IOperation? outer = operation.Parent; outer is not null; outer = outer.Parent)
        {
            if (outer is ILocalFunctionOperation) return null;
            if (outer is IAnonymousFunctionOperation)
                return outer.Parent is IDelegateCreationOperation creation ? TakerOf(creation) : null;
        }

        return OverriddenBy(containing);
    }

    /// <summary>Returns the name of that member for messages.</summary>
    internal static string TextOf(ISymbol callback, ISymbol containing) =>
        SymbolEqualityComparer.Default.Equals(callback, OverriddenBy(containing))
            ? NameOf(callback)
            : $"what is given to {NameOf(callback)}";

    /// <summary>Returns a name as in <c>Session.Post</c> or <c>EngineOptions.OnDiagnosticEvent</c>.</summary>
    internal static string NameOf(ISymbol symbol) =>
        symbol is IMethodSymbol { MethodKind: MethodKind.Constructor }
            ? symbol.ContainingType.Name
            : $"{symbol.ContainingType.Name}.{symbol.Name}";

    /// <summary>Returns the nearest base class of a package, or null.</summary>
    internal static INamedTypeSymbol? BaseOf(INamedTypeSymbol? type)
    {
        INamedTypeSymbol? ancestor = type?.BaseType;
        while (ancestor is not null && !IsOf(ancestor)) ancestor = ancestor.BaseType;
        return ancestor;
    }

    internal static bool DerivesFrom(ITypeSymbol? type, INamedTypeSymbol ancestor)
    {
        for (ITypeSymbol? t = type; t is not null; t = t.BaseType)
        {
            if (SymbolEqualityComparer.Default.Equals(t, ancestor)) return true;
        }

        return false;
    }
}
