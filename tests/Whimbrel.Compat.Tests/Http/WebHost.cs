using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;
using System.Text;
using NetCoreServer;
using HttpRequest = NetCoreServer.HttpRequest;

namespace Whimbrel.Compat.Tests.Http;

/// <summary>A server of the old API that records its callbacks, and a peer that sends plain bytes to it.</summary>
internal sealed class WebHost : HttpServer
{
    internal WebHost()
        : base(IPAddress.Loopback, 0) => Assert.True(Start());

    internal ConcurrentQueue<string> Told { get; } = new();

    /// <summary>Called for each request of a session.</summary>
    internal Action<Serving, HttpRequest> Answer { get; set; } = static (session, request) =>
        session.SendResponseAsync(session.Response.MakeGetResponse($"{request.Method} {request.Url} {request.Body}"));

    internal int PortNumber => ((IPEndPoint)Endpoint).Port;

    internal static TimeSpan Deadline { get; } = TimeSpan.FromSeconds(60);

    /// <summary>Sends bytes, and returns what arrives until the server closes, or until the given text.</summary>
    internal string Ask(string bytes, string? until = null, bool finish = false)
    {
        using Socket socket = ConnectPeer();
        socket.Send(Encoding.Latin1.GetBytes(bytes));
        if (finish) socket.Shutdown(SocketShutdown.Send);
        return Read(socket, until);
    }

    internal Socket ConnectPeer()
    {
        Socket socket = new(SocketType.Stream, ProtocolType.Tcp) { ReceiveTimeout = (int)Deadline.TotalMilliseconds };
        socket.Connect(IPAddress.Loopback, PortNumber);
        return socket;
    }

    internal static string Read(Socket socket, string? until)
    {
        StringBuilder text = new();
        byte[] buffer = new byte[4096];
        while (until is null || !text.ToString().EndsWith(until, StringComparison.Ordinal))
        {
            int count = socket.Receive(buffer);
            if (count == 0) break;
            text.Append(Encoding.Latin1.GetString(buffer, 0, count));
        }

        return text.ToString();
    }

    internal static void Until(Func<bool> isSo)
    {
        long end = Environment.TickCount64 + (long)Deadline.TotalMilliseconds;
        while (!isSo())
        {
            Assert.True(Environment.TickCount64 < end, "it did not come");
            Thread.Yield();
        }
    }

    protected override TcpSession CreateSession() => new Serving(this);

    internal sealed class Serving(WebHost host) : HttpSession(host)
    {
        protected override void OnReceivedRequestHeader(HttpRequest request) =>
            host.Told.Enqueue($"header {request.Method} {request.Url}");

        protected override void OnReceivedRequest(HttpRequest request)
        {
            host.Told.Enqueue($"request {request.Method} {request.Url} {request.Body}");
            host.Answer(this, request);
        }

        protected override void OnReceivedCachedRequest(HttpRequest request, byte[] content)
        {
            host.Told.Enqueue($"cached {request.Url}");
            base.OnReceivedCachedRequest(request, content);
        }

        protected override void OnReceivedRequestError(HttpRequest request, string error) =>
            host.Told.Enqueue($"error {error}");

        protected override void OnError(SocketError error) => host.Told.Enqueue($"failure {error}");
    }
}
