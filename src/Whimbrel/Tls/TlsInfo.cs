using System.Net.Security;
using System.Security.Authentication;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel;

/// <summary>What a TLS handshake agreed on. A value that stays readable after the end of the connection.</summary>
public sealed class TlsInfo
{
    /// <summary>The version.</summary>
    public required SslProtocols Protocol { get; init; }

    /// <summary>The cipher suite.</summary>
    public required TlsCipherSuite CipherSuite { get; init; }

    /// <summary>The application protocol chosen by ALPN, for example <c>h2</c>; null when none was.</summary>
    public string? ApplicationProtocol { get; init; }

    /// <summary>The name that the client asked for (SNI); null when it named none.</summary>
    public string? ServerName { get; init; }

    /// <summary>The certificate of the peer, or null. On a resumed connection that of the first handshake.</summary>
    public X509Certificate2? PeerCertificate { get; init; }

    /// <summary>True when an earlier session was resumed, and no certificates were exchanged.</summary>
    public bool IsResumed { get; init; }

    /// <summary>Which layer serves the connection: Portable or OpenSsl.</summary>
    public required TlsProvider Provider { get; init; }

    /// <summary>For a log: version, suite, protocol, name.</summary>
    public override string ToString() =>
        $"{(Protocol == SslProtocols.Tls13 ? "TLS 1.3" : Protocol == SslProtocols.Tls12 ? "TLS 1.2" : Protocol.ToString())} {CipherSuite}"
        + (ApplicationProtocol is null ? "" : $" {ApplicationProtocol}") + (ServerName is null ? "" : $" for {ServerName}") + (IsResumed ? " (resumed)" : "");
}
