using System.Globalization;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Text;

namespace Whimbrel.Tidy;

// The public API of an assembly as text, one sorted line per type and member, so that an API change is a change of a
// reviewed file. Lists only what a user can call or override.
internal static class PublicApi
{
    private const BindingFlags Declared = BindingFlags.Public | BindingFlags.NonPublic | BindingFlags.Instance
        | BindingFlags.Static | BindingFlags.DeclaredOnly;

    public static string Of(Assembly assembly) => Of(assembly.GetExportedTypes());

    internal static string Of(IEnumerable<Type> types)
    {
        var text = new StringBuilder();
        foreach (var type in types.OrderBy(NameOf, StringComparer.Ordinal))
        {
            text.Append(Head(type)).Append('\n');
            foreach (var line in Members(type).Order(StringComparer.Ordinal))
                text.Append("    ").Append(line).Append('\n');
        }
        return text.ToString();
    }

    private static string Head(Type type)
    {
        var kind = type switch
        {
            { IsEnum: true } => "enum",
            { IsInterface: true } => "interface",
            { IsValueType: true } => type.IsDefined(typeof(IsReadOnlyAttribute)) ? "readonly struct" : "struct",
            _ when typeof(Delegate).IsAssignableFrom(type) => "delegate",
            { IsAbstract: true, IsSealed: true } => "static class",
            { IsAbstract: true } => "abstract class",
            { IsSealed: true } => "sealed class",
            _ => "class",
        };
        var parents = new List<string>();
        if (type.BaseType is { } parent && !type.IsValueType && parent != typeof(object) && kind != "delegate")
            parents.Add(NameOf(parent));
        if (!type.IsEnum && kind != "delegate")
            parents.AddRange(type.GetInterfaces().Where(i => i.IsVisible).Select(NameOf).Order(StringComparer.Ordinal));
        return $"{kind} {NameOf(type)}{(parents.Count > 0 ? " : " + string.Join(", ", parents) : "")}";
    }

    private static IEnumerable<string> Members(Type type)
    {
        if (type.IsEnum)
        {
            foreach (var field in type.GetFields(BindingFlags.Public | BindingFlags.Static))
                yield return $"{field.Name} = "
                    + $"{Convert.ToString(field.GetRawConstantValue(), CultureInfo.InvariantCulture)}";
            yield break;
        }
        if (typeof(Delegate).IsAssignableFrom(type))
        {
            var invoke = type.GetMethod("Invoke")!;
            yield return $"{NameOf(invoke.ReturnType)} Invoke({Parameters(invoke)})";
            yield break;
        }
        foreach (var field in type.GetFields(Declared).Where(f => f.IsPublic || f.IsFamily || f.IsFamilyOrAssembly))
            yield return $"{Access(field.IsPublic)}"
                + $"{(field.IsLiteral ? "const " : field.IsStatic ? "static " : "")}{NameOf(field.FieldType)} "
                + $"{field.Name}";
        foreach (var constructor in type.GetConstructors(Declared).Where(IsVisible))
            yield return $"{Access(constructor.IsPublic)}{type.Name.Split('`')[0]}({Parameters(constructor)})";
        foreach (var method in type.GetMethods(Declared)
            .Where(m => IsVisible(m) && (!m.IsSpecialName || m.Name.StartsWith("op_", StringComparison.Ordinal))))
            yield return $"{Modifiers(method)}{NameOf(method.ReturnParameter)} "
                + $"{method.Name}{Generics(method)}({Parameters(method)})";
        foreach (var property in type.GetProperties(Declared))
        {
            var accessors = property.GetAccessors(nonPublic: true).Where(IsVisible).ToList();
            if (accessors.Count == 0) continue;
            var index = property.GetIndexParameters() is { Length: > 0 } parameters
                ? $"[{string.Join(", ", parameters.Select(p => $"{NameOf(p.ParameterType)} {p.Name}"))}]"
                : "";
            yield return $"{Modifiers(accessors[0])}{NameOf(property.PropertyType)}"
                + $"{Mark(property.PropertyType, new NullabilityInfoContext().Create(property))} "
                + $"{property.Name}{index} {{ {string.Join(' ', accessors.Select(a => Accessor(a, accessors[0])))} }}";
        }
        foreach (var happening in type.GetEvents(Declared).Where(e => IsVisible(e.AddMethod!)))
            yield return $"{Modifiers(happening.AddMethod!)}event {NameOf(happening.EventHandlerType!)} "
                + $"{happening.Name}";
    }

