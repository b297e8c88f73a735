using System.Collections.Concurrent;
using System.Reflection;
using System.Runtime.CompilerServices;

namespace Whimbrel.Engines;

/// <summary>How messages name the user's code.</summary>
internal static class UserCode
{
    internal const string Continuation = "a continuation";
    internal const string PostedAction = "a posted action";
    internal const string Timer = "a timer";

    // tidy: allowed because it is asked for turns that took too long only
    private static readonly ConcurrentDictionary<Assembly, bool> s_isOurs = new();

    /// <summary>An event of a server or client, by the lambda that calls it: "an event of the server (OnStarted)".</summary>
    internal static string EventOf(string owner, string code)
    {
        int begin = code.IndexOf("owner.", StringComparison.Ordinal) + "owner.".Length;
        int end = code.IndexOf('(', begin);
        return end > begin ? $"an event of the {owner} ({code[begin..end]})" : $"an event of the {owner}";
    }

    /// <summary>Work that belongs to no session, with what it was made of: a delegate, or the state of an async method.</summary>
    internal static string TextOf(string work, object? subject) => MethodOf(subject) is { } method ? $"{work} ({method})" : work;

    /// <summary>
    /// False for work that this library has given to a loop itself. What an async method of ours goes on with may be the user's, who awaits it:
    /// such a continuation is, and is named so.
    /// </summary>
    internal static bool IsUsers(string work, object? subject) =>
        work == Continuation || work is not (PostedAction or Timer) || (subject is Delegate made ? !IsOurs(made.Method.DeclaringType) : work == Timer && !IsOurs(subject?.GetType()));

    /// <summary>Every assembly of ours says so (src/Directory.Build.props); those of our tests and of users do not.</summary>
    private static bool IsOurs(Type? type) =>
        // tidy: allowed because it is asked once for each assembly
        type is not null && s_isOurs.GetOrAdd(type.Assembly, static assembly => SaysThatItIsOurs(assembly));

    private static bool SaysThatItIsOurs(Assembly assembly)
    {
        try
        {
            foreach (AssemblyMetadataAttribute each in assembly.GetCustomAttributes<AssemblyMetadataAttribute>())
            {
                if (each.Key == "WhimbrelLibrary") return true;
            }
        }
        catch (Exception e) when (e is IOException or TypeLoadException or BadImageFormatException)
        {
            // An attribute of a user's assembly may be of an assembly that is not here. All of ours can be loaded.
        }

        return false;
    }

    /// <summary>False for classes of this library's packages, whose overrides a user cannot write.</summary>
    internal static bool IsOfUser(Type type) => !IsOurs(type);

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
