using System.Net.Security;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel.Tls;

/// <summary>Options prepared for SslStream, on every system.</summary>
internal sealed class SslStreamProfile : TlsProfile
{
    private readonly List<SslApplicationProtocol>? _protocols;
    private readonly CipherSuitesPolicy? _ciphers;
    private (TlsKeyPair KeyPair, SslServerAuthenticationOptions Options)? _lastServer;

    internal SslStreamProfile(TlsOptions options, bool isServer)
        : base(options, isServer)
    {
        if (options.NeedsOpenSsl is { } name)
            throw new ArgumentException(
                $"TlsOptions.{name} needs the OpenSsl layer; this server or client has Portable");
        if (options.ApplicationProtocols.Count > 0)
            _protocols = [.. options.ApplicationProtocols.Select(static p => new SslApplicationProtocol(p))];
        if (options.CipherSuites.Count == 0) return;
        try
        {
#pragma warning disable CA1416 // tried: a system without support throws
            _ciphers = new CipherSuitesPolicy(options.CipherSuites);
#pragma warning restore CA1416
        }
        catch (PlatformNotSupportedException)
        {
            throw new ArgumentException(
                "TlsOptions.CipherSuites cannot be honoured by the Portable layer on this system");
        }
    }

    internal override TlsProvider Provider => TlsProvider.Portable;

    /// <summary>True, because SslStream builds a chain before it calls the callback.</summary>
    private protected override bool BuildsChains => true;

    private protected override TlsProfile Nested(TlsOptions options) => new SslStreamProfile(options, IsServer);

    internal override TlsLayer CreateLayer(string? name, TlsKeyPair? keyPair, TlsScratch scratch) =>
        new SslStreamLayer(this, name, keyPair, scratch);

    /// <summary>
    /// Returns the options for one connection of a server. Shared between connections without client certificates,
    /// because nothing in them changes then.
    /// </summary>
    internal SslServerAuthenticationOptions ForServer(TlsKeyPair keyPair)
    {
        bool asks = Options.ClientCertificates != TlsClientCertificates.Off;
        if (!asks && _lastServer is { } last && ReferenceEquals(last.KeyPair, keyPair)) return last.Options;
        SslServerAuthenticationOptions options = new()
        {
            ServerCertificateContext = keyPair.ForSslStream,
            EnabledSslProtocols = Options.AllowedProtocols,
            ApplicationProtocols = _protocols,
            CipherSuitesPolicy = _ciphers,
            ClientCertificateRequired = asks,
            AllowRenegotiation = false,
            AllowTlsResume = Options.AllowResumption,
            CertificateRevocationCheckMode = X509RevocationMode.NoCheck,
        };
        if (asks)
        {
            options.CertificateChainPolicy = Trust.NewPolicy();
            // Also if no chain is checked: a session of a server name without client certificates must not be resumed
            // for one with them.
            options.RemoteCertificateValidationCallback = SslStreamLayer.JudgePeer;
        }
        else
        {
            _lastServer = (keyPair, options);
        }

        return options;
    }

    /// <summary>Returns the options for one connection of a client.</summary>
    internal SslClientAuthenticationOptions ForClient(string? host, TlsKeyPair? keyPair) => new()
    {
        TargetHost = host ?? "",
        ClientCertificateContext = keyPair?.ForSslStream,
        EnabledSslProtocols = Options.AllowedProtocols,
        ApplicationProtocols = _protocols,
        CipherSuitesPolicy = _ciphers,
        AllowRenegotiation = false,
        AllowTlsResume = Options.AllowResumption,
        CertificateRevocationCheckMode = X509RevocationMode.NoCheck,
        CertificateChainPolicy = Trust.NewPolicy(),
        RemoteCertificateValidationCallback = SslStreamLayer.JudgePeer,
    };
}
