using System.Security.Authentication;

namespace Whimbrel.Tool.Tests.Tls;

// One meeting of ours and somebody else's program. Certificates by the names of TrustMaterial.
public sealed record TrustCase(string Name)
{
    // Who shows what.
    public string Server { get; init; } = "server";

    public string? Client { get; init; }

    // The side that shows it sends the intermediates.
    public bool Whole { get; init; } = true;

    // What the client asks for and checks.
    public string Host { get; init; } = TrustMaterial.Host;

    // Whom the client, and a server that asks for certificates, trusts.
    public string Roots { get; init; } = "root";

    public TlsClientCertificates Asks { get; init; }

    public bool LooksAtList { get; init; }

    public SslProtocols Protocols { get; init; }

    // Of the peer, which may still have versions that ours never has.
    public SslProtocols PeerProtocols { get; init; }

    public string[] ServerApplications { get; init; } = [];

    public string[] ClientApplications { get; init; } = [];

    // Only for ours.
    public string? Pin { get; init; }

    public bool? Verdict { get; init; }

    // None: it must work.
    public TlsFailure Failure { get; init; }

    // Part of what our side says about it.
    public string Says { get; init; } = "";

    public override string ToString() => Name;
}
