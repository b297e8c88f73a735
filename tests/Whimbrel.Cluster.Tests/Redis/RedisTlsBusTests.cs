using Whimbrel.Clusters;
using Whimbrel.Conformance;

namespace Whimbrel.Tests.Redis;

public sealed class RedisTlsBusTests : GroupBusSuite
{
    protected override async ValueTask<TestBroker> StartBrokerAsync() =>
        await RedisBroker.StartAsync("requirepass \"top secret\"", isTls: true, login: ":top%20secret@",
            new RedisOptions { Tls = TestCertificates.ClientOptions, Prefix = "{own}." });
}
