namespace Whimbrel;

/// <summary>What an upgrade to TLS does with bytes that were received in the clear and not taken.</summary>
public enum UnreadBytes
{
    /// <summary>It ends the connection: somebody on the way may have put them there, to be taken for encrypted ones. The default.</summary>
    Refuse,

    /// <summary>They are the beginning of the peer's handshake: for protocols in which it may begin without waiting for an answer.</summary>
    PassToTls,
}
