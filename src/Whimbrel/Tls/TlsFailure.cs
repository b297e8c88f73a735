namespace Whimbrel;

/// <summary>What kind of failure ended a TLS handshake or connection.</summary>
public enum TlsFailure
{
    /// <summary>None: it did not fail because of TLS.</summary>
    None,

    /// <summary>What came is not TLS: plain HTTP, for example, or any other bytes.</summary>
    NotTls,

    /// <summary>The peer broke the protocol: a malformed, oversized or forged record, or a message out of order.</summary>
    BadRecord,

    /// <summary>The two sides have no version of the protocol in common.</summary>
    NoCommonVersion,

    /// <summary>The two sides have no cipher suite, group or signature scheme in common.</summary>
    NoCommonCipher,

    /// <summary>The two sides have no application protocol (ALPN) in common.</summary>
    NoCommonApplicationProtocol,

    /// <summary>The client asked for a name that the server does not serve.</summary>
    UnknownName,

    /// <summary>This side did not accept the peer's certificate, or the lack of one.</summary>
    CertificateRejected,

    /// <summary>The peer ended it with an alert: it did not accept our certificate, or anything else.</summary>
    RefusedByPeer,

    /// <summary>The handshake took longer than <see cref="TlsOptions.HandshakeTimeout"/>.</summary>
    TimedOut,

    /// <summary>More handshakes at a time than <see cref="TlsOptions.MaxHandshakes"/>, or the oldest of more silent connections than <see cref="TlsOptions.MaxSilent"/>.</summary>
    TooMany,

    /// <summary>The peer ended the connection in the middle of the handshake.</summary>
    PeerLeft,

    /// <summary>The peer's bytes ended without the proper end (close_notify): what it sent may not be all.</summary>
    Truncated,

    /// <summary>The peer changed keys, or sent other messages without content, more often than allowed.</summary>
    Flood,

    /// <summary>Bytes that came before an upgrade to TLS were left unread, and the upgrade refuses them.</summary>
    UnreadBeforeUpgrade,

    /// <summary>Something failed on this side: the certificate could not be used, or a callback threw.</summary>
    LocalFault,
}
