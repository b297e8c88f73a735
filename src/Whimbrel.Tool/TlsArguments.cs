using System.Net;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel.Tool;

/// <summary>What the command line says about TLS, as options of the library. Files are read by these methods; what they throw is about a file.</summary>
/// <param name="CertificateFile">PEM, or null.</param>
/// <param name="KeyFile">PEM; null when the key is in the other file.</param>
/// <param name="PfxFile">Both in one, or null.</param>
/// <param name="Password">Of the key, or null.</param>
/// <param name="AuthorityFile">
/// Trusted authorities for the peer's certificate: PEM, or null for those of the system.
/// </param>
/// <param name="Pin">The peer's certificate by its fingerprint, or its key by its hash, or null.</param>
/// <param name="ServerName">The name that the server must have, or null for the host that is dialled.</param>
/// <param name="Protocols">Application protocols, the dearest first.</param>
internal sealed record TlsArguments(string? CertificateFile, string? KeyFile, string? PfxFile, string? Password, string? AuthorityFile, string? Pin, string? ServerName, IReadOnlyList<string> Protocols)
{
    private const int HashBytes = 32;

    /// <summary>For a server. Without a file it gets a certificate of its own, which is given as <paramref name="own"/> and lives as long as the process.</summary>
    internal TlsOptions ToServerOptions(NetworkAddress address, out X509Certificate2? own)
    {
        own = CertificateFile is null && PfxFile is null ? DevelopmentCertificate(address) : null;
        return new TlsOptions
        {
            Certificate = own is not null ? TlsCertificate.From(own) : ReadCertificate(),
            ClientCertificates = AuthorityFile is null ? TlsClientCertificates.Off : TlsClientCertificates.Required,
            Roots = ReadAuthorities(),
            ApplicationProtocols = Protocols,
        };
    }

    /// <summary>For a client.</summary>
    internal TlsOptions ToClientOptions()
    {
        byte[]? fingerprint = Pin is null ? null : FingerprintIn(Pin);
        return new TlsOptions
        {
            Certificate = ReadCertificate(),
            Roots = ReadAuthorities(),
            HostName = ServerName,
            PinnedKeys = Pin is null || fingerprint is not null ? [] : [Pin],
            // The fingerprint is of this one certificate, so chain and dates say nothing more.
            Verify = fingerprint is null ? null : seen => seen.Certificate is { } shown && CryptographicOperations.FixedTimeEquals(SHA256.HashData(shown.RawData), fingerprint),
            ApplicationProtocols = Protocols,
        };
    }

    /// <summary>Whether the text is a pin: SHA-256, of a certificate in hexadecimal or of its public key in base64.</summary>
    internal static bool IsPin(string text)
    {
        Span<byte> hash = stackalloc byte[HashBytes + 1];
        return FingerprintIn(text) is not null || (Convert.TryFromBase64String(text, hash, out int count) && count == HashBytes);
    }

    private static byte[]? FingerprintIn(string text)
    {
        string digits = text.Replace(":", "", StringComparison.Ordinal);
        return digits.Length == 2 * HashBytes && digits.All(char.IsAsciiHexDigit) ? Convert.FromHexString(digits) : null;
    }

    private TlsCertificate? ReadCertificate() =>
        PfxFile is not null ? TlsCertificate.FromPfxFile(PfxFile, Password) : CertificateFile is not null ? TlsCertificate.FromPemFile(CertificateFile, KeyFile, Password) : null;

    private X509Certificate2Collection? ReadAuthorities()
    {
        if (AuthorityFile is null) return null;
        X509Certificate2Collection found = [];
        found.ImportFromPemFile(AuthorityFile);
        return found.Count > 0 ? found : throw new CryptographicException($"There is no certificate in {AuthorityFile}.");
    }

    /// <summary>
    /// Creates a certificate for this machine's names and the listening address. Its authority is discarded at once, so
    /// that it signs nothing else.
    /// </summary>
    private static X509Certificate2 DevelopmentCertificate(NetworkAddress address)
    {
        DateTimeOffset now = DateTimeOffset.UtcNow;
        List<SubjectName> names = [.. SubjectName.OfThisMachine];
        if (!address.IsWildcard && IPAddress.TryParse(address.Host, out _) && SubjectName.Read(address.Host, out _) is { } place && !names.Contains(place)) names.Add(place);
        using CertificateAuthority authority = CertificateAuthority.Create("whimbrel serve --tls", 0, now, TimeSpan.FromDays(CertsSettings.DefaultDays));
        using X509Certificate2 made = authority.Issue(names[0].Text, CertificateUse.Server, names, 0, now, now.AddDays(CertsSettings.DefaultDays));
        // Through a bundle: on some systems the key of a certificate made in memory cannot be used for TLS.
        return X509CertificateLoader.LoadPkcs12(made.Export(X509ContentType.Pkcs12), null);
    }
}
