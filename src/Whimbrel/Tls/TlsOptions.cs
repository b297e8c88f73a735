using System.Net.Security;
using System.Security.Authentication;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using Whimbrel.Tls;

namespace Whimbrel;

/// <summary>
/// TLS for a server (<see cref="ServerOptions.Tls"/>), a client (<see cref="ClientOptions.Tls"/>) or one connection
/// (<c>Session.UpgradeToTls</c>). Plain data, checked once, at start; one object may serve many. Safe by default: a client
/// checks chain and host name, versions are 1.2 and 1.3, ciphers are the system's policy, and nothing is downloaded.
/// </summary>
public sealed class TlsOptions
{
    /// <summary>Text that stands for "1.2 and 1.3" in messages.</summary>
    private const SslProtocols Known = SslProtocols.Tls12 | SslProtocols.Tls13;

    private IReadOnlyList<string> _applicationProtocols = [];

    // ------------------------------------------------------------------ who we are

    /// <summary>What this side shows to the peer. A server needs one here, in each of <see cref="Names"/>, or by <see cref="SelectCertificate"/>; a client shows it when asked. Null (the default): none.</summary>
    public TlsCertificate? Certificate { get; init; }

    /// <summary>
    /// For servers: other options for clients that ask for these names (SNI). A key is a whole name, <c>chat.example.org</c>, or
    /// covers one more label, <c>*.example.org</c>; a whole name wins. Of the options behind it count those about certificates,
    /// versions, ciphers and application protocols. Case does not matter. At most 10,000.
    /// </summary>
    public IReadOnlyDictionary<string, TlsOptions> Names { get; init; } = new Dictionary<string, TlsOptions>();

    /// <summary>For servers: what to do with a name that is not in <see cref="Names"/>, when there are any. Default <see cref="TlsUnknownServerName.UseDefault"/>.</summary>
    public TlsUnknownServerName UnknownName { get; init; }

    /// <summary>
    /// For servers: gives the certificate for the name that the client asks for (null: for none), before <see cref="Certificate"/> is looked
    /// at, which is taken when this gives null. On the connection's loop, must not block: load beforehand. What it throws fails
    /// that handshake. Give the same object for the same certificate: it keeps what was prepared.
    /// </summary>
    public Func<string?, TlsCertificate?>? SelectCertificate { get; init; }

    // ------------------------------------------------------------------ whom we trust

    /// <summary>For servers: whether clients are asked for a certificate. Default <see cref="TlsClientCertificates.Off"/>.</summary>
    public TlsClientCertificates ClientCertificates { get; init; }

    /// <summary>For clients: the name that the server's certificate must cover, and that is asked for (SNI). Null (the default): the host that is dialled. Needed where that has no name, as with Unix paths.</summary>
    public string? HostName { get; init; }

    /// <summary>
    /// For clients: whether the certificate must cover the name that is dialled. Default true. Without it whoever has any certificate of a trusted root may stand in between: it is for
    /// peers that are found by address and have names of their own.
    /// </summary>
    public bool ChecksHostName { get; init; } = true;

    /// <summary>The roots that a peer's certificate must lead to, instead of those of the system. Null (the default): those of the system.</summary>
    public X509Certificate2Collection? Roots { get; init; }

    /// <summary>Roots that a peer's certificate may lead to, beside those of the system. Null (the default): none. Not together with <see cref="Roots"/>.</summary>
    public X509Certificate2Collection? ExtraRoots { get; init; }

    /// <summary>
    /// Keys that the peer's certificate must have: SHA-256 of the public key (SubjectPublicKeyInfo) in base64, as
    /// <see cref="TlsCertificate.PinOf"/> gives it. When there are any, the key alone decides: neither chain nor name nor dates are looked at.
    /// </summary>
    public IReadOnlyList<string> PinnedKeys { get; init; } = [];

    /// <summary>
    /// Files with revocation lists (CRL; PEM with any number of them, or DER). A peer is refused when a certificate of its chain is named by a list of
    /// that certificate's issuer. Of an issuer without a list nothing is revoked. Read at start; a file with anything but complete lists in it is
    /// refused, delta lists as well. The library never downloads one.
    /// </summary>
    public IReadOnlyList<string> RevocationLists { get; init; } = [];

    /// <summary>
    /// What is too weak by the measure of today and let in all the same, for old devices. The measure is OpenSSL's security level 2, for every layer
    /// and every certificate of a peer's chain: RSA from 2,048 bits, curves from 224, no DSA, no signatures with SHA-1 or MD5 below the
    /// trusted root. Also lets this side show such a certificate. Default <see cref="TlsWeakAlgorithms.None"/>.
    /// </summary>
    public TlsWeakAlgorithms AllowedWeakAlgorithms { get; init; }

