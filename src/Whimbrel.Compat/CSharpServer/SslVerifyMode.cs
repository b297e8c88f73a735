namespace CSharpServer;

/// <summary>Verification of the peer's certificate.</summary>
public enum SslVerifyMode : sbyte
{
    /// <summary>The certificate is not verified.</summary>
    VerifyNone = 0,

    /// <summary>The chain must end at a trusted root. A server requests a certificate, and accepts clients without
    /// one.</summary>
    VerifyPeer = 1,

    /// <summary>As VerifyPeer, and a server rejects clients without a certificate.</summary>
    VerifyFailIfNoPeerCert = 2,

    /// <summary>Same as <see cref="VerifyFailIfNoPeerCert"/>.</summary>
    VerifyClientOnce = 3,
}
