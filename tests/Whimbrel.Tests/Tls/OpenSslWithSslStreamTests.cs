using Whimbrel.Tls;

namespace Whimbrel.Tests.Tls;

/// <summary>OpenSSL on one side and SslStream on the other.</summary>
public sealed class OpenSslWithSslStreamTests : TlsLayerSuite
{
    private protected override TlsProfile Prepare(TlsOptions options, bool isServer) =>
        OpenSslRig.Prepare(options, isServer);
}
