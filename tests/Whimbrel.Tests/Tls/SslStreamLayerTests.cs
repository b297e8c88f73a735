using Whimbrel.Tls;

namespace Whimbrel.Tests.Tls;

public sealed class SslStreamLayerTests : TlsLayerSuite
{
    private protected override bool SaysAlerts => false;

    private protected override bool ReportsResumption => false;

    private protected override TlsProfile Prepare(TlsOptions options, bool isServer) =>
        new SslStreamProfile(options, isServer);
}
