namespace Whimbrel.Tests.Nats;

public sealed class NatsTlsBusTests : GroupBusSuite
{
    protected override async ValueTask<TestBroker> StartBrokerAsync() =>
        await NatsBroker.StartAsync("authorization { user: node, password: \"top secret\" }\nmax_payload: 5000000",
            isTls: true, login: "node:top%20secret@");
}