    /// <summary>
    /// Has the last word about a peer's certificate, good or bad, and about the lack of one where a client was asked: it sees what was found and
    /// decides. On a thread of the pool, never on a loop, several at a time: it may block, while
    /// <see cref="HandshakeTimeout"/> runs. What it throws refuses the peer. Null (the default): a certificate with a problem is refused.
    /// </summary>
    public Func<TlsVerification, bool>? Verify { get; init; }

    // ------------------------------------------------------------------ what we speak

    /// <summary>The versions. <see cref="SslProtocols.None"/> (the default) is 1.2 and 1.3; anything older is refused at start.</summary>
    public SslProtocols Protocols { get; init; }

    /// <summary>The cipher suites, in order. Empty (the default): the system's policy.</summary>
    public IReadOnlyList<TlsCipherSuite> CipherSuites { get; init; } = [];

    /// <summary>Application protocols (ALPN), the dearest first, for example <c>h2</c>, <c>http/1.1</c>. A server chooses in its own order. A peer that names none is let in. Empty (the default): not negotiated. Each 1 to 255 bytes of UTF-8.</summary>
    public IReadOnlyList<string> ApplicationProtocols
    {
        get => _applicationProtocols;
        init => _applicationProtocols = value;
    }

    /// <summary>Whether sessions may be resumed, which saves most of the work of a handshake. Default true. Certificates count again: a session of one name does not open another.</summary>
    public bool AllowResumption { get; init; } = true;

    /// <summary>For servers: session tickets given after a TLS 1.3 handshake. 0 up to 8; null (the default) leaves it to the layer. OpenSsl only.</summary>
    public int? TicketCount { get; init; }

    /// <summary>For servers: how long a ticket is good. 1 s up to 7 days; null (the default) leaves it to the layer. OpenSsl only.</summary>
    public TimeSpan? TicketLifetime { get; init; }

    /// <summary>For servers: after how long the keys of tickets are replaced. 1 minute up to 7 days; null (the default) leaves it to the layer. OpenSsl only.</summary>
    public TimeSpan? TicketKeyLifetime { get; init; }

    /// <summary>For servers: a PEM file with parameters for DHE suites of TLS 1.2. Null (the default): those of the system. OpenSsl only.</summary>
    public string? DhParametersFile { get; init; }

    // ------------------------------------------------------------------ limits

    /// <summary>Longest time for a handshake. For a client it begins when the dial has ended: it is not part of <see cref="ClientOptions.ConnectTimeout"/>. 100 ms up to 10 minutes; default 10 s.</summary>
    public TimeSpan HandshakeTimeout { get; init; } = TimeSpan.FromSeconds(10);

    /// <summary>For servers: most handshakes at a time on one loop, counted from the whole ClientHello; a connection above it is closed at once, and counted. 1 up to 1,000,000; default 256, which a loop does in a tenth of a second with P-256 keys.</summary>
    public int MaxHandshakes { get; init; } = 256;

    /// <summary>
    /// For servers: most connections at a time on one loop that have not sent a whole ClientHello. Another one above it closes the oldest of them, and it is
    /// counted. They take no place among <see cref="MaxHandshakes"/>. 1 up to 1,000,000; default 1,024.
    /// </summary>
    public int MaxSilent { get; init; } = 1024;

    // ------------------------------------------------------------------ by what

    /// <summary>Which layer does it. Default <see cref="TlsProvider.Auto"/>. The variable WHIMBREL_TLS wins over this.</summary>
    public TlsProvider Provider { get; init; }

    /// <summary>
    /// A copy with other application protocols: for a protocol that is given options and has a name of its own in ALPN. What is prepared for these options is
    /// prepared anew for the copy, so make it once.
    /// </summary>
    /// <param name="protocols">As in <see cref="ApplicationProtocols"/>, which they take the place of.</param>
    public TlsOptions WithApplicationProtocols(params IReadOnlyList<string> protocols)
    {
        ArgumentNullException.ThrowIfNull(protocols);
        TlsOptions copy = (TlsOptions)MemberwiseClone();
        copy._applicationProtocols = [.. protocols];
        return copy;
    }

    /// <summary>A layer that is neither: for tests.</summary>
    internal Func<TlsOptions, bool, TlsProfile>? Maker { get; init; }

    /// <summary>A client that needs to know what its server is called.</summary>
    internal bool NeedsHostName => HostName is null && PinnedKeys.Count == 0 && Verify is null && ChecksHostName;

    /// <summary>The versions that are allowed.</summary>
    internal SslProtocols AllowedProtocols => Protocols == SslProtocols.None ? Known : Protocols;

    /// <summary>The options that only the OpenSSL layer honours and that are set.</summary>
    internal string? NeedsOpenSsl =>
        TicketCount is not null ? nameof(TicketCount)
        : TicketLifetime is not null ? nameof(TicketLifetime)
        : TicketKeyLifetime is not null ? nameof(TicketKeyLifetime)
        : DhParametersFile is not null ? nameof(DhParametersFile)
        : Names.Values.Select(static o => o.NeedsOpenSsl).FirstOrDefault(static n => n is not null);

