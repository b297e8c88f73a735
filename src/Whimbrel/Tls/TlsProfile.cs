using System.Collections.Frozen;
using System.Security.Authentication;

namespace Whimbrel.Tls;

/// <summary>
/// TLS options made ready by one provider: shared by all connections of a server or client, and what makes their layers. A
/// server's profile has one more for each name it serves. Any thread, except <see cref="CreateLayer"/>.
/// </summary>
internal abstract class TlsProfile
{
    private readonly FrozenDictionary<string, TlsProfile> _names;

    /// <summary>Checked before: only the provider's own rules may still refuse the options, by throwing ArgumentException with the option's name.</summary>
    protected TlsProfile(TlsOptions options, bool isServer)
    {
        Options = options;
        IsServer = isServer;
        Trust = new TlsTrust(options, isServer);
        Dictionary<string, TlsProfile> names = new(StringComparer.OrdinalIgnoreCase);
        foreach ((string name, TlsOptions of) in options.Names) names[name.TrimEnd('.')] = Nested(of);
        _names = names.ToFrozenDictionary(StringComparer.OrdinalIgnoreCase);
    }

    internal TlsOptions Options { get; }

    internal bool IsServer { get; }

    internal TlsTrust Trust { get; }

    /// <summary>Which layer it makes.</summary>
    internal abstract TlsProvider Provider { get; }

    /// <summary>Why this one, for people.</summary>
    internal string Reason { get; init; } = "";

    /// <summary>A profile of the same kind for one name of a server.</summary>
    private protected abstract TlsProfile Nested(TlsOptions options);

    /// <summary>Makes the layer of one connection. On the connection's loop.</summary>
    /// <param name="name">Client: the name to ask for and to check, or null. Server: the name that was asked for, or null.</param>
    /// <param name="keyPair">What to show; null for none (clients).</param>
    /// <param name="scratch">The loop's.</param>
    internal abstract TlsLayer CreateLayer(string? name, TlsKeyPair? keyPair, TlsScratch scratch);

    /// <summary>The profile for a name that a client asked for, by the table; null: refuse it.</summary>
    internal TlsProfile? Select(string? name)
    {
        if (_names.Count == 0) return this;
        if (name is not null)
        {
            if (_names.TryGetValue(name, out TlsProfile? exact)) return exact;
            int dot = name.IndexOf('.', StringComparison.Ordinal);
            if (dot > 0 && _names.TryGetValue(string.Concat("*", name.AsSpan(dot)), out TlsProfile? wildcard)) return wildcard;
        }

        return Options.UnknownName == TlsUnknownServerName.UseDefault || (name is null && HasOwnCertificate) ? this : null;
    }

    private bool HasOwnCertificate => Options.Certificate is not null || Options.SelectCertificate is not null;

    /// <summary>The certificate to show for a name. The user's callback may throw here.</summary>
    internal TlsCertificate? CertificateFor(string? name) => Options.SelectCertificate?.Invoke(name) ?? Options.Certificate;

    /// <summary>A handshake that should not run on the loop: a long signature, or a peer's certificate whose chain must be built, or that the user judges.</summary>
    internal bool IsSlow(TlsKeyPair? keyPair) => (IsServer ? Options.ClientCertificates != TlsClientCertificates.Off : BuildsChains) || keyPair is { IsSlow: true };

    /// <summary>Whether a client needs a chain to judge its server: with pinned keys alone it does not.</summary>
    private protected virtual bool BuildsChains => Trust.NeedsChain;

    /// <summary>"TLS 1.2, 1.3", for messages.</summary>
    internal string VersionText => Options.AllowedProtocols switch
    {
        SslProtocols.Tls12 => "TLS 1.2",
        SslProtocols.Tls13 => "TLS 1.3",
        _ => "TLS 1.2, 1.3",
    };

    /// <summary>What a ClientHello alone shows to be hopeless; null when it may work out. In words that a layer would not find.</summary>
    internal TlsFault? Foresee(scoped in TlsHello hello)
    {
        if (hello.HasVersions)
        {
            bool common = ((Options.AllowedProtocols & SslProtocols.Tls12) != 0 && hello.Offers(0x0303)) || ((Options.AllowedProtocols & SslProtocols.Tls13) != 0 && hello.Offers(0x0304));
            if (!common) return new TlsFault(TlsFailure.NoCommonVersion, $"client offers only {hello.VersionText}; server allows {VersionText}");
        }

        if (Options.ApplicationProtocols.Count == 0 || !hello.HasProtocols) return null;
        foreach (string ours in Options.ApplicationProtocols)
        {
            if (hello.OffersProtocol(ours)) return null;
        }

        return new TlsFault(TlsFailure.NoCommonApplicationProtocol, $"client offers the application protocols {hello.ProtocolText}; server has {string.Join(", ", Options.ApplicationProtocols)}");
    }
}