    private static string Accessor(MethodInfo accessor, MethodInfo first)
    {
        var verb = accessor.ReturnType != typeof(void) ? "get;"
            : accessor.ReturnParameter.GetRequiredCustomModifiers().Any(m => m.Name == "IsExternalInit") ? "init;"
            : "set;";
        return accessor.IsPublic == first.IsPublic ? verb : $"{Access(accessor.IsPublic)}{verb}";
    }

    private static bool IsVisible(MethodBase method) => method.IsPublic || method.IsFamily || method.IsFamilyOrAssembly;

    private static string Access(bool isPublic) => isPublic ? "" : "protected ";

    private static string Modifiers(MethodInfo method)
    {
        var kind = method switch
        {
            { IsStatic: true } => "static ",
            { DeclaringType.IsInterface: true } => "",
            { IsAbstract: true } => "abstract ",
            { IsVirtual: true, IsFinal: false } => method.GetBaseDefinition() == method ? "virtual " : "override ",
            _ => "",
        };
        return Access(method.IsPublic) + kind;
    }

    private static string Generics(MethodInfo method) =>
        method.IsGenericMethodDefinition
            ? $"<{string.Join(", ", method.GetGenericArguments().Select(a => a.Name))}>"
            : "";

    private static string Parameters(MethodBase method) => string.Join(", ", method.GetParameters().Select(p =>
    {
        var prefix = p.IsDefined(typeof(ParamArrayAttribute)) ? "params "
            : p.ParameterType.IsByRef ? p.IsOut ? "out " : p.IsIn ? "in " : "ref " : "";
        return $"{prefix}{NameOf(p)} {p.Name}{(p.HasDefaultValue ? $" = {DefaultOf(p)}" : "")}";
    }));

    private static string DefaultOf(ParameterInfo parameter) => parameter.RawDefaultValue switch
    {
        null => parameter.ParameterType.IsValueType && Nullable.GetUnderlyingType(parameter.ParameterType) is null
            ? "default"
            : "null",
        string s => $"\"{s}\"",
        var value => Convert.ToString(value, CultureInfo.InvariantCulture)!,
    };

    private static readonly Dictionary<Type, string> _keywords = new()
    {
        [typeof(void)] = "void",
        [typeof(object)] = "object",
        [typeof(string)] = "string",
        [typeof(bool)] = "bool",
        [typeof(byte)] = "byte",
        [typeof(sbyte)] = "sbyte",
        [typeof(char)] = "char",
        [typeof(short)] = "short",
        [typeof(ushort)] = "ushort",
        [typeof(int)] = "int",
        [typeof(uint)] = "uint",
        [typeof(long)] = "long",
        [typeof(ulong)] = "ulong",
        [typeof(float)] = "float",
        [typeof(double)] = "double",
        [typeof(decimal)] = "decimal",
        [typeof(nint)] = "nint",
        [typeof(nuint)] = "nuint",
    };

    private static string NameOf(ParameterInfo parameter) =>
        NameOf(parameter.ParameterType) + Mark(parameter.ParameterType, new NullabilityInfoContext().Create(parameter));

    // Nullability of the outermost type only.
    private static string Mark(Type type, NullabilityInfo info) =>
        !(type.IsByRef ? type.GetElementType()! : type).IsValueType
        && (info.ReadState == NullabilityState.Nullable || info.WriteState == NullabilityState.Nullable) ? "?" : "";

    private static string NameOf(Type type)
    {
        if (_keywords.TryGetValue(type, out var keyword)) return keyword;
        if (type.IsByRef) return NameOf(type.GetElementType()!);
        if (type.IsArray) return NameOf(type.GetElementType()!) + "[]";
        if (type.IsPointer) return NameOf(type.GetElementType()!) + "*";
        if (type.IsGenericParameter) return type.Name;
        if (Nullable.GetUnderlyingType(type) is { } inner) return NameOf(inner) + "?";
        var name = (type.DeclaringType is { } outer ? NameOf(outer) + "." : type.Namespace is "System" or null ? ""
            : type.Namespace + ".") + type.Name.Split('`')[0];
        return type.IsGenericType ? $"{name}<{string.Join(", ", type.GetGenericArguments().Select(NameOf))}>" : name;
    }
}
