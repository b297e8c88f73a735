using System.Net.Security;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel.Tls;

/// <summary>Options made ready for SslStream. Nothing here is Linux: this is what every system has.</summary>
internal sealed class SslStreamProfile : TlsProfile
{
    private readonly List<SslApplicationProtocol>? _protocols;
    private readonly CipherSuitesPolicy? _ciphers;
    private (TlsKeyPair KeyPair, SslServerAuthenticationOptions Options)? _lastServer;

    internal SslStreamProfile(TlsOptions options, bool isServer)
        : base(options, isServer)
    {
        if (options.NeedsOpenSsl is { } name) throw new ArgumentException($"TlsOptions.{name} needs the OpenSsl layer; this server or client has Portable");
        if (options.ApplicationProtocols.Count > 0) _protocols = [.. options.ApplicationProtocols.Select(static p => new SslApplicationProtocol(p))];
        if (options.CipherSuites.Count == 0) return;
        try
        {
#pragma warning disable CA1416 // asked by trying: the system that cannot says so
            _ciphers = new CipherSuitesPolicy(options.CipherSuites);
#pragma warning restore CA1416
        }
        catch (PlatformNotSupportedException)
        {
            throw new ArgumentException("TlsOptions.CipherSuites cannot be honoured by the Portable layer on this system");
        }
    }

    internal override TlsProvider Provider => TlsProvider.Portable;

    /// <summary>SslStream builds one before it asks.</summary>
    private protected override bool BuildsChains => true;

    private protected override TlsProfile Nested(TlsOptions options) => new SslStreamProfile(options, IsServer);

    internal override TlsLayer CreateLayer(string? name, TlsKeyPair? keyPair, TlsScratch scratch) => new SslStreamLayer(this, name, keyPair, scratch);

    /// <summary>For one connection of a server. Shared between those that verify nobody: then nothing in it changes.</summary>
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
            // Also when no chain is looked at: a session of a name that asks nobody must not open one that does.
            options.RemoteCertificateValidationCallback = SslStreamLayer.JudgePeer;
        }
        else
        {
            _lastServer = (keyPair, options);
        }

        return options;
    }

    /// <summary>For one connection of a client.</summary>
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
