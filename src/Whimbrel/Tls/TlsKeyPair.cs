using System.Net.Security;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel.Tls;

/// <summary>A certificate with its private key and intermediates, as loaded at one moment. Never changes; layers keep what they prepared of it under this object.</summary>
internal sealed class TlsKeyPair(X509Certificate2 leaf, X509Certificate2Collection intermediates)
{
    private SslStreamCertificateContext? _forSslStream;
    private bool? _isSlow;

    internal X509Certificate2 Leaf { get; } = leaf;

    /// <summary>What is sent behind the leaf, in order.</summary>
    internal X509Certificate2Collection Intermediates { get; } = intermediates;

    /// <summary>Made once: with it the sessions that may be resumed would be lost. Nothing is downloaded.</summary>
    internal SslStreamCertificateContext ForSslStream
    {
        get
        {
            if (Volatile.Read(ref _forSslStream) is { } made) return made;
            SslStreamCertificateContext fresh = SslStreamCertificateContext.Create(Leaf, Intermediates, offline: true);
            return Interlocked.CompareExchange(ref _forSslStream, fresh, null) ?? fresh;
        }
    }

    /// <summary>One signature takes so long that a loop should not make it (RSA of 3072 bits and more).</summary>
    internal bool IsSlow
    {
        get
        {
            if (_isSlow is { } known) return known;
            using RSA? rsa = Leaf.GetRSAPublicKey();
            bool slow = rsa is { KeySize: >= 3072 };
            _isSlow = slow;
            return slow;
        }
    }
}
