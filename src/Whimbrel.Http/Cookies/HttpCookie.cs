using System.Globalization;
using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// A cookie for a browser to keep: <see cref="HttpResponse.SetCookie"/>. What no browser would keep, or what would become another cookie or
/// field, is refused by an exception when it is set.
/// </summary>
public sealed class HttpCookie
{
    private const int MostBytes = 4096;          // of name and value together: browsers drop more
    private const int MostAttributeBytes = 1024; // the same

    /// <summary>A cookie until the browser is closed, for all paths of this host, that scripts do not see.</summary>
    /// <param name="name">A token. <c>__Secure-</c> and <c>__Host-</c> in front make the browser hold it to what they say.</param>
    /// <param name="value">Visible ASCII without spaces, <c>"</c>, <c>,</c>, <c>;</c> and <c>\</c>: encode all else, for instance by <see cref="Uri.EscapeDataString(string)"/>.</param>
    public HttpCookie(string name, string value)
    {
        ArgumentNullException.ThrowIfNull(name);
        ArgumentNullException.ThrowIfNull(value);
        Name = name;
        Value = value;
    }

    /// <summary>Its name.</summary>
    public string Name { get; }

    /// <summary>Its value.</summary>
    public string Value { get; }

    /// <summary>When it ends, by the browser's clock; null (the default): with the browser. <see cref="MaxAge"/> goes before it.</summary>
    public DateTimeOffset? Expires { get; init; }

    /// <summary>How long it is kept, in whole seconds; zero and less removes it. Null is the default.</summary>
    public TimeSpan? MaxAge { get; init; }

    /// <summary>The host that gets it with all its sub-domains. Null (the default): this host alone.</summary>
    public string? Domain { get; init; }

    /// <summary>The paths that get it: all that begin so. Default <c>/</c>.</summary>
    public string Path { get; init; } = "/";

    /// <summary>Sent over TLS only.</summary>
    public bool IsSecure { get; init; }

    /// <summary>Not seen by scripts. Default true.</summary>
    public bool IsHttpOnly { get; init; } = true;

    /// <summary>Sent with requests of other sites or not. Default <see cref="HttpSameSite.Lax"/>.</summary>
    public HttpSameSite SameSite { get; init; }

    /// <summary>In a page of another site it is kept apart from what that host has elsewhere. Only for cookies that are <see cref="IsSecure"/>.</summary>
    public bool IsPartitioned { get; init; }

    /// <summary>The value of Set-Cookie. Throws with the first mistake.</summary>
    internal string Format()
    {
        if (!HttpBytes.IsToken(Name)) throw Mistake("its name is no token");
        foreach (char c in Value)
        {
            if (c is <= ' ' or >= '\x7F' or '"' or ',' or ';' or '\\') throw Mistake("its value has a space, a control, one of \",;\\ or a letter that is not ASCII: encode it, for instance by percent signs");
        }

        if (Name.Length + Value.Length > MostBytes) throw Mistake("name and value are more than 4,096 bytes, which browsers drop");
        if (!Path.StartsWith('/') || !IsAttribute(Path)) throw Mistake("a path begins with / and is visible ASCII without a semicolon");
        if (Domain is not null && (!IsAttribute(Domain) || Domain.Contains(':', StringComparison.Ordinal) || !HttpBytes.IsAuthority(Encoding.ASCII.GetBytes(Domain)))) throw Mistake("a domain is the name of a host");
        CheckRules();

        StringBuilder text = new(Name.Length + Value.Length + 128);
        text.Append(Name).Append('=').Append(Value);
        if (Expires is { } expires) text.Append(CultureInfo.InvariantCulture, $"; Expires={expires.UtcDateTime:R}");
        if (MaxAge is { } age) text.Append(CultureInfo.InvariantCulture, $"; Max-Age={Math.Max(0, (long)age.TotalSeconds)}");
        if (Domain is not null) text.Append("; Domain=").Append(Domain);
        text.Append("; Path=").Append(Path);
        if (IsSecure) text.Append("; Secure");
        if (IsHttpOnly) text.Append("; HttpOnly");
        text.Append("; SameSite=").Append(SameSite);
        if (IsPartitioned) text.Append("; Partitioned");
        return text.ToString();
    }

    private void CheckRules()
    {
        if (SameSite is < HttpSameSite.Lax or > HttpSameSite.None) throw Mistake("SameSite is Lax, Strict or None");
        if (!IsSecure && SameSite == HttpSameSite.None) throw Mistake("with SameSite.None it must be secure");
        if (!IsSecure && IsPartitioned) throw Mistake("one that is partitioned must be secure");
        // Browsers look at these whatever the case of their letters.
        bool isHost = Name.StartsWith("__Host-", StringComparison.OrdinalIgnoreCase);
        if ((isHost || Name.StartsWith("__Secure-", StringComparison.OrdinalIgnoreCase)) && !IsSecure) throw Mistake("a name with that beginning wants it secure");
        if (isHost && (Domain is not null || Path != "/")) throw Mistake("a name with that beginning wants the path / and no domain");
    }

    private static bool IsAttribute(string text)
    {
        foreach (char c in text)
        {
            if (c is <= ' ' or >= '\x7F' or ';') return false;
        }

        return text.Length is > 0 and <= MostAttributeBytes;
    }

    private static InvalidOperationException Mistake(string what) => new($"The cookie cannot be set: {what}.");
}
