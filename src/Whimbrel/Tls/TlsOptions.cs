using System.Net.Security;
using System.Security.Authentication;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using Whimbrel.Tls;

namespace Whimbrel;

/// <summary>
/// TLS options for a server (<see cref="ServerOptions.Tls"/>), a client (<see cref="ClientOptions.Tls"/>) or one
/// connection (<c>Session.UpgradeToTls</c>). Plain data, checked once, at start; one object may be shared. Secure by
/// default: a client verifies chain and host name, versions are 1.2 and 1.3, cipher suites follow the system's policy,
/// and nothing is downloaded.
/// </summary>
public sealed class TlsOptions
{
    /// <summary>The versions 1.2 and 1.3.</summary>
    private const SslProtocols Known = SslProtocols.Tls12 | SslProtocols.Tls13;

    private IReadOnlyList<string> _applicationProtocols = [];

    // ------------------------------------------------------------------ own identity

    /// <summary>
    /// Certificate that this side presents to the peer. A server needs one here, in each of <see cref="Names"/>, or
    /// from <see cref="SelectCertificate"/>; a client presents it on request. Default null: none.
    /// </summary>
    public TlsCertificate? Certificate { get; init; }

    /// <summary>
    /// For servers: options by requested server name (SNI). A key is a full name, <c>chat.example.org</c>, or a
    /// wildcard for one label, <c>*.example.org</c>; a full name has precedence. Of these options, only those for
    /// certificates, versions, cipher suites and application protocols are used. Case-insensitive. At most 10,000.
    /// </summary>
    public IReadOnlyDictionary<string, TlsOptions> Names { get; init; } = new Dictionary<string, TlsOptions>();

    /// <summary>
    /// For servers: behaviour for a name that is not in <see cref="Names"/>, if there are any. Default
    /// <see cref="TlsUnknownServerName.UseDefault"/>.
    /// </summary>
    public TlsUnknownServerName UnknownName { get; init; }

    /// <summary>
    /// For servers: function that returns the certificate for the requested server name (null: no name). Called before
    /// <see cref="Certificate"/> is used, which is the fallback if it returns null. Runs on the connection's loop and
    /// must not block, so load certificates beforehand. An exception fails that handshake. Return the same object for
    /// the same certificate, because prepared data is cached in it.
    /// </summary>
    public Func<string?, TlsCertificate?>? SelectCertificate { get; init; }

    /// <summary>
    /// For servers: function that returns the certificate for a TLS-ALPN-01 validation of this server name (RFC 8737),
    /// as <c>AcmeCertificate</c> of package Whimbrel.Acme does. Called on the thread pool, before any other option is
    /// used, for a client with <c>acme-tls/1</c> as its only application protocol. Null or an exception rejects the
    /// handshake. After the handshake the connection is closed, and no session is connected:
    /// <see cref="TlsFailure.Validated"/>. Default null: such clients are treated like others.
    /// </summary>
    public Func<string, ValueTask<TlsCertificate?>>? ChallengeCertificate { get; init; }

    // ------------------------------------------------------------------ trust

    /// <summary>
    /// For servers: whether clients are asked for a certificate. Default <see cref="TlsClientCertificates.Off"/>.
    /// </summary>
    public TlsClientCertificates ClientCertificates { get; init; }

    /// <summary>
    /// For clients: name that is requested (SNI) and that the server's certificate must cover. Default null: the host
    /// of the address. Required if the address has no host name, as with Unix paths.
    /// </summary>
    public string? HostName { get; init; }

    /// <summary>
    /// For clients: whether the certificate must cover the requested name. Default true. If false, the owner of any
    /// certificate of a trusted root can intercept the connection. For peers that are found by address and have their
    /// own names.
    /// </summary>
    public bool ChecksHostName { get; init; } = true;

    /// <summary>
    /// Root certificates that a peer's certificate must lead to, instead of the system's. Default null: those of the
    /// system.
    /// </summary>
    public X509Certificate2Collection? Roots { get; init; }

    /// <summary>
    /// Root certificates that a peer's certificate may lead to, in addition to the system's. Default null: none. Not
    /// together with <see cref="Roots"/>.
    /// </summary>
    public X509Certificate2Collection? ExtraRoots { get; init; }

