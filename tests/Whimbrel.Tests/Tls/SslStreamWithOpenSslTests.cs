using Whimbrel.Tls;

namespace Whimbrel.Tests.Tls;

/// <summary>SslStream on one side and OpenSSL on the other.</summary>
public sealed class SslStreamWithOpenSslTests : TlsLayerSuite
{
    private protected override bool SaysAlerts => false;

    private protected override TlsProfile Prepare(TlsOptions options, bool isServer) =>
        new SslStreamProfile(options, isServer);

    private protected override TlsProfile PreparePeer(TlsOptions options, bool isServer) =>
        OpenSslRig.Prepare(options, isServer);
}
