using System.Net;
using CSharpServer;

namespace Whimbrel.Bench.Peers;

/// <summary>
/// Servers written against the classes of CSharpServer, as its performance programs are, over <c>Whimbrel.Compat</c>,
/// on the engine that its service chooses.
/// </summary>
internal static class CSharpServerPeer
{
    /// <summary>Starts the server of a kind: tcp, push, udp or tls.</summary>
    public static bool TryStart(string kind, int port, string? certificate, string? key, Action<IPEndPoint> tell)
    {
        Service service = new(1);
        service.Start();
        bool isStarted;
        switch (kind)
        {
            case "tcp":
                isStarted = new Server(service, port, static server => new Echo(server)).Start();
                break;
            case "push":
                var push = new Server(service, port, static server => new Listener(server));
                isStarted = push.Start();
                OldProducer.Start(message => push.Multicast(message, 0, message.Length));
                break;
            case "udp":
                isStarted = new UdpEcho(service, port).Start();
                break;
            case "tls" when certificate is not null && key is not null:
                SslContext context = new(SslMethod.TLS);
                context.UseCertificateChainFile(certificate);
                context.UsePrivateKeyFile(key, SslFileFormat.PEM);
                isStarted = new TlsServer(service, context, port).Start();
                break;
            default:
                return false;
        }

        if (isStarted)
        {
            tell(new IPEndPoint(IPAddress.Loopback, port));
        }

        return isStarted;
    }

    private sealed class Server(Service service, int port, Func<TcpServer, TcpSession> make)
        : TcpServer(service, "127.0.0.1", port)
    {
        protected override TcpSession CreateSession() => make(this);
    }

    private sealed class Echo(TcpServer server) : TcpSession(server)
    {
        protected override void OnReceived(byte[] buffer, long size) => SendAsync(buffer, 0, size);
    }

    private sealed class Listener(TcpServer server) : TcpSession(server)
    {
        protected override bool OnSending(long size) => BytesPending + size <= OldProducer.MostPending;
    }

    private sealed class TlsServer(Service service, SslContext context, int port)
        : SslServer(service, context, "127.0.0.1", port)
    {
        protected override SslSession CreateSession() => new TlsEcho(this);
    }

    private sealed class TlsEcho(SslServer server) : SslSession(server)
    {
        protected override void OnReceived(byte[] buffer, long size) => SendAsync(buffer, 0, size);
    }

    private sealed class UdpEcho(Service service, int port) : UdpServer(service, "127.0.0.1", port)
    {
        protected override void OnStarted() => ReceiveAsync();

        protected override void OnReceived(UdpEndpoint endpoint, byte[] buffer, long size) =>
            SendAsync(endpoint, buffer, 0, size);

        protected override void OnSent(UdpEndpoint endpoint, long sent) => ReceiveAsync();
    }
}
