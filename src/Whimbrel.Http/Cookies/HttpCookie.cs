using System.Globalization;
using System.Text;
using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

/// <summary>
/// Cookie for a browser: <see cref="HttpResponse.SetCookie"/>. A cookie that browsers would reject, or that would form
/// another cookie or field, throws when it is set.
/// </summary>
public sealed class HttpCookie
{
    private const int MostBytes = 4096;          // of name and value together: browsers reject more
    private const int MostAttributeBytes = 1024; // the same

    /// <summary>Creates a session cookie for all paths of this host, invisible to scripts.</summary>
    /// <param name="name">A token. With the prefixes <c>__Secure-</c> and <c>__Host-</c> browsers enforce the matching
    /// attributes.</param>
    /// <param name="value">Visible ASCII without spaces, <c>"</c>, <c>,</c>, <c>;</c> and <c>\</c>: encode other
    /// characters, for instance by <see cref="Uri.EscapeDataString(string)"/>.</param>
    public HttpCookie(string name, string value)
    {
        ArgumentNullException.ThrowIfNull(name);
        ArgumentNullException.ThrowIfNull(value);
        Name = name;
        Value = value;
    }

    /// <summary>Name.</summary>
    public string Name { get; }

    /// <summary>Value.</summary>
    public string Value { get; }

    /// <summary>End of its lifetime, by the browser's clock. Default null: the end of the browser session.
    /// <see cref="MaxAge"/> has priority.</summary>
    public DateTimeOffset? Expires { get; init; }

    /// <summary>Lifetime in whole seconds; zero and less removes the cookie. Default null.</summary>
    public TimeSpan? MaxAge { get; init; }

    /// <summary>Host that receives the cookie with all its sub-domains. Default null: this host alone.</summary>
    public string? Domain { get; init; }

    /// <summary>Path prefix of requests with the cookie. Default <c>/</c>.</summary>
    public string Path { get; init; } = "/";

    /// <summary>Whether the cookie is sent over TLS only. Default false.</summary>
    public bool IsSecure { get; init; }

    /// <summary>Whether the cookie is hidden from scripts. Default true.</summary>
    public bool IsHttpOnly { get; init; } = true;

    /// <summary>Whether the cookie is sent with requests of other sites. Default
    /// <see cref="HttpSameSite.Lax"/>.</summary>
    public HttpSameSite SameSite { get; init; }

    /// <summary>Whether the cookie is stored separately per top-level site. Only with <see cref="IsSecure"/>. Default
    /// false.</summary>
    public bool IsPartitioned { get; init; }

    /// <summary>Returns the value of Set-Cookie. Throws with the first error.</summary>
    internal string Format()
    {
        if (!HttpBytes.IsToken(Name)) throw Mistake("its name is no token");
        foreach (char c in Value)
        {
            if (c is <= ' ' or >= '\x7F' or '"' or ',' or ';' or '\\')
                throw Mistake("its value has a space, a control, one of \",;\\ or a letter that is not ASCII: encode "
                    + "it, for instance by percent signs");
        }

        if (Name.Length + Value.Length > MostBytes)
            throw Mistake("name and value are more than 4,096 bytes, which browsers drop");
        if (!Path.StartsWith('/') || !IsAttribute(Path))
            throw Mistake("a path begins with / and is visible ASCII without a semicolon");
        if (Domain is not null && (!IsAttribute(Domain) || Domain.Contains(':', StringComparison.Ordinal)
            || !HttpBytes.IsAuthority(Encoding.ASCII.GetBytes(Domain))))
            throw Mistake("a domain is the name of a host");
        CheckRules();

        StringBuilder text = new(Name.Length + Value.Length + 128);
        text.Append(Name).Append('=').Append(Value);
        if (Expires is { } expires) text.Append(CultureInfo.InvariantCulture, $"; Expires={expires.UtcDateTime:R}");
        if (MaxAge is { } age)
            text.Append(CultureInfo.InvariantCulture, $"; Max-Age={Math.Max(0, (long)age.TotalSeconds)}");
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
        // Browsers compare these prefixes case-insensitively.
        bool isHost = Name.StartsWith("__Host-", StringComparison.OrdinalIgnoreCase);
        if ((isHost || Name.StartsWith("__Secure-", StringComparison.OrdinalIgnoreCase)) && !IsSecure)
            throw Mistake("a name with that beginning wants it secure");
        if (isHost && (Domain is not null || Path != "/"))
            throw Mistake("a name with that beginning wants the path / and no domain");
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
