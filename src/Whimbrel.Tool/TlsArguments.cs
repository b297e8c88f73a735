using System.Net;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel.Tool;

/// <summary>Converts the TLS arguments to options of the library. These methods read files; their exceptions are about
/// files.</summary>
/// <param name="CertificateFile">PEM file with the certificate, or null.</param>
/// <param name="KeyFile">PEM file with the key; null if it is in the certificate's file.</param>
/// <param name="PfxFile">PFX file with certificate and key, or null.</param>
/// <param name="Password">Password of the key, or null.</param>
/// <param name="AuthorityFile">
/// Trusted authorities for the peer's certificate: PEM, or null for those of the system.
/// </param>
/// <param name="Pin">Fingerprint of the peer's certificate, or hash of its key, or null.</param>
/// <param name="ServerName">Required name of the server, or null for the host of the address.</param>
/// <param name="Protocols">Application protocols in order of preference.</param>
internal sealed record TlsArguments(string? CertificateFile, string? KeyFile, string? PfxFile, string? Password,
    string? AuthorityFile, string? Pin, string? ServerName, IReadOnlyList<string> Protocols)
{
    private const int HashBytes = 32;

    /// <summary>Returns options for a server. Without a file, a temporary certificate is created and returned as
    /// <paramref name="own"/>.</summary>
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

    /// <summary>Returns options for a client.</summary>
    internal TlsOptions ToClientOptions()
    {
        byte[]? fingerprint = Pin is null ? null : FingerprintIn(Pin);
        return new TlsOptions
        {
            Certificate = ReadCertificate(),
            Roots = ReadAuthorities(),
            HostName = ServerName,
            PinnedKeys = Pin is null || fingerprint is not null ? [] : [Pin],
            // The fingerprint identifies this certificate, so chain and dates are not checked.
            Verify = fingerprint is null ? null : seen => seen.Certificate is { } shown
                && CryptographicOperations.FixedTimeEquals(SHA256.HashData(shown.RawData), fingerprint),
            ApplicationProtocols = Protocols,
        };
    }

    /// <summary>Checks whether text is a pin: SHA-256 of a certificate in hexadecimal, or of its public key in
    /// base64.</summary>
    internal static bool IsPin(string text)
    {
        Span<byte> hash = stackalloc byte[HashBytes + 1];
        return FingerprintIn(text) is not null
            || (Convert.TryFromBase64String(text, hash, out int count) && count == HashBytes);
    }

    private static byte[]? FingerprintIn(string text)
    {
        string digits = text.Replace(":", "", StringComparison.Ordinal);
        return digits.Length == 2 * HashBytes && digits.All(char.IsAsciiHexDigit)
            ? Convert.FromHexString(digits)
            : null;
    }

    private TlsCertificate? ReadCertificate() =>
        PfxFile is not null ? TlsCertificate.FromPfxFile(PfxFile, Password)
            : CertificateFile is not null ? TlsCertificate.FromPemFile(CertificateFile, KeyFile, Password) : null;

    private X509Certificate2Collection? ReadAuthorities()
    {
        if (AuthorityFile is null) return null;
        X509Certificate2Collection found = [];
        found.ImportFromPemFile(AuthorityFile);
        return found.Count > 0
            ? found
            : throw new CryptographicException($"There is no certificate in {AuthorityFile}.");
    }

    /// <summary>
    /// Creates a certificate for this machine's names and the listening address. Its authority is discarded at once, so
    /// that it signs nothing else.
    /// </summary>
    private static X509Certificate2 DevelopmentCertificate(NetworkAddress address)
    {
        DateTimeOffset now = DateTimeOffset.UtcNow;
        List<SubjectName> names = [.. SubjectName.OfThisMachine];
        if (!address.IsWildcard && IPAddress.TryParse(address.Host, out _)
            && SubjectName.Read(address.Host, out _) is { } place && !names.Contains(place))
            names.Add(place);
        using CertificateAuthority authority = CertificateAuthority.Create("whimbrel serve --tls", 0, now,
            TimeSpan.FromDays(CertsSettings.DefaultDays));
        using X509Certificate2 made = authority.Issue(names[0].Text, CertificateUse.Server, names, 0, now,
            now.AddDays(CertsSettings.DefaultDays));
        // Through PFX, because on some systems the key of a certificate created in memory cannot be used for TLS.
        return X509CertificateLoader.LoadPkcs12(made.Export(X509ContentType.Pkcs12), null);
    }
}
