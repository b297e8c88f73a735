using System.Collections.Concurrent;
using System.Reflection;
using System.Runtime.CompilerServices;

namespace Whimbrel.Engines;

/// <summary>Names of user code in messages.</summary>
internal static class UserCode
{
    internal const string Continuation = "a continuation";
    internal const string PostedAction = "a posted action";
    internal const string Timer = "a timer";

    // tidy: allowed because it is used only for turns that took too long
    private static readonly ConcurrentDictionary<Assembly, bool> s_isOurs = new();

    /// <summary>
    /// Returns the name of an event of a server or client, from the lambda that calls it: "an event of the server
    /// (OnStarted)".
    /// </summary>
    internal static string EventOf(string owner, string code)
    {
        int begin = code.IndexOf("owner.", StringComparison.Ordinal) + "owner.".Length;
        int end = code.IndexOf('(', begin);
        return end > begin ? $"an event of the {owner} ({code[begin..end]})" : $"an event of the {owner}";
    }

    /// <summary>Returns the name of work that belongs to no session, with its delegate or async method.</summary>
    internal static string TextOf(string work, object? subject) =>
        MethodOf(subject) is { } method ? $"{work} ({method})" : work;

    /// <summary>
    /// False for work that this library itself has posted to a loop. A continuation always counts as user code, because
    /// an async method of the library may continue in the user's method that awaits it.
    /// </summary>
    internal static bool IsUsers(string work, object? subject) =>
        work == Continuation || work is not (PostedAction or Timer) || (subject is Delegate made
            ? !IsOurs(made.Method.DeclaringType) : work == Timer && !IsOurs(subject?.GetType()));

    /// <summary>
    /// True for types of this library: its assemblies have an attribute (src/Directory.Build.props), those of its tests
    /// and of users do not.
    /// </summary>
    private static bool IsOurs(Type? type) =>
        // tidy: allowed because it runs once for each assembly
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
            // An attribute of a user's assembly may come from an assembly that is missing. All assemblies of this
            // library can be loaded.
        }

        return false;
    }

    /// <summary>False for classes of this library's packages: the user did not write their overrides.</summary>
    internal static bool IsOfUser(Type type) => !IsOurs(type);

    /// <summary>
    /// Returns the method of a delegate or an async method, as "Class.Method"; null for anything else.
    /// </summary>
    internal static string? MethodOf(object? subject)
    {
        if (subject is Delegate made) return $"{ClassOf(made.Method.DeclaringType)}.{Plain(made.Method.Name)}";
        // The runtime keeps an async method in a generic object; one of its type arguments is the state machine.
        foreach (Type argument in subject?.GetType().GenericTypeArguments ?? [])
        {
            if (typeof(IAsyncStateMachine).IsAssignableFrom(argument))
                return $"{ClassOf(argument.DeclaringType)}.{Plain(argument.Name)}";
        }

        return null;
    }

    /// <summary>
    /// Returns the name of the outer class, because the compiler puts lambdas into nested classes with generated names.
    /// </summary>
    private static string ClassOf(Type? type)
    {
        while (type is { DeclaringType: { } outer } && type.Name.StartsWith('<')) type = outer;
        return type?.Name ?? "?";
    }

    /// <summary>
    /// Returns the method of a generated name: "&lt;Main&gt;b__0" is a lambda in Main, "&lt;ServeAsync&gt;d__3" the
    /// method itself.
    /// </summary>
    private static string Plain(string name) =>
        name.StartsWith('<') && name.IndexOf('>') is > 1 and var end ? name[1..end] : name;
}
