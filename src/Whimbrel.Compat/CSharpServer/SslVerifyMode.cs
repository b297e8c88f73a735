namespace CSharpServer;

/// <summary>How the peer's certificate is looked at. Values may be joined.</summary>
public enum SslVerifyMode : sbyte
{
    /// <summary>Not at all.</summary>
    VerifyNone = 0,

    /// <summary>It must be of a chain to a known root. A server asks for one and takes clients without.</summary>
    VerifyPeer = 1,

    /// <summary>The same, and a server takes no client without.</summary>
    VerifyFailIfNoPeerCert = 2,

    /// <summary>The same as the one before.</summary>
    VerifyClientOnce = 3,
}
