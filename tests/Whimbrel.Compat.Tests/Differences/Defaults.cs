using System.Net;
using NetCoreServer;

namespace Whimbrel.Compat.Tests.Differences;

/// <summary>Values of new objects.</summary>
internal static class Defaults
{
    internal static IEnumerable<Behaviour> All =>
    [
        new(
            "Options of new TCP and TLS objects",
            static () => Seen.Lines(
                static () => Seen.Options(new TcpServer(IPAddress.Loopback, 0)),
                static () => Seen.Options(new TcpClient(IPAddress.Loopback, 1)),
                static () => Seen.Options(new TcpSession(new TcpServer(IPAddress.Loopback, 0))),
                static () => Seen.Options(new SslServer(new SslContext(), IPAddress.Loopback, 0)),
                static () => Seen.Options(new SslClient(new SslContext(), IPAddress.Loopback, 1))),
            "AcceptorBacklog=1024 DualMode=False ExclusiveAddressUse=False KeepAlive=False NoDelay=False "
            + "ReceiveBufferSize=8192 ReuseAddress=False SendBufferSize=8192 TcpKeepAliveInterval=-1 "
            + "TcpKeepAliveRetryCount=-1 TcpKeepAliveTime=-1 ~ DualMode=False KeepAlive=False NoDelay=False "
            + "ReceiveBufferLimit=0 ReceiveBufferSize=8192 SendBufferLimit=0 SendBufferSize=8192 "
            + "TcpKeepAliveInterval=-1 TcpKeepAliveRetryCount=-1 TcpKeepAliveTime=-1 ~ ReceiveBufferLimit=0 "
            + "ReceiveBufferSize=8192 SendBufferLimit=0 SendBufferSize=8192 ~ AcceptorBacklog=1024 DualMode=False "
            + "ExclusiveAddressUse=False KeepAlive=False NoDelay=False ReceiveBufferSize=8192 ReuseAddress=False "
            + "SendBufferSize=8192 TcpKeepAliveInterval=-1 TcpKeepAliveRetryCount=-1 TcpKeepAliveTime=-1 ~ "
            + "DualMode=False KeepAlive=False NoDelay=False ReceiveBufferLimit=0 ReceiveBufferSize=8192 "
            + "SendBufferLimit=0 SendBufferSize=8192 TcpKeepAliveInterval=-1 TcpKeepAliveRetryCount=-1 "
            + "TcpKeepAliveTime=-1"),
        new(
            "Options of new UDP and Unix objects",
            static () => Seen.Lines(
                static () => Seen.Options(new UdpServer(IPAddress.Loopback, 0)),
                static () => Seen.Options(new UdpClient(IPAddress.Loopback, 1)),
                static () => Seen.Options(new UdsServer("/tmp/x")),
                static () => Seen.Options(new UdsClient("/tmp/x"))),
            "DualMode=False ExclusiveAddressUse=False ReceiveBufferLimit=0 ReceiveBufferSize=8192 "
            + "ReuseAddress=False SendBufferLimit=0 SendBufferSize=8192 ~ DualMode=False ExclusiveAddressUse=False "
            + "Multicast=False ReceiveBufferLimit=0 ReceiveBufferSize=8192 ReuseAddress=False SendBufferLimit=0 "
            + "SendBufferSize=8192 ~ AcceptorBacklog=1024 ReceiveBufferSize=8192 SendBufferSize=8192 ~ "
            + "ReceiveBufferLimit=0 ReceiveBufferSize=8192 SendBufferLimit=0 SendBufferSize=8192"),
        new(
            "Flags of new objects",
            static () => Seen.Lines(
                static () => Seen.Properties(
                new WsClient(IPAddress.Loopback, 1), "IsConnected", "IsConnecting", "IsDisposed", "IsSocketDisposed",
                "Port", "Address"),
                static () => Seen.Properties(
                new UdpClient(IPAddress.Loopback, 1), "IsConnected", "IsDisposed", "IsSocketDisposed", "Port",
                "Address", "Endpoint", "OptionMulticast"),
                static () => Seen.Properties(
                new TcpSession(new TcpServer(IPAddress.Loopback, 0)), "IsConnected", "IsDisposed", "IsSocketDisposed",
                "Socket", "BytesSent"),
                static () =>
            {
                HttpServer server = new(IPAddress.Loopback, 0);
                return Seen.All(() => server.Cache.Empty, () => server.Cache.Size, () => server.IsStarted);
            }),
            "IsConnected=False IsConnecting=False IsDisposed=False IsSocketDisposed=True Port=1 "
            + "Address=127.0.0.1 ~ IsConnected=False IsDisposed=False IsSocketDisposed=True Port=1 "
            + "Address=127.0.0.1 Endpoint=127.0.0.1:1 OptionMulticast=False ~ IsConnected=False IsDisposed=False "
            + "IsSocketDisposed=True Socket=null BytesSent=0 ~ True 0 False"),
        new(
            "A new SslContext",
            static () => Seen.Properties(
            new SslContext(), "Protocols", "Certificate", "Certificates", "ClientCertificateRequired",
            "CertificateValidationCallback"),
            "Protocols=Tls13 Certificate=null Certificates=null ClientCertificateRequired=False "
            + "CertificateValidationCallback=null"),
    ];
}
