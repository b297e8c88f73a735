using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Authentication;
using NetCoreServer;
using Whimbrel.Compat.Tests.Connections;
using HttpRequest = NetCoreServer.HttpRequest;
using HttpResponse = NetCoreServer.HttpResponse;

namespace Whimbrel.Compat.Tests.Http;

// What a request and its answer cost in memory with the old classes. What is handed out as text is made anew, as it always was; the rest costs nothing.
public sealed class HttpCostTests
{
    private static readonly byte[] s_body = new byte[100];

    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void Requests_and_their_answers_cost_nothing(Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        using PlainServer server = new();
        Assert.True(server.Start());
        using Socket socket = Cost.Connect(((IPEndPoint)server.Endpoint).Port);
        byte[] answer = new byte[2 * AnswerLength];
        double cost = Settled(() =>
        {
            socket.Send(Asking);
            Cost.Read(socket, answer);
        });
        Assert.True(answer.AsSpan().StartsWith("HTTP/1.1 200 OK\r\n"u8) && answer.AsSpan().EndsWith(s_body));
        Assert.InRange(cost, 0, 1);
    }

    [Fact]
    public void Requests_over_TLS_and_their_answers_cost_nothing()
    {
        using TlsServer server = new();
        Assert.True(server.Start());
        using Socket socket = Cost.Connect(((IPEndPoint)server.Endpoint).Port);
        using SslStream stream = new(new NetworkStream(socket), leaveInnerStreamOpen: false, SslTests.Own);
        stream.AuthenticateAsClient("localhost");
        byte[] answer = new byte[2 * AnswerLength];
        double cost = Settled(() =>
        {
            stream.Write(Asking);
            stream.ReadExactly(answer);
        });
        Assert.True(answer.AsSpan().StartsWith("HTTP/1.1 200 OK\r\n"u8) && answer.AsSpan().EndsWith(s_body));
        Assert.InRange(cost, 0, 1);
    }

    private static byte[] Asking { get; } = [.. "GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\nPOST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\n"u8, .. s_body];

    private static int AnswerLength { get; } = (int)new HttpResponse().MakeGetResponse(s_body, "text/plain").Cache.Size;

    // Code that the compiler has not gone over again allocates a little where it boxes.
    private static double Settled(Action twoRequests)
    {
        double cost = double.MaxValue;
        for (int run = 0; run < 8 && cost > 1; run++) cost = Math.Min(cost, Cost.Of(twoRequests));
        return cost;
    }

    private sealed class PlainServer() : HttpServer(IPAddress.Loopback, 0)
    {
        protected override TcpSession CreateSession() => new PlainSession(this);
    }

    private sealed class PlainSession(HttpServer server) : HttpSession(server)
    {
        protected override void OnReceivedRequest(HttpRequest request) => SendResponseAsync(Response.MakeGetResponse(s_body, "text/plain"));
    }

    private sealed class TlsServer() : HttpsServer(new SslContext(SslProtocols.Tls13, SslTests.Certificate), IPAddress.Loopback, 0)
    {
        protected override SslSession CreateSession() => new TlsSession(this);
    }

    private sealed class TlsSession(HttpsServer server) : HttpsSession(server)
    {
        protected override void OnReceivedRequest(HttpRequest request) => SendResponseAsync(Response.MakeGetResponse(s_body, "text/plain"));
    }
}
