using Whimbrel.Tls;

namespace Whimbrel.Conformance;

/// <summary>Creates layers without cryptography.</summary>
internal sealed class FakeTlsProfile(TlsOptions options, bool isServer) : TlsProfile(options, isServer)
{
    internal static TlsOptions Server { get; } = new()
    {
        Certificate = TlsCertificate.From(TestCertificates.Server),
        Maker = static (o, s) => new FakeTlsProfile(o, s)
    };

    internal static TlsOptions Client { get; } = new()
    {
        HostName = "chat.test",
        Roots = TestCertificates.Roots,
        Maker = static (o, s) => new FakeTlsProfile(o, s)
    };

    internal override TlsProvider Provider => TlsProvider.Auto;

    private protected override TlsProfile Nested(TlsOptions options) => new FakeTlsProfile(options, IsServer);

    internal override TlsLayer CreateLayer(string? name, TlsKeyPair? keyPair, TlsScratch scratch) =>
        new FakeTlsLayer(IsServer, name, scratch);
}
