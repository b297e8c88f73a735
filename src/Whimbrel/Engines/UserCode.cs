using System.Runtime.CompilerServices;

namespace Whimbrel.Engines;

/// <summary>How messages name the user's code.</summary>
internal static class UserCode
{
    internal static string TextOf(string callback, Session session) => $"{callback} of {session.DisplayName} (session {session.Id:x})";

    /// <summary>Work that belongs to no session, with what it was made of: a delegate, or the state of an async method.</summary>
    internal static string TextOf(string work, object? subject) => MethodOf(subject) is { } method ? $"{work} ({method})" : work;

    /// <summary>The method behind a delegate or an async method, as "Class.Method"; null for anything else.</summary>
    internal static string? MethodOf(object? subject)
    {
        if (subject is Delegate made) return $"{ClassOf(made.Method.DeclaringType)}.{Plain(made.Method.Name)}";
        // The runtime keeps an async method in a generic object: one of its type arguments is the state machine.
        foreach (Type argument in subject?.GetType().GenericTypeArguments ?? [])
        {
            if (typeof(IAsyncStateMachine).IsAssignableFrom(argument)) return $"{ClassOf(argument.DeclaringType)}.{Plain(argument.Name)}";
        }

        return null;
    }

    /// <summary>The compiler puts lambdas into nested classes with names of its own.</summary>
    private static string ClassOf(Type? type)
    {
        while (type is { DeclaringType: { } outer } && type.Name.StartsWith('<')) type = outer;
        return type?.Name ?? "?";
    }

    /// <summary>"&lt;Main&gt;b__0" is a lambda in Main, "&lt;ServeAsync&gt;d__3" the method itself.</summary>
    private static string Plain(string name) => name.StartsWith('<') && name.IndexOf('>') is > 1 and var end ? name[1..end] : name;
}
