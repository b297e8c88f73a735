using System.Net.Security;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel.Tls;

/// <summary>
/// A certificate with its private key and intermediates, as loaded at one moment. Immutable; layers cache prepared data
/// by this object.
/// </summary>
internal sealed class TlsKeyPair(X509Certificate2 leaf, X509Certificate2Collection intermediates)
{
    private SslStreamCertificateContext? _forSslStream;
    private bool? _isSlow;

    internal X509Certificate2 Leaf { get; } = leaf;

    /// <summary>Certificates that are sent after the leaf, in order.</summary>
    internal X509Certificate2Collection Intermediates { get; } = intermediates;

    /// <summary>
    /// Context for SslStream. Created once, because a new one would lose the sessions that may be resumed. Downloads
    /// nothing.
    /// </summary>
    internal SslStreamCertificateContext ForSslStream
    {
        get
        {
            if (Volatile.Read(ref _forSslStream) is { } made) return made;
            SslStreamCertificateContext fresh = SslStreamCertificateContext.Create(Leaf, Intermediates, offline: true);
            return Interlocked.CompareExchange(ref _forSslStream, fresh, null) ?? fresh;
        }
    }

    /// <summary>
    /// True if one signature takes so long that it should not run on a loop (RSA of 3072 bits and more).
    /// </summary>
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
