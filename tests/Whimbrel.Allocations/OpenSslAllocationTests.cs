using System.Globalization;
using System.Net.Security;
using System.Net.Sockets;
using Whimbrel.Conformance;
using Whimbrel.Tls;

namespace Whimbrel.Allocations;

// The same gates for the direct OpenSSL layer, whatever Auto chooses.
public sealed class OpenSslAllocationTests
{
    private const int Rounds = 400;
    private const double HandshakeLimitBytes = 4 * 1024;

    private static readonly TlsOptions s_options = new() { Certificate = TlsCertificate.From(TestCertificates.Server), Provider = TlsProvider.OpenSsl };

    private static Rig Make(Func<Session> factory)
    {
        Assert.SkipUnless(OpenSslLibrary.IsUsable, OpenSslLibrary.Refusal ?? "");
        return new Rig("epoll", factory, tls: s_options);
    }

    private static SslStream Connect(Rig rig)
    {
#pragma warning disable CA5359 // whom it trusts is not what is measured
        SslStream tls = new(new NetworkStream(rig.Connect()), leaveInnerStreamOpen: false, static (_, _, _, _) => true);
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
        using Rig rig = Make(static () => new EchoAndCloseSession());
        byte[] message = new byte[32];
        double bytes = rig.Meter.BytesPerRound(50, 50, () =>
        {
            using SslStream client = Connect(rig);
            client.Write(message);
            client.ReadExactly(message);
        });
        string line = string.Create(CultureInfo.InvariantCulture, $"connection with handshake and one echo: {bytes:0} bytes allocated on the loop's thread");
        TestContext.Current.TestOutputHelper!.WriteLine(line);
        Assert.True(bytes <= HandshakeLimitBytes, line);
    }
}
