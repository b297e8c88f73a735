using System.Globalization;
using System.Net;
using System.Security.Authentication;
using System.Security.Cryptography.X509Certificates;
using NetCoreServer;
using Whimbrel;
using Whimbrel.Compat;

namespace Whimbrel.Bench.Peers;

/// <summary>
/// Servers written against the classes of NetCoreServer, as its performance programs are, over <c>Whimbrel.Compat</c>.
/// </summary>
internal static class NetCoreServerPeer
{
    /// <summary>Starts the server of a kind: tcp, push, tls, udp, web, web-tls, sockets or sockets-tls.</summary>
    public static bool TryStart(string kind, int port, string? folder, X509Certificate2? certificate,
        Action<IPEndPoint> tell)
    {
        var address = IPAddress.Loopback;
        var context = certificate is null ? null : new SslContext(SslProtocols.Tls13, certificate);
        // Only the HTTP servers have files: the folder exists when one of them is measured.
        var bodies = folder is null || !kind.StartsWith("web", StringComparison.Ordinal) ? null : BodiesOf(folder);
        switch (kind)
        {
            case "tcp":
                return IsStarted(new Server(address, port, static server => new Echo(server)), tell);
            case "push":
                var push = new Server(address, port, static server => new Listener(server));
                if (!IsStarted(push, tell))
                {
                    return false;
                }

                OldProducer.Start(message => push.Multicast(message));
                return true;
            case "tls" when context is not null:
                return IsStarted(new TlsServer(context, address, port), tell);
            case "udp":
                var udp = new UdpEcho(address, port);
                if (!udp.Start())
                {
                    return false;
                }

                tell((IPEndPoint)udp.Endpoint);
                return true;
            case "web" when bodies is not null:
                return IsStarted(new Web(bodies, address, port), tell);
            case "web-tls" when bodies is not null && context is not null:
                return IsStarted(new WebTls(bodies, context, address, port), tell);
            case "sockets":
                return IsStarted(new Sockets(address, port), tell);
            case "sockets-tls" when context is not null:
                return IsStarted(new SocketsTls(context, address, port), tell);
            default:
                return false;
        }
    }

    /// <summary>Starts an echo server over a Unix socket.</summary>
    public static bool TryStart(string path, Action<string> tell)
    {
        var server = new UnixServer(path);
        if (!server.Start())
        {
            return false;
        }

        tell(path);
        return true;
    }

    private static Dictionary<string, byte[]> BodiesOf(string folder)
    {
        WebBodies bodies = new(folder);
        return WebBodies.Sizes.ToArray()
            .ToDictionary(static size => string.Create(CultureInfo.InvariantCulture, $"/bytes/{size}"), bodies.Of);
    }

    private static bool IsStarted(TcpServer server, Action<IPEndPoint> tell)
    {
        server.OptionNoDelay = true;
        if (!server.Start())
        {
            return false;
        }

        tell((IPEndPoint)server.Endpoint);
        return true;
    }

    private static bool IsStarted(SslServer server, Action<IPEndPoint> tell)
    {
        server.OptionNoDelay = true;
        if (!server.Start())
        {
            return false;
        }

        tell((IPEndPoint)server.Endpoint);
        return true;
    }

    private sealed class Server(IPAddress address, int port, Func<TcpServer, TcpSession> make)
        : TcpServer(address, port)
    {
        protected override TcpSession CreateSession() => make(this);
    }

    private sealed class Echo(TcpServer server) : TcpSession(server)
    {
        protected override void OnReceived(byte[] buffer, long offset, long size) => SendAsync(buffer, offset, size);
    }

    private sealed class Listener(TcpServer server) : TcpSession(server)
    {
        // A slow client misses messages and stays connected, as in the old programs.
        public override bool SendAsync(ReadOnlySpan<byte> buffer) =>
            BytesPending + BytesSending + buffer.Length <= OldProducer.MostPending && base.SendAsync(buffer);
    }

    private sealed class TlsServer(SslContext context, IPAddress address, int port) : SslServer(context, address, port)
    {
        protected override SslSession CreateSession() => new TlsEcho(this);
    }

