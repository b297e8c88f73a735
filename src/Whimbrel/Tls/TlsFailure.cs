namespace Whimbrel;

/// <summary>Kind of failure that ended a TLS handshake or connection.</summary>
public enum TlsFailure
{
    /// <summary>No TLS failure.</summary>
    None,

    /// <summary>The received data is not TLS, but for example plain HTTP.</summary>
    NotTls,

    /// <summary>
    /// The peer violated the protocol: a malformed, oversized or forged record, or a message out of order.
    /// </summary>
    BadRecord,

    /// <summary>The two sides have no version of the protocol in common.</summary>
    NoCommonVersion,

    /// <summary>The two sides have no cipher suite, group or signature scheme in common.</summary>
    NoCommonCipher,

    /// <summary>The two sides have no application protocol (ALPN) in common.</summary>
    NoCommonApplicationProtocol,

    /// <summary>The client requested a name that the server does not serve.</summary>
    UnknownName,

    /// <summary>This side rejected the peer's certificate, or the lack of one.</summary>
    CertificateRejected,

    /// <summary>
    /// The peer ended the handshake with an alert: it rejected this side's certificate, or something else.
    /// </summary>
    RefusedByPeer,

    /// <summary>The handshake took longer than <see cref="TlsOptions.HandshakeTimeout"/>.</summary>
    TimedOut,

    /// <summary>
    /// More concurrent handshakes than <see cref="TlsOptions.MaxHandshakes"/>; or the oldest connection when more than
    /// <see cref="TlsOptions.MaxSilent"/> were silent.
    /// </summary>
    TooMany,

    /// <summary>The peer ended the connection during the handshake.</summary>
    PeerLeft,

    /// <summary>The peer's data ended without close_notify, so it may be incomplete.</summary>
    Truncated,

    /// <summary>The peer changed keys, or sent other messages without content, more often than allowed.</summary>
    Flood,

    /// <summary>Data received before an upgrade to TLS was left unread, and the upgrade rejects it.</summary>
    UnreadBeforeUpgrade,

    /// <summary>A failure on this side: the certificate could not be used, or a callback threw.</summary>
    LocalFault,

    /// <summary>
    /// No failure: an ACME authority validated a server name (<see cref="TlsOptions.ChallengeCertificate"/>), and the
    /// connection carries nothing else.
    /// </summary>
    Validated,
}
