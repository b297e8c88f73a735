namespace Whimbrel.Http;

/// <summary>Whether a browser sends a cookie with cross-site requests.</summary>
public enum HttpSameSite
{
    /// <summary>Only when the user follows a link to this site. The default of browsers.</summary>
    Lax,

    /// <summary>Never.</summary>
    Strict,

    /// <summary>Always; only for cookies that are <see cref="HttpCookie.IsSecure"/>.</summary>
    None,
}
