using System.Collections;
using System.Globalization;
using System.Reflection;
using System.Text;

namespace Whimbrel.Conformance;

/// <summary>
/// Writes the private fields of an object and of the Whimbrel objects that it refers to, by reflection, so that the
/// library needs no code for it. Reads without locks: the threads of a standstill do not change anything.
/// </summary>
internal sealed class StateDump
{
    private const int MostDepth = 5;
    private const int MostItems = 20;
    private const int MostObjects = 600;

    private readonly StringBuilder _text = new();
    private readonly Dictionary<object, int> _seen = new(ReferenceEqualityComparer.Instance);

    internal StateDump Add(string name, object? value)
    {
        Write(name, value, 0);
        return this;
    }

    public override string ToString() => _text.ToString();

    private void Write(string name, object? value, int depth)
    {
        _text.Append(' ', depth * 2).Append(name).Append(" = ");
        if (value is null || value.GetType() is { IsPrimitive: true } or { IsEnum: true }
            || value is string or decimal or DateTime or TimeSpan)
        {
            _text.AppendLine(Convert.ToString(value, CultureInfo.InvariantCulture) ?? "null");
            return;
        }

        Type type = value.GetType();
        if (value is Pointer or Delegate || type.IsPointer || type.IsByRefLike)
        {
            _text.AppendLine(type.Name);
            return;
        }

        if (!type.IsValueType && _seen.TryGetValue(value, out int number))
        {
            _text.AppendLine(CultureInfo.InvariantCulture, $"{type.Name} #{number}");
            return;
        }

        if (!type.IsValueType) _seen[value] = _seen.Count;
        _text.AppendLine(CultureInfo.InvariantCulture, $"{type.Name}{(type.IsValueType ? "" : $" #{_seen[value]}")}");
        if (depth == MostDepth || _seen.Count > MostObjects) return;
        if (value is Array { Rank: 1 } array && array.GetType().GetElementType()!.IsPrimitive) return;
        if (value is IEnumerable items and (Array or ICollection)) WriteItems(items, depth);
        else if (type.Namespace?.StartsWith("Whimbrel", StringComparison.Ordinal) == true || type.IsValueType)
            WriteFields(value, type, depth);
    }

    private void WriteItems(IEnumerable items, int depth)
    {
        int index = 0;
        foreach (object? item in items)
        {
            if (item is not null) Write($"[{index}]", item, depth + 1);
            if (++index == MostItems) break;
        }
    }

    private void WriteFields(object value, Type type, int depth)
    {
        for (Type? level = type; level is not null && level != typeof(object); level = level.BaseType)
        {
            foreach (FieldInfo field in level.GetFields(BindingFlags.Instance | BindingFlags.Public
                | BindingFlags.NonPublic | BindingFlags.DeclaredOnly))
            {
                if (field.FieldType.IsPointer || field.FieldType.IsByRefLike) continue;
                object? content;
                try
                {
                    content = field.GetValue(value);
                }
                catch (Exception e) when (e is NotSupportedException or TargetException or FieldAccessException)
                {
                    continue;
                }

                Write(field.Name, content, depth + 1);
            }
        }
    }
}