    internal void Validate(OptionErrors errors, bool isServer, string prefix = "Tls")
    {
        if ((AllowedProtocols & ~Known) != 0) errors.Add($"{prefix}.Protocols = {Protocols}, allowed Tls12 and Tls13: older versions are broken");
        errors.Range($"{prefix}.HandshakeTimeout", HandshakeTimeout, TimeSpan.FromMilliseconds(100), TimeSpan.FromMinutes(10));
        errors.Range($"{prefix}.MaxHandshakes", MaxHandshakes, 1, 1_000_000);
        errors.Range($"{prefix}.MaxSilent", MaxSilent, 1, 1_000_000);
        errors.Defined($"{prefix}.ClientCertificates", ClientCertificates);
        errors.Defined($"{prefix}.UnknownName", UnknownName);
        errors.Defined($"{prefix}.Provider", Provider);
        if ((AllowedWeakAlgorithms & ~(TlsWeakAlgorithms.Sha1Signature | TlsWeakAlgorithms.Rsa1024Key)) != 0) errors.Add($"{prefix}.AllowedWeakAlgorithms = {AllowedWeakAlgorithms}, allowed Sha1Signature and Rsa1024Key");
        if (TicketCount is { } tickets) errors.Range($"{prefix}.TicketCount", tickets, 0, 8);
        if (TicketLifetime is { } life) errors.Range($"{prefix}.TicketLifetime", life, TimeSpan.FromSeconds(1), TimeSpan.FromDays(7));
        if (TicketKeyLifetime is { } keys) errors.Range($"{prefix}.TicketKeyLifetime", keys, TimeSpan.FromMinutes(1), TimeSpan.FromDays(7));
        foreach (string protocol in ApplicationProtocols)
        {
            if (string.IsNullOrEmpty(protocol) || Encoding.UTF8.GetByteCount(protocol) > 255) errors.Add($"{prefix}.ApplicationProtocols has '{protocol}', allowed 1 to 255 bytes each");
        }

        if (Roots is not null && ExtraRoots is not null) errors.Add($"{prefix}.ExtraRoots are for beside the roots of the system, which {prefix}.Roots replaces: put all of them there");
        Span<byte> hash = stackalloc byte[33];
        foreach (string pin in PinnedKeys)
        {
            if (pin is null || !Convert.TryFromBase64String(pin, hash, out int count) || count != 32) errors.Add($"{prefix}.PinnedKeys has '{pin}', allowed SHA-256 in base64 (44 characters)");
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
        if (!ChecksHostName) errors.Add($"{prefix}.ChecksHostName is for clients: a server knows no name that its clients should have");
        if (Certificate is null && SelectCertificate is null && Names.Count == 0) errors.Add($"{prefix}.Certificate is missing: a server needs one. Create one: whimbrel certs");
        if (Certificate is null && SelectCertificate is null && Names.Count > 0 && UnknownName == TlsUnknownServerName.UseDefault) errors.Add($"{prefix}.Certificate is missing, which UnknownName = UseDefault needs: give one, or use Refuse");
        if (Certificate?.Mistake is { } mistake) errors.Add(mistake);
        if (Names.Count > 10_000) errors.Add($"{prefix}.Names has {Names.Count} entries, allowed 0 to 10,000");
        foreach ((string name, TlsOptions options) in Names)
        {
            string at = $"{prefix}.Names[{name}]";
            string plain = name.StartsWith("*.", StringComparison.Ordinal) ? name[2..] : name;
            if (plain.Length is 0 or > 253 || plain.Contains('*', StringComparison.Ordinal) || Uri.CheckHostName(plain) != UriHostNameType.Dns) errors.Add($"{at}: '{name}' is no host name, and no '*.' before one");
            if (options is null)
            {
                errors.Add($"{at} is null");
                continue;
            }

            if (options.Names.Count > 0) errors.Add($"{at} has names of its own: one level is enough");
            else options.Validate(errors, isServer: true, at);
            if (options.Certificate is { Mistake: null } certificate && !certificate.Covers(name)) errors.Add($"{certificate.Source} does not cover '{name}'. Create one: whimbrel certs --host {name}");
        }
    }

    private void ValidateClient(OptionErrors errors, string prefix)
    {
        if (Certificate?.Mistake is { } mistake) errors.Add(mistake);
        if (Names.Count > 0) errors.Add($"{prefix}.Names is for servers");
        if (SelectCertificate is not null) errors.Add($"{prefix}.SelectCertificate is for servers");
        if (ClientCertificates != TlsClientCertificates.Off) errors.Add($"{prefix}.ClientCertificates is for servers: a client gives its own as Certificate");
        if (HostName is not null && Uri.CheckHostName(HostName) is not (UriHostNameType.Dns or UriHostNameType.IPv4 or UriHostNameType.IPv6)) errors.Add($"{prefix}.HostName = '{HostName}' is neither a host name nor an address");
    }
}
