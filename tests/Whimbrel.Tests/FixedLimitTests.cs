using Whimbrel.Conformance;
using Whimbrel.Testing;
using Whimbrel.Tls;

namespace Whimbrel.Tests;

// Fixed limits of docs/limits.md that nothing else shows: at the number, and one past it.
public sealed class FixedLimitTests
{
    [Theory]
    [InlineData(64, true)]
    [InlineData(65, false)]
    public void A_client_has_up_to_64_end_points(int count, bool isAllowed)
    {
        MemoryEngine engine = new(1, faults: MemoryFaults.None);
        ClientOptions options = new()
        {
            Engine = engine,
            EndPoints = [.. Enumerable.Range(1, count).Select(static i => new MemoryEndPoint($"p{i}"))]
        };
        if (isAllowed)
            options.Validate(engine);
        else
            Assert.Contains("EndPoints has 65 entries, allowed 1 to 64",
                Assert.Throws<ArgumentException>(() => options.Validate(engine)).Message, StringComparison.Ordinal);
        engine.Run(engine.DisposeAsync());
    }

    [Theory]
    [InlineData(10_000)]
    [InlineData(10_001)]
    public void A_server_has_up_to_10_000_names(int count)
    {
        TlsOptions one = new() { Certificate = TlsCertificate.From(TestCertificates.Make("all", "*.chat.test")) };
        ServerOptions options = new()
        {
            Address = "tcp://127.0.0.1:0",
            Tls = new TlsOptions
            {
                Certificate = one.Certificate,
                Names = Enumerable.Range(0, count).ToDictionary(static i => $"n{i}.chat.test", _ => one)
            }
        };
        Assert.Equal(count > 10_000 ? ["Tls.Names has 10001 entries, allowed 0 to 10,000"] : [],
            options.FindMistakes());
    }

    [Theory]
    [InlineData(TlsHello.MostBytes, true)]
    [InlineData(TlsHello.MostBytes + 1, false)]
    public void A_ClientHello_of_up_to_64_KiB_is_waited_for(int whole, bool isAwaited)
    {
        int body = whole - 4;
        byte[] begin = [0x16, 3, 1, 0, 4, 1, (byte)(body >> 16), (byte)(body >> 8), (byte)body];
        TlsHello.Outcome outcome = TlsHello.Read(begin, out _);
        Assert.Equal(isAwaited ? TlsHello.Outcome.NeedsMore : TlsHello.Outcome.Found, outcome);
    }

    [Theory]
    [InlineData(64, true)]
    [InlineData(65, false)]
    public void A_header_and_a_delimiter_have_up_to_64_bytes(int count, bool isAllowed)
    {
        Action[] makers =
        [
            () => FrameFormat.LengthPrefix(4, headerBytes: count),
            () => FrameFormat.Delimited(Enumerable.Repeat((byte)'x', count).ToArray())
        ];
        foreach (Action make in makers)
        {
            if (isAllowed) make();
            else Assert.Throws<ArgumentOutOfRangeException>(make);
        }
    }
}
