namespace Whimbrel;

/// <summary>What a server does with a client that asks for a name it does not know.</summary>
public enum TlsUnknownServerName
{
    /// <summary>It gets the options' own certificate. The default.</summary>
    UseDefault,

    /// <summary>Its handshake fails. So does that of a client which asks for no name, when there is no own certificate.</summary>
    Refuse,
}
