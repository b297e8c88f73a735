namespace Whimbrel;

/// <summary>Treatment of unread plain bytes by an upgrade to TLS.</summary>
public enum UnreadBytes
{
    /// <summary>
    /// The connection ends, because an attacker may have inserted the bytes so that they appear to be encrypted ones.
    /// The default.
    /// </summary>
    Refuse,

    /// <summary>
    /// The bytes are the beginning of the peer's handshake: for protocols in which the peer may begin without waiting
    /// for an answer.
    /// </summary>
    PassToTls,
}