    /// <summary>
    /// Allowed public keys of the peer's certificate: SHA-256 of the public key (SubjectPublicKeyInfo) in base64, as
    /// returned by <see cref="TlsCertificate.PinOf"/>. If there are any, only the key is checked: not the chain, the
    /// name or the dates.
    /// </summary>
    public IReadOnlyList<string> PinnedKeys { get; init; } = [];

    /// <summary>
    /// Files with revocation lists (CRL; PEM with any number of them, or DER). A peer is rejected if a certificate of
    /// its chain is on a list of that certificate's issuer. Without a list of an issuer, none of its certificates is
    /// treated as revoked. Read at start; files with anything but complete lists are rejected, also delta lists. The
    /// library never downloads lists.
    /// </summary>
    public IReadOnlyList<string> RevocationLists { get; init; } = [];

    /// <summary>
    /// Weak algorithms that are accepted nevertheless, for old devices. The standard is OpenSSL's security level 2, for
    /// every provider and every certificate of a peer's chain. It requires RSA from 2,048 bits and curves from 224, and
    /// allows no DSA, and no SHA-1 or MD5 signatures below the trusted root. Also allows this side to present such a
    /// certificate. Default <see cref="TlsWeakAlgorithms.None"/>.
    /// </summary>
    public TlsWeakAlgorithms AllowedWeakAlgorithms { get; init; }

    /// <summary>
    /// Function that makes the final decision about a peer's certificate, valid or not, and about a missing one if a
    /// client was asked for it. It receives the findings and returns whether to accept. Called on pool threads, never
    /// on a loop, several at the same time. It may block, while <see cref="HandshakeTimeout"/> runs. An exception
    /// rejects the peer. Default null: a certificate with a problem is rejected.
    /// </summary>
    public Func<TlsVerification, bool>? Verify { get; init; }

    // ------------------------------------------------------------------ protocol

    /// <summary>
    /// Allowed versions. Default <see cref="SslProtocols.None"/>: 1.2 and 1.3; older ones are rejected at start.
    /// </summary>
    public SslProtocols Protocols { get; init; }

    /// <summary>Cipher suites, in order. Default empty: the system's policy.</summary>
    public IReadOnlyList<TlsCipherSuite> CipherSuites { get; init; } = [];

    /// <summary>
    /// Application protocols (ALPN) in order of preference, for example <c>h2</c>, <c>http/1.1</c>. A server selects by
    /// its own order. A peer without ALPN is accepted. Default empty: not negotiated. Each 1 to 255 bytes of UTF-8.
    /// </summary>
    public IReadOnlyList<string> ApplicationProtocols
    {
        get => _applicationProtocols;
        init => _applicationProtocols = value;
    }

    /// <summary>
    /// Whether sessions may be resumed, which saves most of the cost of a handshake. Default true. Certificates are
    /// checked again: a session of one server name cannot be resumed for another.
    /// </summary>
    public bool AllowResumption { get; init; } = true;

    /// <summary>
    /// For servers: number of session tickets sent after a TLS 1.3 handshake. 0 to 8; default null, chosen by the
    /// provider. OpenSsl only.
    /// </summary>
    public int? TicketCount { get; init; }

    /// <summary>
    /// For servers: lifetime of a ticket. 1 s to 7 days; default null, chosen by the provider. OpenSsl only.
    /// </summary>
    public TimeSpan? TicketLifetime { get; init; }

    /// <summary>
    /// For servers: interval at which ticket keys are replaced. 1 minute to 7 days; default null, chosen by the
    /// provider. OpenSsl only.
    /// </summary>
    public TimeSpan? TicketKeyLifetime { get; init; }

    /// <summary>
    /// For servers: ticket keys that several servers share. They need the same certificate. Not used with
    /// <see cref="ClientCertificates"/>: their sessions stay in the memory of one server. Default null: each server has
    /// keys of its own, replaced after <see cref="TicketKeyLifetime"/>. OpenSsl only.
    /// </summary>
    public TlsTicketKeys? TicketKeys { get; init; }

    /// <summary>
    /// For servers: PEM file with parameters for the DHE suites of TLS 1.2. Default null: those of the system. OpenSsl
    /// only.
    /// </summary>
    public string? DhParametersFile { get; init; }

    // ------------------------------------------------------------------ limits

