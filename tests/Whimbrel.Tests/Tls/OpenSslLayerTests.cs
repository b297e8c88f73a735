using Whimbrel.Tls;

namespace Whimbrel.Tests.Tls;

/// <summary>OpenSSL on both sides.</summary>
public sealed class OpenSslLayerTests : TlsLayerSuite
{
    private protected override TlsProfile Prepare(TlsOptions options, bool isServer) =>
        OpenSslRig.Prepare(options, isServer);

    private protected override TlsProfile PreparePeer(TlsOptions options, bool isServer) =>
        OpenSslRig.Prepare(options, isServer);
}
