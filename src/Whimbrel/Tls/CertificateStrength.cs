using System.Formats.Asn1;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel.Tls;

/// <summary>
/// Checks the strength of the certificates of a peer's chain, equally for every provider and system: OpenSSL's security
/// level 2, which is 112 bits. Keys of all certificates are checked, and signatures of all except the last, the trust
/// anchor, which is trusted on its own. Any thread.
/// </summary>
internal static class CertificateStrength
{
    private const int LeastRsaBits = 2048;
    private const int LeastAllowedRsaBits = 1024;
    private const int LeastCurveBits = 224;

    private const string Rsa = "1.2.840.113549.1.1.1";
    private const string RsaPss = "1.2.840.113549.1.1.10";
    private const string Curve = "1.2.840.10045.2.1";
    private const string Dsa = "1.2.840.10040.4.1";

    private enum Hash : byte
    {
        Unknown,
        Strong,
        Sha1,
        Md5,
    }

    /// <summary>Returns a sentence about what is too weak, or null.</summary>
    internal static string? ProblemOf(X509Chain chain, TlsWeakAlgorithms allowed)
    {
        X509ChainElementCollection elements = chain.ChainElements;
        for (int i = 0; i < elements.Count; i++)
        {
            X509Certificate2 certificate = elements[i].Certificate;
            string? problem = ProblemOfKey(certificate, allowed);
            // A chain without a trust anchor was rejected before, so only the anchor is exempt here.
            if (problem is null && i < elements.Count - 1) problem = ProblemOfSignature(certificate, allowed);
            if (problem is not null) return $"'{certificate.Subject}' {problem}";
        }

        return null;
    }

    /// <summary>Returns the weak algorithms that must be allowed to present this certificate.</summary>
    internal static TlsWeakAlgorithms WeaknessOf(X509Certificate2 certificate) =>
        (ProblemOfKey(certificate, TlsWeakAlgorithms.None) is null
            ? TlsWeakAlgorithms.None
            : TlsWeakAlgorithms.Rsa1024Key)
        | (ProblemOfSignature(certificate, TlsWeakAlgorithms.None) is null
            ? TlsWeakAlgorithms.None
            : TlsWeakAlgorithms.Sha1Signature);

    private static string? ProblemOfKey(X509Certificate2 certificate, TlsWeakAlgorithms allowed)
    {
        PublicKey key = certificate.PublicKey;
        switch (key.Oid.Value)
        {
            case Rsa or RsaPss:
                int bits = RsaBits(key.EncodedKeyValue.RawData);
                if (bits >= LeastRsaBits
                    || (bits >= LeastAllowedRsaBits && (allowed & TlsWeakAlgorithms.Rsa1024Key) != 0))
                    return null;
                string cure =
                    bits >= LeastAllowedRsaBits ? ", or allow it by TlsOptions.AllowedWeakAlgorithms = Rsa1024Key" : "";
                return $"has an RSA key of {bits} bits, and {LeastRsaBits} are the least: give it a new one{cure}";
            case Curve:
                int curve = CurveBits(key.EncodedKeyValue.RawData);
                return curve >= LeastCurveBits
                    ? null
                    : $"has a key on a curve of {curve} bits, and {LeastCurveBits} are the least: give it a new one";
            case Dsa:
                return "has a DSA key, which TLS of today does not use: give it an ECDSA or RSA key";
            default:
                return null;
        }
    }

    private static string? ProblemOfSignature(X509Certificate2 certificate, TlsWeakAlgorithms allowed)
    {
        switch (HashOf(certificate))
        {
            case Hash.Strong:
                return null;
            case Hash.Sha1:
                return (allowed & TlsWeakAlgorithms.Sha1Signature) != 0
                    ? null
                    : "is signed with SHA-1, which can be forged: have it signed again with SHA-256, or allow it by "
                        + "TlsOptions.AllowedWeakAlgorithms = Sha1Signature";
            case Hash.Md5:
                return "is signed with MD5, which any attacker can forge: have it signed again with SHA-256";
            default:
                return $"is signed in a way that is not known to be strong ({certificate.SignatureAlgorithm.Value}): "
                    + $"have it signed again with SHA-256";
        }
    }

    /// <summary>Returns the number of bits of the modulus, the first of the two numbers.</summary>
    private static int RsaBits(byte[] key)
    {
        try
        {
            return (int)new AsnReader(key, AsnEncodingRules.DER).ReadSequence().ReadInteger().GetBitLength();
        }
        catch (AsnContentException)
        {
            return 0;
        }
    }

    /// <summary>
    /// Returns the number of bits of a curve from a point: 4 and both coordinates, or 2 or 3 and one of them.
    /// </summary>
    private static int CurveBits(byte[] point) =>
        point is [4, ..] ? (point.Length - 1) / 2 * 8 : (point.Length - 1) * 8;

    private static Hash HashOf(X509Certificate2 certificate) => certificate.SignatureAlgorithm.Value switch
    {
        RsaPss => HashOfPss(certificate),
        // RSA and ECDSA with SHA-1; the two of the old arc are RSA and DSA.
        "1.2.840.113549.1.1.5" or "1.2.840.10045.4.1" or "1.2.840.10040.4.3" or "1.3.14.3.2.29" or "1.3.14.3.2.27" =>
            Hash.Sha1,
        "1.2.840.113549.1.1.2" or "1.2.840.113549.1.1.3" or "1.2.840.113549.1.1.4" => Hash.Md5,
        // RSA with SHA-2.
        "1.2.840.113549.1.1.11" or "1.2.840.113549.1.1.12" or "1.2.840.113549.1.1.13" or "1.2.840.113549.1.1.14"
        or "1.2.840.113549.1.1.15" or "1.2.840.113549.1.1.16" => Hash.Strong,
        // ECDSA with SHA-2; Ed25519 and Ed448, which include a hash.
        "1.2.840.10045.4.3.1" or "1.2.840.10045.4.3.2" or "1.2.840.10045.4.3.3" or "1.2.840.10045.4.3.4"
        or "1.3.101.112" or "1.3.101.113" => Hash.Strong,
        // NIST's arc for signatures: DSA, ECDSA and RSA with SHA-2 and SHA-3, ML-DSA, SLH-DSA.
        { } nist when nist.StartsWith("2.16.840.1.101.3.4.3.", StringComparison.Ordinal) => Hash.Strong,
        _ => Hash.Unknown,
    };

    /// <summary>
    /// Returns the hash of RSASSA-PSS from its parameters; without a value it is SHA-1 (RFC 4055, 3.1).
    /// </summary>
    private static Hash HashOfPss(X509Certificate2 certificate)
    {
        try
        {
            AsnReader whole = new AsnReader(certificate.RawDataMemory, AsnEncodingRules.DER).ReadSequence();
            whole.ReadEncodedValue();
            AsnReader algorithm = whole.ReadSequence();
            algorithm.ReadObjectIdentifier();
            AsnReader parameters = algorithm.ReadSequence();
            Asn1Tag hash = new(TagClass.ContextSpecific, 0, isConstructed: true);
            if (!parameters.HasData || parameters.PeekTag() != hash) return Hash.Sha1;
            return parameters.ReadSequence(hash).ReadSequence().ReadObjectIdentifier() switch
            {
                "1.3.14.3.2.26" => Hash.Sha1,
                { } name when name.StartsWith("2.16.840.1.101.3.4.2.", StringComparison.Ordinal) => Hash.Strong,
                _ => Hash.Unknown,
            };
        }
        catch (AsnContentException)
        {
            return Hash.Unknown;
        }
    }
}
