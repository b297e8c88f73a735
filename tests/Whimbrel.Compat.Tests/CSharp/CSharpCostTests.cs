using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using CSharpServer;
using Whimbrel.Compat.Tests.Connections;

namespace Whimbrel.Compat.Tests.CSharp;

// Memory cost of a message and of an idle connection.
public sealed class CSharpCostTests : IDisposable
{
    private readonly Service _service = new();
    private readonly EchoServer _server;
    private readonly string _folder = Directory.CreateTempSubdirectory("whimbrel-cost-").FullName;

    public CSharpCostTests()
    {
        _server = new EchoServer(_service);
        Assert.True(_service.Start() && _server.Start());
    }

    public void Dispose()
    {
        _server.Dispose();
        _service.Dispose();
        Directory.Delete(_folder, recursive: true);
    }

    // Because the user may keep it, there is one array per message, and nothing else.
    [Fact]
    public void A_message_costs_the_array_that_the_user_gets() =>
        // 1000 bytes, the array header, and what the runtime allocates meanwhile
        Assert.InRange(Cost.OfMessage(_server.Port, 1000), 1024, 1040);

    [Fact]
    public void An_idle_connection_costs_less_than_four_KiB() =>
        Assert.InRange(Cost.OfIdleConnection(_server.Port), 0, 4096);

    [Fact]
    public void A_message_over_TLS_costs_the_array_that_the_user_gets()
    {
        using SslContext context = new(SslMethod.TLS);
        context.UseCertificateChainFile(FileOf("own.pem", SslTests.Certificate.ExportCertificatePem()));
        using (ECDsa? key = SslTests.Certificate.GetECDsaPrivateKey())
            context.UsePrivateKeyFile(FileOf("own.key", key!.ExportPkcs8PrivateKeyPem()), SslFileFormat.PEM);
        using SslEcho server = new(_service, context);
        Assert.True(server.Start());
        using Socket socket = Cost.Connect(server.Port);
        using SslStream stream = new(new NetworkStream(socket), leaveInnerStreamOpen: false, SslTests.Own);
        stream.AuthenticateAsClient("localhost");
        byte[] message = new byte[1000], answer = new byte[1000];
        Assert.InRange(
            Cost.Of(() =>
            {
                stream.Write(message);
                stream.ReadExactly(answer);
            }),
            1024,
            1040);
    }

    // The sender's end point is cached while datagrams come from one sender only.
    [Fact]
    public void A_datagram_costs_its_array()
    {
        using UdpEcho server = new(_service);
        Assert.True(server.Start());
        using Socket socket = new(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp)
        {
            ReceiveTimeout = (int)Log.Patience.TotalMilliseconds
        };
        socket.Connect(IPAddress.Loopback, server.Port);
        byte[] message = new byte[1000], answer = new byte[1000];
        Assert.InRange(
            Cost.Of(() =>
            {
                socket.Send(message);
                Cost.Read(socket, answer);
            }),
            1024,
            1040);
    }

    private string FileOf(string name, string text)
    {
        string path = Path.Combine(_folder, name);
        File.WriteAllText(path, text);
        return path;
    }

    private sealed class SslEcho(Service service, SslContext context) : SslServer(service, context, "127.0.0.1", 0)
    {
        protected override SslSession CreateSession() => new SslEchoSession(this);
    }

    private sealed class SslEchoSession(SslServer server) : SslSession(server)
    {
        protected override void OnReceived(byte[] buffer, long size) => SendAsync(buffer, 0, size);
    }

    private sealed class UdpEcho(Service service) : UdpServer(service, "127.0.0.1", 0)
    {
        protected override void OnStarted() => ReceiveAsync();

        protected override void OnReceived(UdpEndpoint endpoint, byte[] buffer, long size) =>
            SendAsync(endpoint, buffer, 0, size);

        protected override void OnSent(UdpEndpoint endpoint, long sent) => ReceiveAsync();
    }

    private sealed class EchoServer(Service service) : TcpServer(service, "127.0.0.1", 0)
    {
        protected override TcpSession CreateSession() => new EchoSession(this);
    }

    private sealed class EchoSession(TcpServer server) : TcpSession(server)
    {
        protected override void OnReceived(byte[] buffer, long size) => SendAsync(buffer, 0, size);
    }
}
