namespace Whimbrel.Compat;

/// <summary>Formats and parses cookies.</summary>
internal static class CookieText
{
    internal static string Of(string name, string value)
    {
        ArgumentNullException.ThrowIfNull(name);
        return $"{Encoded(name, nameof(name)).Replace("=", "%3D", StringComparison.Ordinal)}="
            + $"{Encoded(value, nameof(value))}";
    }

    /// <summary>Percent-encodes semicolons, because one would start another cookie or an attribute.</summary>
    internal static string Encoded(string text, string name)
    {
        ArgumentNullException.ThrowIfNull(text, name);
        return text.Replace(";", "%3B", StringComparison.Ordinal);
    }

    internal static void Read(string field, List<(string, string)> cookies)
    {
        foreach (string pair in field.Split(';',
            StringSplitOptions.TrimEntries | StringSplitOptions.RemoveEmptyEntries))
        {
            int equals = pair.IndexOf('=', StringComparison.Ordinal);
            cookies.Add(equals < 0 ? (pair, "") : (pair[..equals], pair[(equals + 1)..]));
        }
    }
}
