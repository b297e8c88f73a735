namespace Whimbrel;

/// <summary>Which layer does TLS. The same words are taken by the variable WHIMBREL_TLS, which wins over <see cref="TlsOptions.Provider"/>.</summary>
public enum TlsProvider
{
    /// <summary><see cref="OpenSsl"/> where it can be used, else <see cref="Portable"/>. <see cref="TlsInfo.Provider"/> says which it was.</summary>
    Auto,

    /// <summary>The TLS of .NET (SslStream). Works everywhere.</summary>
    Portable,

    /// <summary>OpenSSL 3, called directly. Linux.</summary>
    OpenSsl,
}
