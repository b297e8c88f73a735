using System.Buffers.Binary;
using System.Text;

namespace Whimbrel.Relays;

/// <summary>
/// TLS between client and proxy, as the proxy reported it. Text properties are null if the header has no such field.
/// </summary>
/// <param name="IsEncrypted">Whether the client used TLS.</param>
/// <param name="HasCertificate">
/// Whether the client sent a certificate on this connection, or earlier in this TLS session.
/// </param>
/// <param name="IsVerified">Whether there was a certificate and the proxy verified it.</param>
/// <param name="Version">TLS version, for example "TLSv1.3".</param>
/// <param name="CommonName">Common name of the client's certificate.</param>
/// <param name="Cipher">Name of the cipher.</param>
public sealed record ProxyTls(bool IsEncrypted, bool HasCertificate, bool IsVerified, string? Version,
    string? CommonName, string? Cipher)
{
    internal const int HeadLength = 5;

    private const byte VersionType = 0x21, CommonNameType = 0x22, CipherType = 0x23, SignatureType = 0x24,
        KeyType = 0x25, CertificateType = 0x28;
    private const int Encrypted = 1, CertificateNow = 2, CertificateBefore = 4;

    /// <summary>Signature algorithm of the server's certificate, for example "SHA256".</summary>
    public string? SignatureAlgorithm { get; init; }

    /// <summary>Algorithm and size of the server's key, for example "RSA2048".</summary>
    public string? KeyAlgorithm { get; init; }

    /// <summary>The client's certificate, DER. Empty if the header has no such field.</summary>
    public ReadOnlyMemory<byte> Certificate { get; init; }

    internal static ProxyTls Read(ReadOnlyMemory<byte> memory)
    {
        ReadOnlySpan<byte> value = memory.Span;
        string? version = null, commonName = null, cipher = null, signature = null, key = null;
        ReadOnlyMemory<byte> certificate = default;
        int flags = value[0];
        bool isVerified = BinaryPrimitives.ReadUInt32BigEndian(value[1..]) == 0;
        for (ReadOnlySpan<byte> rest = value[HeadLength..];
            Extensions.Next(ref rest, out byte type, out ReadOnlySpan<byte> part);)
        {
            if (type == VersionType) version = Encoding.UTF8.GetString(part);
            else if (type == CommonNameType) commonName = Encoding.UTF8.GetString(part);
            else if (type == CipherType) cipher = Encoding.UTF8.GetString(part);
            else if (type == SignatureType) signature = Encoding.UTF8.GetString(part);
            else if (type == KeyType) key = Encoding.UTF8.GetString(part);
            else if (type == CertificateType) certificate = memory[^(rest.Length + part.Length)..^rest.Length];
        }

        bool hasCertificate = (flags & (CertificateNow | CertificateBefore)) != 0;
        return new ProxyTls((flags & Encrypted) != 0, hasCertificate, hasCertificate && isVerified, version,
            commonName, cipher)
        {
            SignatureAlgorithm = signature,
            KeyAlgorithm = key,
            Certificate = certificate,
        };
    }
}
