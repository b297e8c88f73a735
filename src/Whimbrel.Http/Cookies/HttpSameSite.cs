namespace Whimbrel.Http;

/// <summary>Whether a browser sends a cookie with requests that other sites begin.</summary>
public enum HttpSameSite
{
    /// <summary>Only when the user follows a link to here. Browsers' own default.</summary>
    Lax,

    /// <summary>Never.</summary>
    Strict,

    /// <summary>Always; only for cookies that are <see cref="HttpCookie.IsSecure"/>.</summary>
    None,
}
