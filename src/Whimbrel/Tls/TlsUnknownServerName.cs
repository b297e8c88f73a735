namespace Whimbrel;

/// <summary>Behaviour of a server for an unknown server name.</summary>
public enum TlsUnknownServerName
{
    /// <summary>The client receives the options' own certificate. The default.</summary>
    UseDefault,

    /// <summary>
    /// The handshake fails. It also fails for a client without a name if the options have no certificate of their own.
    /// </summary>
    Refuse,
}
