using System.Security.Authentication;

namespace Whimbrel.Tool.Tests.Tls;

// One handshake of our side with an external program. Certificates by the names of TrustMaterial.
public sealed record TrustCase(string Name)
{
    // Certificates that the two sides present.
    public string Server { get; init; } = "server";

    public string? Client { get; init; }

    // The presenting side sends the intermediates.
    public bool Whole { get; init; } = true;

    // Host name that the client requests and checks.
    public string Host { get; init; } = TrustMaterial.Host;

    // Roots that the client trusts, and a server that requests certificates.
    public string Roots { get; init; } = "root";

    public TlsClientCertificates Asks { get; init; }

    public bool LooksAtList { get; init; }

    public SslProtocols Protocols { get; init; }

    // Versions of the peer, which may include ones that our side never offers.
    public SslProtocols PeerProtocols { get; init; }

    public string[] ServerApplications { get; init; } = [];

    public string[] ClientApplications { get; init; } = [];

    // Certificate pin of our side.
    public string? Pin { get; init; }

    public bool? Verdict { get; init; }

    // None: the handshake must succeed.
    public TlsFailure Failure { get; init; }

    // Part of the message of our side.
    public string Says { get; init; } = "";

    public override string ToString() => Name;
}