    private sealed class TlsEcho(SslServer server) : SslSession(server)
    {
        protected override void OnReceived(byte[] buffer, long offset, long size) => SendAsync(buffer, offset, size);
    }

    private sealed class UnixServer(string path) : UdsServer(path)
    {
        protected override UdsSession CreateSession() => new UnixEcho(this);
    }

    private sealed class UnixEcho(UdsServer server) : UdsSession(server)
    {
        protected override void OnReceived(byte[] buffer, long offset, long size) => SendAsync(buffer, offset, size);
    }

    private sealed class UdpEcho(IPAddress address, int port) : UdpServer(address, port)
    {
        protected override void OnStarted() => ReceiveAsync();

        protected override void OnReceived(EndPoint endpoint, byte[] buffer, long offset, long size)
        {
            if (size == 0)
            {
                ThreadPool.QueueUserWorkItem(_ => ReceiveAsync());
            }

            SendAsync(endpoint, buffer, offset, size);
        }

        // As in programs of the old library, to avoid a recursion there.
        protected override void OnSent(EndPoint endpoint, long sent) =>
            ThreadPool.QueueUserWorkItem(_ => ReceiveAsync());
    }

    private sealed class Web(Dictionary<string, byte[]> bodies, IPAddress address, int port) : HttpServer(address, port)
    {
        protected override TcpSession CreateSession() => new WebSession(this, bodies);
    }

    private sealed class WebSession(HttpServer server, Dictionary<string, byte[]> bodies) : HttpSession(server)
    {
        protected override void OnReceivedRequest(HttpRequest request) =>
            SendResponseAsync(Answer(bodies, request, Response));
    }

    private sealed class WebTls(Dictionary<string, byte[]> bodies, SslContext context, IPAddress address, int port)
        : HttpsServer(context, address, port)
    {
        protected override SslSession CreateSession() => new WebTlsSession(this, bodies);
    }

    private sealed class WebTlsSession(HttpsServer server, Dictionary<string, byte[]> bodies) : HttpsSession(server)
    {
        protected override void OnReceivedRequest(HttpRequest request) =>
            SendResponseAsync(Answer(bodies, request, Response));
    }

    private static HttpResponse Answer(Dictionary<string, byte[]> bodies, HttpRequest request, HttpResponse response) =>
        bodies.TryGetValue(request.Url, out var body)
            ? response.MakeGetResponse(body, "application/octet-stream")
            : response.MakeErrorResponse(404, "");

    private sealed class Sockets(IPAddress address, int port) : WsServer(address, port)
    {
        protected override TcpSession CreateSession() => new Socket(this);
    }

    private sealed class Socket(WsServer server) : WsSession(server)
    {
        private string _path = "";
        private long _messages;
        private long _bytes;

        public override void OnWsConnected(HttpRequest request) =>
            _path = request.Url.StartsWith("/stream/", StringComparison.Ordinal) ? "/discard" : request.Url;

        // The old classes do not report the type of a message: a request of the load program is recognized by its
        // length.
        public override void OnWsReceived(byte[] buffer, long offset, long size)
        {
            switch (_path)
            {
                case "/room" when size > 1:
                    ((WsServer)Server).MulticastText(buffer, offset, size);
                    break;
                case "/room":
                    SendTextAsync(buffer, offset, size);
                    break;
                case "/discard" when size >= 1024:
                    _messages++;
                    _bytes += size;
                    break;
                case "/discard":
                    SendTextAsync(string.Create(CultureInfo.InvariantCulture, $"{_messages} {_bytes}"));
                    break;
                default:
                    SendBinaryAsync(buffer, offset, size);
                    break;
            }
        }
    }

    private sealed class SocketsTls(SslContext context, IPAddress address, int port) : WssServer(context, address, port)
    {
        protected override SslSession CreateSession() => new SocketTlsEcho(this);
    }

    private sealed class SocketTlsEcho(WssServer server) : WssSession(server)
    {
        public override void OnWsReceived(byte[] buffer, long offset, long size) =>
            SendBinaryAsync(buffer, offset, size);
    }
}
