namespace Whimbrel;

/// <summary>
/// TLS implementation. The environment variable WHIMBREL_TLS takes the same words, and has precedence over
/// <see cref="TlsOptions.Provider"/>.
/// </summary>
public enum TlsProvider
{
    /// <summary>
    /// <see cref="OpenSsl"/> where it can be used, otherwise <see cref="Portable"/>. <see cref="TlsInfo.Provider"/> has
    /// the result.
    /// </summary>
    Auto,

    /// <summary>The TLS of .NET (SslStream). Works everywhere.</summary>
    Portable,

    /// <summary>OpenSSL 3, called directly. Linux.</summary>
    OpenSsl,
}
