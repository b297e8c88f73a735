using System.Net.Security;
using System.Security.Authentication;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel;

/// <summary>Result of a TLS handshake. An immutable object, valid also after the end of the connection.</summary>
public sealed class TlsInfo
{
    /// <summary>Protocol version.</summary>
    public required SslProtocols Protocol { get; init; }

    /// <summary>Cipher suite.</summary>
    public required TlsCipherSuite CipherSuite { get; init; }

    /// <summary>Application protocol selected by ALPN, for example <c>h2</c>; null if none.</summary>
    public string? ApplicationProtocol { get; init; }

    /// <summary>Server name requested by the client (SNI); null if none.</summary>
    public string? ServerName { get; init; }

    /// <summary>
    /// Certificate of the peer, or null. On a resumed connection, the certificate of the first handshake.
    /// </summary>
    public X509Certificate2? PeerCertificate { get; init; }

    /// <summary>
    /// True if an earlier session was resumed, without an exchange of certificates. Always false with the provider
    /// Portable, because SslStream does not report it.
    /// </summary>
    public bool IsResumed { get; init; }

    /// <summary>Provider of the connection: Portable or OpenSsl.</summary>
    public required TlsProvider Provider { get; init; }

    /// <summary>Returns version, suite, protocol and name, for logs.</summary>
    public override string ToString() =>
        Protocol switch
        {
            SslProtocols.Tls13 => "TLS 1.3",
            SslProtocols.Tls12 => "TLS 1.2",
            _ => Protocol.ToString(),
        }
        + $" {CipherSuite}"
        + (ApplicationProtocol is null ? "" : $" {ApplicationProtocol}")
        + (ServerName is null ? "" : $" for {ServerName}") + (IsResumed ? " (resumed)" : "");
}
