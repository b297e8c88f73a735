using System.Buffers.Binary;
using System.Text;

namespace Whimbrel.Relays;

/// <summary>What a proxy says of the TLS that ended at it.</summary>
/// <param name="IsEncrypted">The client spoke TLS.</param>
/// <param name="HasCertificate">The client gave a certificate on this connection, or in this TLS session before.</param>
/// <param name="IsVerified">There was a certificate, and the proxy found it good.</param>
/// <param name="Version">"TLSv1.3"; null when the proxy does not say.</param>
/// <param name="CommonName">The common name of the client's certificate; null when the proxy does not say.</param>
/// <param name="Cipher">The cipher's name; null when the proxy does not say.</param>
public sealed record ProxyTls(bool IsEncrypted, bool HasCertificate, bool IsVerified, string? Version, string? CommonName, string? Cipher)
{
    internal const int HeadLength = 5;

    private const byte VersionType = 0x21, CommonNameType = 0x22, CipherType = 0x23, SignatureType = 0x24, KeyType = 0x25, CertificateType = 0x28;
    private const int Encrypted = 1, CertificateNow = 2, CertificateBefore = 4;

    /// <summary>Algorithm that the server's certificate was signed with ("SHA256"); null when the proxy does not say.</summary>
    public string? SignatureAlgorithm { get; init; }

    /// <summary>Algorithm and size of the server's key ("RSA2048"); null when the proxy does not say.</summary>
    public string? KeyAlgorithm { get; init; }

    /// <summary>The client's certificate, DER. Empty when the proxy does not say.</summary>
    public ReadOnlyMemory<byte> Certificate { get; init; }

    internal static ProxyTls Read(ReadOnlyMemory<byte> memory)
    {
        ReadOnlySpan<byte> value = memory.Span;
        string? version = null, commonName = null, cipher = null, signature = null, key = null;
        ReadOnlyMemory<byte> certificate = default;
        int flags = value[0];
        bool isVerified = BinaryPrimitives.ReadUInt32BigEndian(value[1..]) == 0;
        for (ReadOnlySpan<byte> rest = value[HeadLength..]; Extensions.Next(ref rest, out byte type, out ReadOnlySpan<byte> part);)
        {
            if (type == VersionType) version = Encoding.UTF8.GetString(part);
            else if (type == CommonNameType) commonName = Encoding.UTF8.GetString(part);
            else if (type == CipherType) cipher = Encoding.UTF8.GetString(part);
            else if (type == SignatureType) signature = Encoding.UTF8.GetString(part);
            else if (type == KeyType) key = Encoding.UTF8.GetString(part);
            else if (type == CertificateType) certificate = memory[^(rest.Length + part.Length)..^rest.Length];
        }

        bool hasCertificate = (flags & (CertificateNow | CertificateBefore)) != 0;
        return new ProxyTls((flags & Encrypted) != 0, hasCertificate, hasCertificate && isVerified, version, commonName, cipher)
        {
            SignatureAlgorithm = signature,
            KeyAlgorithm = key,
            Certificate = certificate,
        };
    }
}
