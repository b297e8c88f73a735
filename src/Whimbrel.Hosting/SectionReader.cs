using System.Globalization;
using Microsoft.Extensions.Configuration;

namespace Whimbrel.Hosting;

/// <summary>
/// Reads a section of a configuration key by key and collects mistakes with their paths. An unknown key is a mistake
/// too, because a limit with a misspelt name would have no effect. Used by one thread.
/// </summary>
internal sealed class SectionReader(IConfigurationSection section, List<string> mistakes)
{
    private readonly HashSet<string> _known = new(StringComparer.OrdinalIgnoreCase);
    private readonly List<(string Key, SectionReader Reader)> _sections = [];

    internal string Path => section.Path;

    internal bool Exists => section.Exists();

    /// <summary>Reads a text. Returns null if the key is absent or empty.</summary>
    internal string? Text(string key)
    {
        _known.Add(key);
        return section[key] is { Length: > 0 } text ? text : null;
    }

    /// <summary>Reads a list, or a single value as a list. Empty if the key is absent.</summary>
    internal List<string> Texts(string key)
    {
        _known.Add(key);
        IConfigurationSection list = section.GetSection(key);
        if (list.Value is { Length: > 0 } one) return [one];
        return [.. list.GetChildren().Select(static c => c.Value).OfType<string>()];
    }

    internal SectionReader Section(string key)
    {
        _known.Add(key);
        if (section[key] is { Length: > 0 } text)
            Mistake(key, $"'{text}' is a value, and {key} is a section: write {section.Path}:{key}:NAME");
        SectionReader reader = new(section.GetSection(key), mistakes);
        _sections.Add((key, reader));
        return reader;
    }

    internal int Int(string key, int otherwise) => (int)Whole(key, otherwise, int.MinValue, int.MaxValue);

    internal long Long(string key, long otherwise) => Whole(key, otherwise, long.MinValue, long.MaxValue);

    internal bool Flag(string key, bool otherwise) => Maybe(key) ?? otherwise;

    internal bool? Maybe(string key)
    {
        if (Text(key) is not { } text) return null;
        if (bool.TryParse(text, out bool value)) return value;
        Mistake(key, $"'{text}' is neither true nor false");
        return null;
    }

    internal TimeSpan Time(string key, TimeSpan otherwise)
    {
        if (Text(key) is not { } text) return otherwise;
        // Because TimeSpan parses "5" as days.
        if (text.Contains(':', StringComparison.Ordinal)
            && TimeSpan.TryParse(text, CultureInfo.InvariantCulture, out TimeSpan value))
            return value;
        if (UnitText.TryParseTime(text, out value)) return value;
        Mistake(key,
            $"'{text}' is no time; five minutes are 00:05:00 or 5m, a tenth of a second is 00:00:00.1 or 100 ms");
        return otherwise;
    }

    internal T Word<T>(string key, T otherwise)
        where T : struct, Enum
    {
        if (Text(key) is not { } text) return otherwise;
        if (char.IsAsciiLetter(text[0]) && Enum.TryParse(text, ignoreCase: true, out T value) && Enum.IsDefined(value))
            return value;
        Mistake(key, $"'{text}' is none of {string.Join(", ", Enum.GetNames<T>())}");
        return otherwise;
    }

    internal void Mistake(string key, string what) => mistakes.Add($"{section.Path}:{key}: {what}");

    /// <summary>
    /// Adds a mistake reported by the library, under the key with which it begins, if any. Ignored if that key has a
    /// mistake already.
    /// </summary>
    internal void AddFound(string mistake)
    {
        int end = EndOfWord(mistake, 0);
        if (!_known.Contains(mistake[..end]))
        {
            mistakes.Add($"{section.Path}: {mistake}");
            return;
        }

        // Tls.MaxSilent becomes Chat:Tls:MaxSilent.
        if (end + 1 < mistake.Length && mistake[end] == '.' && char.IsAsciiLetter(mistake[end + 1]))
        {
            mistake = $"{mistake[..end]}:{mistake[(end + 1)..]}";
            end = EndOfWord(mistake, end + 1);
        }

        string key = $"{section.Path}:{mistake[..end]}";
        if (!mistakes.Exists(m => m.StartsWith(key, StringComparison.OrdinalIgnoreCase)))
            mistakes.Add($"{section.Path}:{mistake}");
    }

    private static int EndOfWord(string text, int from)
    {
        while (from < text.Length && char.IsAsciiLetterOrDigit(text[from])) from++;
        return from;
    }

    /// <summary>
    /// Ends reading, and reports unknown keys: with the new key if it belongs into a section or was renamed, or with a
    /// similar one.
    /// </summary>
    internal void End(Dictionary<string, string>? renamed = null)
    {
        foreach (IConfigurationSection child in section.GetChildren())
        {
            if (_known.Contains(child.Key)) continue;
            if (Moved(child.Key, renamed) is { } now)
            {
                Mistake(child.Key, $"there is no such option here: write {section.Path}:{now}");
                continue;
            }

            // Only a similar key is named, because the whole list would hide other mistakes.
            string? meant = _known.Order(StringComparer.Ordinal).FirstOrDefault(known => AreAlike(known, child.Key));
            Mistake(child.Key, meant is not null
                ? $"there is no such option: {meant} is meant, perhaps"
                : $"there is no such option; there are {string.Join(", ", _known.Order(StringComparer.Ordinal))}");
        }
    }

    private string? Moved(string key, Dictionary<string, string>? renamed)
    {
        if (renamed is not null && renamed.TryGetValue(key, out string? now)) return now;
        foreach ((string name, SectionReader reader) in _sections)
        {
            if (reader._known.TryGetValue(key, out string? known)) return $"{name}:{known}";
        }

        return null;
    }

    // One character added, missing or different, or two swapped.
    private static bool AreAlike(string known, string written)
    {
        int start = 0, end = 0, least = Math.Min(known.Length, written.Length);
        while (start < least && IsSame(known[start], written[start])) start++;
        while (end < least - start && IsSame(known[^(end + 1)], written[^(end + 1)])) end++;
        int inKnown = known.Length - start - end, inWritten = written.Length - start - end;
        return Math.Max(inKnown, inWritten) <= 1
            || (inKnown == 2 && inWritten == 2 && IsSame(known[start], written[start + 1])
                && IsSame(known[start + 1], written[start]));
    }

    private static bool IsSame(char a, char b) => char.ToUpperInvariant(a) == char.ToUpperInvariant(b);

    private long Whole(string key, long otherwise, long least, long most)
    {
        if (Text(key) is not { } text) return otherwise;
        if (long.TryParse(text, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out long value)
            && value >= least && value <= most)
            return value;
        // Units are allowed for bytes only: a backlog of 1 KiB would be a mistake.
        bool isSize = key.Contains("Bytes", StringComparison.Ordinal);
        if (isSize && UnitText.TryParseBytes(text, out value) && value >= least && value <= most) return value;
        Mistake(key, $"'{text}' is no whole number from {least} to "
            + $"{most}{(isSize ? ", and no size in that range such as 64 KiB or 1.5 MiB" : "")}");
        return otherwise;
    }
}
