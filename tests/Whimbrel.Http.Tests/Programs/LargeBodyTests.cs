using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using Whimbrel.Conformance;

namespace Whimbrel.Http.Tests.Programs;

// Bodies too large for memory, to and from .NET's client, with a slow peer: 64 MiB, and 1 GiB in --deep.
public sealed class LargeBodyTests
{
    private const int Mebi = 1024 * 1024;
    private const int AheadBytes = 24 * Mebi; // maximum of what two socket buffers hold

    private static readonly int _count = Depth.IsDeep ? 1024 : 64;

    /// <summary>Fills the buffer; each mebibyte is different.</summary>
    private static void Fill(byte[] mebibyte, int number) => Noise.Fill(mebibyte, number);

    private static HttpClient NewClient(HttpServer web, bool isTls)
    {
        SocketsHttpHandler handler = new()
        {
            UseProxy = false,
            ConnectCallback = static async (context, stop) =>
            {
                Socket socket = new(SocketType.Stream, ProtocolType.Tcp) { ReceiveBufferSize = 16 * 1024 };
                await socket.ConnectAsync(context.DnsEndPoint, stop);
                return new NetworkStream(socket, ownsSocket: true);
            },
        };
        handler.SslOptions.RemoteCertificateValidationCallback = static (_, certificate, _, _) =>
            certificate is X509Certificate2 { Thumbprint: var print } && print == TestCertificates.Server.Thumbprint;
        return new HttpClient(handler)
        {
            Timeout = TimeSpan.FromMinutes(30),
            BaseAddress = new Uri($"{(isTls ? "https" : "http")}://127.0.0.1:{((IPEndPoint)web.EndPoint!).Port}")
        };
    }

    private static HttpServer NewServer(bool isTls) => new(
        $"{(isTls ? "https" : "http")}://127.0.0.1:0",
        new HttpOptions { BodyLimitBytes = long.MaxValue, BodyTimeout = TimeSpan.FromHours(1) },
        isTls
            ? new TlsOptions
            {
                Certificate = TlsCertificate.From(TestCertificates.Server),
                ApplicationProtocols = ["http/1.1"]
            }
            : null);

    [Theory, InlineData(false), InlineData(true)]
    public async Task A_body_down_waits_for_a_slow_peer_in_flat_memory(bool isTls)
    {
        Gauge gauge = new(AheadBytes);
        await using HttpServer web = NewServer(isTls);
        web.Get("/", async (_, response, stop) =>
        {
            await Task.Run(static () => { }, stop); // from here on not on the loop
            response.BodyLength = (long)_count * Mebi;
            byte[] mebibyte = new byte[Mebi];
            for (int i = 0; i < _count; i++)
            {
                Fill(mebibyte, i);
                await gauge.GiveAsync(response.WriteAsync(mebibyte, stop), Mebi);
            }

            gauge.End();
        });
        await web.StartAsync();
        using HttpClient client = NewClient(web, isTls);
        using HttpResponseMessage answer = await client.GetAsync(new Uri("/", UriKind.Relative),
            HttpCompletionOption.ResponseHeadersRead);
        await using Stream body = await answer.Content.ReadAsStreamAsync();
        byte[] got = new byte[Mebi], expected = new byte[Mebi];
        for (int i = 0; i < _count; i++)
        {
            await body.ReadExactlyAsync(got).AsTask().WaitAsync(RealProgram.Patience);
            Fill(expected, i);
            Assert.True(got.AsSpan().SequenceEqual(expected), $"mebibyte {i}");
            await gauge.TakeAsync(Mebi);
        }

        Assert.Equal(0, await body.ReadAsync(got));
        Assert.InRange(gauge.Holds, 4, int.MaxValue);
    }

    [Theory, InlineData(false, false), InlineData(false, true), InlineData(true, true)]
    public async Task A_body_up_waits_for_a_slow_handler_in_flat_memory(bool isTls, bool isChunked)
    {
        Gauge gauge = new(AheadBytes);
        await using HttpServer web = NewServer(isTls);
        web.Post("/", async (request, response, stop) =>
        {
            byte[] got = new byte[Mebi], expected = new byte[Mebi];
            int count = 0;
            for (int length;
                (length = await request.Body.ReadAtLeastAsync(got, Mebi, throwOnEndOfStream: false, stop)) > 0; count++)
            {
                Fill(expected, count);
                if (!got.AsSpan(0, length).SequenceEqual(expected))
                {
                    int at = got.AsSpan(0, length).CommonPrefixLength(expected);
                    int elsewhere = at + 16 <= length ? expected.AsSpan().IndexOf(got.AsSpan(at, 16)) : -1;
                    throw new InvalidDataException($"Mebibyte {count} has {length} bytes and is another from {at} on; "
                        + $"what stands there is at {elsewhere} of what was sent.");
                }

                await gauge.TakeAsync(Mebi);
            }

            response.Text(count.ToString(CultureInfo.InvariantCulture));
        });
        await web.StartAsync();
        using HttpClient client = NewClient(web, isTls);
        using Patterns content = new(gauge, isChunked);
        using HttpResponseMessage answer = await client.PostAsync(new Uri("/", UriKind.Relative), content);
        Assert.Equal(_count.ToString(CultureInfo.InvariantCulture), await answer.Content.ReadAsStringAsync());
        Assert.InRange(gauge.Holds, 4, int.MaxValue);
    }

    /// <summary>Content that is generated while it is sent.</summary>
    private sealed class Patterns(Gauge gauge, bool isChunked) : HttpContent
    {
        protected override async Task SerializeToStreamAsync(Stream stream, TransportContext? context)
        {
            byte[] mebibyte = new byte[Mebi];
            for (int i = 0; i < _count; i++)
            {
                Fill(mebibyte, i);
                await gauge.GiveAsync(stream.WriteAsync(mebibyte), Mebi);
            }

            gauge.End();
        }

        protected override bool TryComputeLength(out long length)
        {
            length = isChunked ? 0 : (long)_count * Mebi;
            return !isChunked;
        }
    }
}