    /// <summary>
    /// Maximum time for a handshake. For a client it begins when the connect has ended, and is not part of
    /// <see cref="ClientTimeouts.Connect"/>. 100 ms to 10 minutes; default 10 s.
    /// </summary>
    public TimeSpan HandshakeTimeout { get; init; } = TimeSpan.FromSeconds(10);

    /// <summary>
    /// For servers: maximum number of concurrent handshakes on one loop, counted from the complete ClientHello. A
    /// connection above it is closed at once and counted. 1 to 1,000,000; default 256, which a loop completes in a
    /// tenth of a second with P-256 keys.
    /// </summary>
    public int MaxHandshakes { get; init; } = 256;

    /// <summary>
    /// For servers: maximum number of connections on one loop without a complete ClientHello. A further one closes the
    /// oldest of them, which is counted. They do not count for <see cref="MaxHandshakes"/>. 1 to 1,000,000; default
    /// 1,024.
    /// </summary>
    public int MaxSilent { get; init; } = 1024;

    // ------------------------------------------------------------------ provider

    /// <summary>
    /// TLS provider. Default <see cref="TlsProvider.Auto"/>. The environment variable WHIMBREL_TLS has precedence.
    /// </summary>
    public TlsProvider Provider { get; init; }

    /// <summary>
    /// Returns a copy with other application protocols, for a protocol that receives options and has its own ALPN name.
    /// The copy is prepared separately, so create it once.
    /// </summary>
    /// <param name="protocols">Application protocols of the copy, as in <see cref="ApplicationProtocols"/>.</param>
    public TlsOptions WithApplicationProtocols(params IReadOnlyList<string> protocols)
    {
        ArgumentNullException.ThrowIfNull(protocols);
        TlsOptions copy = (TlsOptions)MemberwiseClone();
        copy._applicationProtocols = [.. protocols];
        return copy;
    }

    /// <summary>Creates another TLS layer, for tests.</summary>
    internal Func<TlsOptions, bool, TlsProfile>? Maker { get; init; }

    /// <summary>True for a client that needs the host name of its server.</summary>
    internal bool NeedsHostName => HostName is null && PinnedKeys.Count == 0 && Verify is null && ChecksHostName;

    /// <summary>The versions that are allowed.</summary>
    internal SslProtocols AllowedProtocols => Protocols == SslProtocols.None ? Known : Protocols;

    /// <summary>Name of an option that is set and that only the OpenSSL provider supports, or null.</summary>
    internal string? NeedsOpenSsl =>
        TicketCount is not null ? nameof(TicketCount)
        : TicketLifetime is not null ? nameof(TicketLifetime)
        : TicketKeyLifetime is not null ? nameof(TicketKeyLifetime)
        : TicketKeys is not null ? nameof(TicketKeys)
        : DhParametersFile is not null ? nameof(DhParametersFile)
        : Names.Values.Select(static o => o.NeedsOpenSsl).FirstOrDefault(static n => n is not null);

