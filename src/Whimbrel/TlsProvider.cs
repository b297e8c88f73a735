namespace Whimbrel;

/// <summary>Which layer does TLS. The same words are taken by the variable WHIMBREL_TLS, which wins over <see cref="TlsOptions.Provider"/>.</summary>
public enum TlsProvider
{
    /// <summary>The best one that works here and can do everything that the options ask for.</summary>
    Auto,

    /// <summary>The TLS of .NET (SslStream). Works everywhere.</summary>
    Portable,

    /// <summary>OpenSSL 3, called directly. Linux.</summary>
    OpenSsl,
}
