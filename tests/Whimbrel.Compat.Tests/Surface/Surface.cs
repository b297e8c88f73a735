using System.Globalization;
using System.Reflection;

namespace Whimbrel.Compat.Tests.Surface;

/// <summary>Notation of parameters in a list.</summary>
internal enum Parameters
{
    Named,
    Types,
}

/// <summary>Types and members in the notation of the old libraries' lists: one paragraph per type, one line per member
/// that a user can call or override.</summary>
internal static class Surface
{
    private const BindingFlags Declared = BindingFlags.Public | BindingFlags.NonPublic | BindingFlags.Instance
        | BindingFlags.Static | BindingFlags.DeclaredOnly;

    private static readonly Dictionary<Type, string> s_words = new()
    {
        [typeof(void)] = "void",
        [typeof(object)] = "object",
        [typeof(string)] = "string",
        [typeof(bool)] = "bool",
        [typeof(byte)] = "byte",
        [typeof(sbyte)] = "sbyte",
        [typeof(char)] = "char",
        [typeof(int)] = "int",
        [typeof(long)] = "long",
        [typeof(double)] = "double",
    };

    /// <summary>Paragraphs of a list: the name of each type, its first line without the count, and the lines of its
    /// members.</summary>
    internal static Dictionary<string, (string Head, string[] Members)> Read(string resource)
    {
        using StreamReader reader = new(typeof(Surface).Assembly.GetManifestResourceStream(resource)!);
        Dictionary<string, (string, string[])> types = [];
        List<string> members = [];
        string? head = null;
        while (true)
        {
            string? line = reader.ReadLine();
            if (line is null || (line.Length > 0 && line[0] is not (' ' or '#')))
            {
                if (head is not null) types.Add(NameIn(head), (head, [.. members]));
                if (line is null) return types;
                members.Clear();
                int count = line.IndexOf('[', StringComparison.Ordinal);
                head = string.Join(' ',
                    (count < 0 ? line : line[..count]).Split(' ', StringSplitOptions.RemoveEmptyEntries));
            }
            else if (line.StartsWith("  ", StringComparison.Ordinal)) members.Add(line.Trim());
        }
    }

    internal static string HeadOf(Type type)
    {
        string kind = type switch
        {
            { IsEnum: true } => "enum",
            { IsInterface: true } => "interface",
            { IsAbstract: true, IsSealed: true } => "static class",
            { IsAbstract: true } => "abstract class",
            // Delegates are always sealed.
            { IsSealed: true } when !typeof(Delegate).IsAssignableFrom(type) => "sealed class",
            _ => "class",
        };
        string parent = type.IsEnum ? NameOf(type.GetEnumUnderlyingType()) : type.BaseType is { } known ? NameOf(known)
            : "";
        IEnumerable<string> own = type.IsEnum || typeof(Delegate).IsAssignableFrom(type) ? [] : type.GetInterfaces()
            .Except(type.BaseType?.GetInterfaces() ?? []).Where(static i => i.IsVisible).Select(NameOf);
        return string.Join(' ', ((string[])[kind, type.Name, ":", parent, .. own]).Where(static w => w.Length > 0));
    }

    internal static IEnumerable<string> MembersOf(Type type, Parameters form = Parameters.Named)
    {
        if (type.IsEnum)
        {
            foreach (FieldInfo field in type.GetFields(BindingFlags.Public | BindingFlags.Static))
                yield return $"{field.Name}="
                    + $"{Convert.ToString(field.GetRawConstantValue(), CultureInfo.InvariantCulture)}";
            yield break;
        }

        foreach (ConstructorInfo constructor in type.GetConstructors(Declared).Where(IsVisible))
            yield return $"{Access(constructor)}{type.Name}({ParametersOf(constructor.GetParameters(), form)})";
        foreach (FieldInfo field in type.GetFields(Declared)
            .Where(static f => f.IsPublic || f.IsFamily || f.IsFamilyOrAssembly))
            yield return $"field {(field.IsPublic ? "" : "protected ")}{(field.IsStatic ? "static " : "")}"
                + $"{(field.IsInitOnly ? "readonly " : "")}{NameOf(field.FieldType)} {field.Name}";
        foreach (PropertyInfo property in type.GetProperties(Declared))
        {
            MethodInfo[] accessors = [.. property.GetAccessors(nonPublic: true).Where(IsVisible)];
            if (accessors.Length == 0) continue;
            string access = accessors.Any(static a => a.IsPublic) ? "" : "protected ";
            string verbs = string.Concat(
                accessors.Select(static a => $"{Access(a)}{(a.ReturnType == typeof(void) ? "set" : "get")};"));
            string index = property.GetIndexParameters() is { Length: > 0 } parameters
                ? $"[{ParametersOf(parameters, form)}]"
                : "";
            yield return $"{access}{Kind(accessors[0])}{NameOf(property.PropertyType)} "
                + $"{property.Name}{index} {{{verbs}}}";
        }

        foreach (MethodInfo method in type.GetMethods(Declared).Where(static m => IsVisible(m) && !m.IsSpecialName))
            yield return $"{Access(method)}{Kind(method)}{NameOf(method.ReturnType)} "
                + $"{method.Name}({ParametersOf(method.GetParameters(), form)})";
    }

    private static string NameIn(string head) => head.Split(' ')
        .SkipWhile(static w => w is "class" or "static" or "interface" or "enum" or "abstract" or "sealed").First();

    private static bool IsVisible(MethodBase method) => method.IsPublic || method.IsFamily || method.IsFamilyOrAssembly;

    private static string Access(MethodBase method) => method.IsPublic ? "" : "protected ";

    private static string Kind(MethodInfo method) =>
        method.IsStatic ? "static " : !method.IsVirtual || method.IsFinal ? ""
            : method.GetBaseDefinition() == method ? "virtual " : "override ";

    private static string ParametersOf(ParameterInfo[] parameters, Parameters form) =>
        string.Join(", ", parameters.Select(p =>
            $"{(p.ParameterType.IsByRef ? "ref " : "")}{NameOf(p.ParameterType)}"
            + $"{(form == Parameters.Named ? " " + p.Name : "")}{(p.HasDefaultValue ? "=" + DefaultOf(p) : "")}"));

    private static string DefaultOf(ParameterInfo parameter) => parameter.RawDefaultValue switch
    {
        null => "default",
        string text => $"\"{text}\"",
        bool flag => flag ? "true" : "false",
        object value => Convert.ToString(value, CultureInfo.InvariantCulture)!,
    };

    private static string NameOf(Type type)
    {
        if (s_words.TryGetValue(type, out string? word)) return word;
        if (type.IsByRef) return NameOf(type.GetElementType()!);
        if (type.IsArray) return NameOf(type.GetElementType()!) + "[]";
        if (Nullable.GetUnderlyingType(type) is { } inner) return NameOf(inner) + "?";
        return type.IsGenericType
            ? $"{type.Name.Split('`')[0]}<{string.Join(',', type.GetGenericArguments().Select(NameOf))}>"
            : type.Name;
    }
}
