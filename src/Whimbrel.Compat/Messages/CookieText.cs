namespace Whimbrel.Compat;

/// <summary>Cookies as they stand in a field.</summary>
internal static class CookieText
{
    internal static string Of(string name, string value)
    {
        ArgumentException.ThrowIfNullOrEmpty(name);
        if (name.AsSpan().ContainsAny(" =,\"")) throw new ArgumentException("The name of a cookie is a token.", nameof(name));
        return $"{Checked(name, nameof(name))}={Checked(value, nameof(value))}";
    }

    /// <summary>A semicolon would begin another cookie, or an attribute.</summary>
    internal static string Checked(string text, string name)
    {
        ArgumentNullException.ThrowIfNull(text, name);
        return text.Contains(';', StringComparison.Ordinal) ? throw new ArgumentException("A cookie has no semicolon: what follows it would be taken for another one.", name) : text;
    }

    internal static void Read(string field, List<(string, string)> cookies)
    {
        foreach (string pair in field.Split(';', StringSplitOptions.TrimEntries | StringSplitOptions.RemoveEmptyEntries))
        {
            int equals = pair.IndexOf('=', StringComparison.Ordinal);
            cookies.Add(equals < 0 ? (pair, "") : (pair[..equals], pair[(equals + 1)..]));
        }
    }
}
