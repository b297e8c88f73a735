using System.Globalization;
using System.Net.Security;
using System.Net.Sockets;
using Whimbrel.Conformance;

namespace Whimbrel.Allocations;

// The same limit over TLS with the portable provider: layer, wire queue and SslStream together allocate nothing per
// message.
public sealed class TlsAllocationTests
{
    private const int Rounds = 400;
    private const double HandshakeLimitBytes = 4 * 1024;

    // Independent of what Auto chooses.
    private static readonly TlsOptions s_options =
        new() { Certificate = TlsCertificate.From(TestCertificates.Server), Provider = TlsProvider.Portable };

    public static TheoryData<string> Engines => Rig.Engines;

    private static SslStream Connect(Rig rig)
    {
#pragma warning disable CA5359 // trust is not measured
        SslStream tls = new(new NetworkStream(rig.Connect(), ownsSocket: true), leaveInnerStreamOpen: false,
            static (_, _, _, _) => true);
#pragma warning restore CA5359
        tls.AuthenticateAsClient("chat.test");
        return tls;
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void An_echo_over_TLS_allocates_nothing(string engine)
    {
        foreach (int size in (int[])[32, 20 * 1024])
        {
            using Rig rig = new(engine, static () => new EchoSession(), tls: s_options);
            using SslStream client = Connect(rig);
            byte[] message = new byte[size];
            rig.Meter.ExpectNone($"echo of {size} bytes over TLS", Rounds, () =>
            {
                client.Write(message);
                client.ReadExactly(message);
            });
        }
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void A_broadcast_over_TLS_allocates_nothing(string engine)
    {
        using Rig rig = new(engine, static () => new EchoSession(), tls: s_options);
        using SslStream one = Connect(rig);
        using SslStream two = Connect(rig);
        byte[] message = new byte[100];
        one.Write(message);
        one.ReadExactly(message);
        two.Write(message);
        two.ReadExactly(message);
        rig.Meter.ExpectNone("broadcast to two over TLS", Rounds, () =>
        {
            rig.Server.Broadcast(message);
            one.ReadExactly(message);
            two.ReadExactly(message);
        });
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void A_handshake_allocates_little(string engine)
    {
        using Rig rig = new(engine, static () => new EchoAndCloseSession(), tls: s_options);
        byte[] message = new byte[32];
        double bytes = rig.Meter.BytesPerRound(50, 50, () =>
        {
            using SslStream client = Connect(rig);
            client.Write(message);
            client.ReadExactly(message);
        });
        string line = string.Create(CultureInfo.InvariantCulture,
            $"connection with handshake and one echo: {bytes:0} bytes allocated on the loop's thread");
        TestContext.Current.TestOutputHelper!.WriteLine(line);
        Assert.True(bytes <= HandshakeLimitBytes, line);
    }
}
