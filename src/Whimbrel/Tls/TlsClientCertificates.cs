namespace Whimbrel;

/// <summary>Whether a server asks its clients for certificates (mutual TLS).</summary>
public enum TlsClientCertificates
{
    /// <summary>No certificate is requested. The default.</summary>
    Off,

    /// <summary>
    /// A certificate is requested. Clients without one are accepted, clients with an invalid one are rejected.
    /// </summary>
    Requested,

    /// <summary>Only clients with a valid certificate are accepted.</summary>
    Required,
}
