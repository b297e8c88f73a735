using System.Globalization;
using System.Net.Security;
using System.Net.Sockets;
using Whimbrel.Conformance;
using Whimbrel.Tls;

namespace Whimbrel.Allocations;

// The same limits for the direct OpenSSL provider, whatever Auto chooses.
public sealed class OpenSslAllocationTests
{
    private const int Rounds = 400;

    // The goal is 512. The value is 288: the layer, the link and TlsInfo. This leaves room for one more small object.
    private const double HandshakeLimitBytes = 352;

    private static readonly TlsOptions s_options =
        new() { Certificate = TlsCertificate.From(TestCertificates.Server), Provider = TlsProvider.OpenSsl };

    private static Rig Make(Func<Session> factory)
    {
        Assert.SkipUnless(OpenSslLibrary.IsUsable, OpenSslLibrary.Refusal ?? "");
        return new Rig("epoll", factory, tls: s_options);
    }

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
    [InlineData(32)]
    [InlineData(20 * 1024)]
    public void An_echo_over_OpenSSL_allocates_nothing(int size)
    {
        using Rig rig = Make(static () => new EchoSession());
        using SslStream client = Connect(rig);
        byte[] message = new byte[size];
        rig.Meter.ExpectNone($"echo of {size} bytes over OpenSSL", Rounds, () =>
        {
            client.Write(message);
            client.ReadExactly(message);
        });
    }

    [Fact]
    public void A_handshake_over_OpenSSL_allocates_little()
    {
        Assert.SkipUnless(OpenSslLibrary.IsUsable, OpenSslLibrary.Refusal ?? "");
        byte[] message = new byte[32];
        double plain = Measure(null, static rig => new NetworkStream(rig.Connect(), ownsSocket: true));
        double secure = Measure(s_options, Connect);
        double bytes = secure - plain;
        string line = string.Create(CultureInfo.InvariantCulture, $"a handshake: {bytes:0} bytes allocated on the "
            + $"loop's thread ({secure:0} for a connection with one echo, {plain:0} without TLS)");
        TestContext.Current.TestOutputHelper!.WriteLine(line);
        Assert.True(bytes <= HandshakeLimitBytes, line);

        double Measure(TlsOptions? tls, Func<Rig, Stream> connect)
        {
            using Rig rig = new("epoll", static () => new EchoAndCloseSession(), tls: tls);
            return rig.Meter.BytesPerRound(50, 200, () =>
            {
                using Stream client = connect(rig);
                client.Write(message);
                client.ReadExactly(message);
            });
        }
    }
}
