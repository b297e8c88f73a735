using System.Collections.Frozen;
using System.Security.Authentication;

namespace Whimbrel.Tls;

/// <summary>
/// TLS options prepared by one provider: shared by all connections of a server or client, for which it creates the
/// layers. A server's profile has a nested one for each server name. Any thread, except <see cref="CreateLayer"/>.
/// </summary>
internal abstract class TlsProfile
{
    private readonly FrozenDictionary<string, TlsProfile> _names;

    /// <summary>
    /// Prepares validated options: only the provider's own rules may still reject them, with ArgumentException and the
    /// option's name.
    /// </summary>
    protected TlsProfile(TlsOptions options, bool isServer)
    {
        Options = options;
        IsServer = isServer;
        Trust = new TlsTrust(options, isServer);
        Dictionary<string, TlsProfile> names = new(StringComparer.OrdinalIgnoreCase);
        foreach ((string name, TlsOptions of) in options.Names) names[name.TrimEnd('.')] = Nested(of);
        _names = names.ToFrozenDictionary(StringComparer.OrdinalIgnoreCase);
        if (isServer && options.ChallengeCertificate is not null)
            Challenge = Nested(new TlsOptions { ApplicationProtocols = ["acme-tls/1"], AllowResumption = false });
    }

    internal TlsOptions Options { get; }

    internal bool IsServer { get; }

    internal TlsTrust Trust { get; }

    /// <summary>Profile of validations by an ACME authority, or null if there are none.</summary>
    internal TlsProfile? Challenge { get; }

    /// <summary>Provider of its layers.</summary>
    internal abstract TlsProvider Provider { get; }

    /// <summary>Reason for this provider, for messages.</summary>
    internal string Reason { get; init; } = "";

    /// <summary>Creates a profile of the same kind for one server name.</summary>
    private protected abstract TlsProfile Nested(TlsOptions options);

    /// <summary>Creates the layer of one connection. On the connection's loop.</summary>
    /// <param name="name">Client: name to request and to check, or null. Server: requested name, or null.</param>
    /// <param name="keyPair">Certificate to present; null for none (clients).</param>
    /// <param name="scratch">Shared memory of the loop.</param>
    internal abstract TlsLayer CreateLayer(string? name, TlsKeyPair? keyPair, TlsScratch scratch);

    /// <summary>Returns the profile for a requested server name, by the table; null to reject it.</summary>
    internal TlsProfile? Select(string? name)
    {
        if (_names.Count == 0) return this;
        if (name is not null)
        {
            if (_names.TryGetValue(name, out TlsProfile? exact)) return exact;
            int dot = name.IndexOf('.', StringComparison.Ordinal);
            if (dot > 0 && _names.TryGetValue(string.Concat("*", name.AsSpan(dot)), out TlsProfile? wildcard))
                return wildcard;
        }

        return Options.UnknownName == TlsUnknownServerName.UseDefault || (name is null && HasOwnCertificate)
            ? this
            : null;
    }

    private bool HasOwnCertificate => Options.Certificate is not null || Options.SelectCertificate is not null;

    /// <summary>Returns the certificate for a server name. The application's callback may throw here.</summary>
    internal TlsCertificate? CertificateFor(string? name) =>
        Options.SelectCertificate?.Invoke(name) ?? Options.Certificate;

    /// <summary>
    /// Returns whether a handshake should not run on the loop: a long signature, or a peer's certificate that needs a
    /// chain or the application's decision.
    /// </summary>
    internal bool IsSlow(TlsKeyPair? keyPair) =>
        (IsServer ? Options.ClientCertificates != TlsClientCertificates.Off : BuildsChains)
        || keyPair is { IsSlow: true };

    /// <summary>True if a client needs a chain to check its server: not with pinned keys only.</summary>
    private protected virtual bool BuildsChains => Trust.NeedsChain;

    /// <summary>The allowed versions, such as "TLS 1.2, 1.3", for messages.</summary>
    internal string VersionText => Options.AllowedProtocols switch
    {
        SslProtocols.Tls12 => "TLS 1.2",
        SslProtocols.Tls13 => "TLS 1.3",
        _ => "TLS 1.2, 1.3",
    };

    /// <summary>
    /// Returns the failure that a ClientHello alone shows, or null if the handshake may succeed. The text is more
    /// precise than that of a layer.
    /// </summary>
    internal TlsFault? Foresee(scoped in TlsHello hello)
    {
        if (hello.HasVersions)
        {
            bool common = ((Options.AllowedProtocols & SslProtocols.Tls12) != 0 && hello.Offers(0x0303))
                || ((Options.AllowedProtocols & SslProtocols.Tls13) != 0 && hello.Offers(0x0304));
            if (!common)
                return new TlsFault(TlsFailure.NoCommonVersion,
                    $"client offers only {hello.VersionText}; server allows {VersionText}");
        }

        if (Options.ApplicationProtocols.Count == 0 || !hello.HasProtocols) return null;
        foreach (string ours in Options.ApplicationProtocols)
        {
            if (hello.OffersProtocol(ours)) return null;
        }

        return new TlsFault(TlsFailure.NoCommonApplicationProtocol, $"client offers the application protocols "
            + $"{hello.ProtocolText}; server has {string.Join(", ", Options.ApplicationProtocols)}");
    }
}