    internal void Validate(OptionErrors errors, bool isServer, string prefix = "Tls")
    {
        if ((AllowedProtocols & ~Known) != 0)
            errors.Add($"{prefix}.Protocols = {Protocols}, allowed Tls12 and Tls13: older versions are broken");
        errors.Range($"{prefix}.HandshakeTimeout", HandshakeTimeout, TimeSpan.FromMilliseconds(100),
            TimeSpan.FromMinutes(10));
        errors.Range($"{prefix}.MaxHandshakes", MaxHandshakes, 1, 1_000_000);
        errors.Range($"{prefix}.MaxSilent", MaxSilent, 1, 1_000_000);
        errors.Defined($"{prefix}.ClientCertificates", ClientCertificates);
        errors.Defined($"{prefix}.UnknownName", UnknownName);
        errors.Defined($"{prefix}.Provider", Provider);
        if ((AllowedWeakAlgorithms & ~(TlsWeakAlgorithms.Sha1Signature | TlsWeakAlgorithms.Rsa1024Key)) != 0)
            errors.Add(
                $"{prefix}.AllowedWeakAlgorithms = {AllowedWeakAlgorithms}, allowed Sha1Signature and Rsa1024Key");
        if (TicketCount is { } tickets) errors.Range($"{prefix}.TicketCount", tickets, 0, 8);
        if (TicketLifetime is { } life)
            errors.Range($"{prefix}.TicketLifetime", life, TimeSpan.FromSeconds(1), TimeSpan.FromDays(7));
        if (TicketKeyLifetime is { } keys)
            errors.Range($"{prefix}.TicketKeyLifetime", keys, TimeSpan.FromMinutes(1), TimeSpan.FromDays(7));
        if (TicketKeys is not null && TicketKeyLifetime is not null)
            errors.Add($"{prefix}.TicketKeyLifetime is for keys of the server's own, and {prefix}.TicketKeys are "
                + "replaced by TlsTicketKeys.Replace: set one of them");
        foreach (string protocol in ApplicationProtocols)
        {
            if (string.IsNullOrEmpty(protocol) || Encoding.UTF8.GetByteCount(protocol) > 255)
                errors.Add($"{prefix}.ApplicationProtocols has '{protocol}', allowed 1 to 255 bytes each");
        }

        if (Roots is not null && ExtraRoots is not null)
            errors.Add($"{prefix}.ExtraRoots are for beside the roots of the system, which {prefix}.Roots replaces: "
                + $"put all of them there");
        Span<byte> hash = stackalloc byte[33];
        foreach (string pin in PinnedKeys)
        {
            if (pin is null || !Convert.TryFromBase64String(pin, hash, out int count) || count != 32)
                errors.Add($"{prefix}.PinnedKeys has '{pin}', allowed SHA-256 in base64 (44 characters)");
        }

        foreach (string file in RevocationLists)
        {
            if (!File.Exists(file)) errors.Add($"{prefix}.RevocationLists names {file}, which does not exist");
        }

        if (isServer) ValidateServer(errors, prefix);
        else ValidateClient(errors, prefix);
    }

    private void ValidateServer(OptionErrors errors, string prefix)
    {
        if (HostName is not null) errors.Add($"{prefix}.HostName is for clients: a server serves Names");
        if (!ChecksHostName)
            errors.Add($"{prefix}.ChecksHostName is for clients: a server knows no name that its clients should have");
        if (Certificate is null && SelectCertificate is null && Names.Count == 0)
            errors.Add($"{prefix}.Certificate is missing: a server needs one. Create one: whimbrel certs");
        if (Certificate is null && SelectCertificate is null && Names.Count > 0
            && UnknownName == TlsUnknownServerName.UseDefault)
            errors.Add(
                $"{prefix}.Certificate is missing, which UnknownName = UseDefault needs: give one, or use Refuse");
        if (Certificate?.Mistake is { } mistake) errors.Add(mistake);
        if (Names.Count > 10_000) errors.Add($"{prefix}.Names has {Names.Count} entries, allowed 0 to 10,000");
        foreach ((string name, TlsOptions options) in Names)
        {
            string at = $"{prefix}.Names[{name}]";
            string plain = name.StartsWith("*.", StringComparison.Ordinal) ? name[2..] : name;
            if (plain.Length is 0 or > 253 || plain.Contains('*', StringComparison.Ordinal)
                || Uri.CheckHostName(plain) != UriHostNameType.Dns)
                errors.Add($"{at}: '{name}' is no host name, and no '*.' before one");
            if (options is null)
            {
                errors.Add($"{at} is null");
                continue;
            }

            if (options.Names.Count > 0) errors.Add($"{at} has names of its own: one level is enough");
            else options.Validate(errors, isServer: true, at);
            if (options.Certificate is { Mistake: null } certificate && !certificate.Covers(name))
                errors.Add($"{certificate.Source} does not cover '{name}'. Create one: whimbrel certs --host {name}");
        }
    }

    private void ValidateClient(OptionErrors errors, string prefix)
    {
        if (Certificate?.Mistake is { } mistake) errors.Add(mistake);
        if (Names.Count > 0) errors.Add($"{prefix}.Names is for servers");
        if (SelectCertificate is not null) errors.Add($"{prefix}.SelectCertificate is for servers");
        if (ChallengeCertificate is not null) errors.Add($"{prefix}.ChallengeCertificate is for servers");
        if (ClientCertificates != TlsClientCertificates.Off)
            errors.Add($"{prefix}.ClientCertificates is for servers: a client gives its own as Certificate");
        if (HostName is not null
            && Uri.CheckHostName(HostName) is not (UriHostNameType.Dns or UriHostNameType.IPv4 or UriHostNameType.IPv6))
            errors.Add($"{prefix}.HostName = '{HostName}' is neither a host name nor an address");
    }
}
