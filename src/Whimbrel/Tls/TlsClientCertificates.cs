namespace Whimbrel;

/// <summary>Whether a server asks its clients for certificates (mutual TLS).</summary>
public enum TlsClientCertificates
{
    /// <summary>They are not asked. The default.</summary>
    Off,

    /// <summary>They are asked; who has none is let in, who has a bad one is not.</summary>
    Requested,

    /// <summary>Only clients with a good certificate are let in.</summary>
    Required,
}
