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

    private const byte VersionType = 0x21, CommonNameType = 0x22, CipherType = 0x23;
    private const int Encrypted = 1, CertificateNow = 2, CertificateBefore = 4;

    internal static ProxyTls Read(ReadOnlySpan<byte> value)
    {
        string? version = null, commonName = null, cipher = null;
        int flags = value[0];
        bool isVerified = BinaryPrimitives.ReadUInt32BigEndian(value[1..]) == 0;
        for (ReadOnlySpan<byte> rest = value[HeadLength..]; Extensions.Next(ref rest, out byte type, out ReadOnlySpan<byte> part);)
        {
            if (type == VersionType) version = Encoding.UTF8.GetString(part);
            else if (type == CommonNameType) commonName = Encoding.UTF8.GetString(part);
            else if (type == CipherType) cipher = Encoding.UTF8.GetString(part);
        }

        bool hasCertificate = (flags & (CertificateNow | CertificateBefore)) != 0;
        return new ProxyTls((flags & Encrypted) != 0, hasCertificate, hasCertificate && isVerified, version, commonName, cipher);
    }
}
