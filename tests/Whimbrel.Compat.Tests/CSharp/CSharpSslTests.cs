using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using CSharpServer;
using Whimbrel.Compat.Tests.Connections;

namespace Whimbrel.Compat.Tests.CSharp;

// Behaviour of TLS that programs of CSharpServer rely on.
public sealed class CSharpSslTests : IDisposable
{
    private readonly string _folder = Directory.CreateTempSubdirectory("whimbrel-ssl-").FullName;
    private readonly Service _service = new();
    private readonly Log _log = new();

    public CSharpSslTests() => Assert.True(_service.Start());

    public void Dispose()
    {
        _service.Dispose();
        Directory.Delete(_folder, recursive: true);
    }

    private sealed class EchoServer(Service service, SslContext context, Log log)
        : SslServer(service, context, "127.0.0.1", 0)
    {
        protected override SslSession CreateSession() => new EchoSession(this, log);

        protected override void OnConnected(SslSession session) => log.Add("server: connected");

        protected override void OnHandshaked(SslSession session) => log.Add("server: handshaked");

        protected override void OnDisconnected(SslSession session) => log.Add("server: disconnected");
    }

    private sealed class EchoSession(SslServer server, Log log) : SslSession(server)
    {
        protected override void OnConnected() =>
            log.Add($"session: connected {IsConnected} {IsHandshaked} {SendAsync("early")}");

        protected override void OnHandshaked() => log.Add($"session: handshaked {IsHandshaked}");

        protected override void OnReceived(byte[] buffer, long size) => SendAsync(buffer);
    }

    private sealed class Asker(Service service, SslContext context, int port, Log log, string address = "127.0.0.1")
        : SslClient(service, context, address, port)
    {
        protected override void OnConnected() => log.Add("client: connected");

        protected override void OnHandshaked() => log.Add($"client: handshaked {SendAsync("hello")}");

        protected override void OnDisconnected() => log.Add("client: disconnected");

        protected override void OnReceived(byte[] buffer, long size) => log.Add($"client: received {size}");

        protected override void OnError(int error, string category, string message) =>
            log.Add($"client: error {error} {category}");
    }

    /// <summary>Writes NAME.pem and NAME.key, encrypted with the password.</summary>
    private void MakeCertificate(string name, string password)
    {
        using RSA key = RSA.Create(2048);
        CertificateRequest request = new("CN=" + name, key, HashAlgorithmName.SHA256, RSASignaturePadding.Pkcs1);
        request.CertificateExtensions.Add(new X509BasicConstraintsExtension(true, false, 0, true));
        using X509Certificate2 certificate = request.CreateSelfSigned(DateTimeOffset.UtcNow.AddDays(-1),
            DateTimeOffset.UtcNow.AddDays(1));
        File.WriteAllText(FileOf(name + ".pem"), certificate.ExportCertificatePem());
        File.WriteAllText(FileOf(name + ".key"), key.ExportEncryptedPkcs8PrivateKeyPem(password,
            new PbeParameters(PbeEncryptionAlgorithm.Aes256Cbc, HashAlgorithmName.SHA256, 1000)));
        File.WriteAllBytes(FileOf(name + ".der"), key.ExportPkcs8PrivateKey());
    }

    private string FileOf(string name) => Path.Combine(_folder, name);

    private SslContext ServerContext()
    {
        MakeCertificate("server", "qwerty");
        SslContext context = new(SslMethod.TLSV12);
        context.SetPassword("qwerty");
        context.UseCertificateChainFile(FileOf("server.pem"));
        context.UsePrivateKeyFile(FileOf("server.key"), SslFileFormat.PEM);
        context.UseTmpDHFile(FileOf("server.pem"));
        return context;
    }

    private static SslContext ClientContext(string ca)
    {
        SslContext context = new(SslMethod.TLSV12);
        context.SetDefaultVerifyPaths();
        context.SetRootCerts();
        context.SetVerifyMode(SslVerifyMode.VerifyPeer | SslVerifyMode.VerifyFailIfNoPeerCert);
        context.LoadVerifyFile(ca);
        return context;
    }

    [Fact]
    public void A_known_root_is_accepted_and_data_flows_after_the_handshake()
    {
        using EchoServer server = new(_service, ServerContext(), _log);
        Assert.True(server.Start());
        Log log = new();
        using Asker client = new(_service, ClientContext(FileOf("server.pem")), server.Port, log);
        Assert.True(client.ConnectAsync());
        log.Until("client: received 5");
        Assert.True(client.IsHandshaked);
        Assert.True(client.Disconnect());
        _log.Until("server: disconnected");
        Assert.Equal(["client: connected", "client: handshaked True", "client: received 5", "client: disconnected"],
            log.Lines);
        Assert.Equal(["session: connected True False False", "server: connected", "session: handshaked True",
            "server: handshaked", "server: disconnected"], _log.Lines);
    }

    [Fact]
    public void A_foreign_root_is_refused()
    {
        using EchoServer server = new(_service, ServerContext(), _log);
        Assert.True(server.Start());
        MakeCertificate("foreign", "qwerty");
        Log log = new();
        using Asker client = new(_service, ClientContext(FileOf("foreign.pem")), server.Port, log);
        Assert.False(client.Connect());
        Assert.Equal(["client: connected", $"client: error {0x0A000086} asio.ssl", "client: disconnected"], log.Lines);
    }

    [Fact]
    public void Invalid_files_throw_at_the_call_that_names_them()
    {
        MakeCertificate("server", "qwerty");
        using SslContext context = new(SslMethod.TLS);
        Assert.Throws<FileNotFoundException>(() => context.UseCertificateChainFile(FileOf("missing.pem")));
        Assert.Throws<FileNotFoundException>(() => context.UseTmpDHFile(FileOf("missing.pem")));
        Assert.Throws<CryptographicException>(() => context.LoadVerifyFile(FileOf("server.key")));
        context.UseCertificateChainFile(FileOf("server.pem"));
        Assert.Contains("call SetPassword before", Refused(), StringComparison.Ordinal);
        context.SetPassword("wrong");
        Assert.Contains("server.key cannot be opened with the password", Refused(), StringComparison.Ordinal);
        Assert.Contains("server.pem has no private key. Create one: whimbrel certs", Refused("server.pem"),
            StringComparison.Ordinal);
        context.UsePrivateKeyFile(FileOf("server.der"), SslFileFormat.ASN1);
        using EchoServer server = new(_service, context, _log);
        Assert.True(server.Start());

        string Refused(string key = "server.key") => Assert
            .Throws<CryptographicException>(() => context.UsePrivateKeyFile(FileOf(key), SslFileFormat.PEM)).Message;
    }

    // C5: in the original, a disconnect waited without a limit for the peer's close_notify.
    [Fact]
    public void A_disconnect_does_not_wait_for_a_silent_peer()
    {
        using EchoServer server = new(_service, ServerContext(), _log);
        Assert.True(server.Start());
        using Socket plain = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        plain.Connect(IPAddress.Loopback, server.Port);
        using NetworkStream stream = new(plain);
        using SslStream tls = new(stream, leaveInnerStreamOpen: true,
            static (_, certificate, _, _) => certificate is not null);
        tls.AuthenticateAsClient("server");
        _log.Until("server: handshaked");
        long start = Environment.TickCount64;
        Assert.True(server.DisconnectAll());
        Assert.True(server.Stop());
        Assert.True(Environment.TickCount64 - start < Log.Patience.TotalMilliseconds);
        Assert.Equal(0, server.ConnectedSessions);
        Assert.Equal(1, _log.Count("server: disconnected"));
    }

    // C4: in the original, the server could not see the requested host name.
    [Fact]
    public async Task A_client_that_connects_to_a_name_sends_it()
    {
        MakeCertificate("server", "qwerty");
        using X509Certificate2 certificate = X509Certificate2.CreateFromEncryptedPemFile(FileOf("server.pem"), "qwerty",
            FileOf("server.key"));
        using TcpListener listener = new(IPAddress.Loopback, 0);
        listener.Start();
        using Asker client = new(_service, ClientContext(FileOf("server.pem")),
            ((IPEndPoint)listener.LocalEndpoint).Port, new Log(), "localhost");
        using CSharpServer.TcpResolver resolver = new(_service);
        Assert.True(client.ConnectAsync(resolver));
        using Socket accepted = await listener.AcceptSocketAsync(TestContext.Current.CancellationToken);
        await using NetworkStream stream = new(accepted);
        await using SslStream tls = new(stream);
        string? name = null;
        await tls.AuthenticateAsServerAsync(
            new SslServerAuthenticationOptions
            {
                ServerCertificateSelectionCallback = (_, host) =>
                {
                    name = host;
                    return certificate;
                },
            },
            TestContext.Current.CancellationToken);
        Assert.Equal("localhost", name);
    }

    // Nothing is sent before the handshake: plaintext of a Multicast would break the handshake or leak data.
    [Fact]
    public void A_multicast_reaches_only_sessions_with_a_completed_handshake()
    {
        using EchoServer server = new(_service, ServerContext(), _log);
        Assert.True(server.Start());
        using Socket silent = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        silent.Connect(IPAddress.Loopback, server.Port);
        Log log = new();
        using Asker client = new(_service, ClientContext(FileOf("server.pem")), server.Port, log);
        Assert.True(client.ConnectAsync());
        log.Until("client: received 5");
        Assert.True(server.Multicast("to all"));
        log.Until("client: received 6");
        Assert.Equal(0, silent.Available);
    }

    [Fact]
    public void A_restart_and_a_reconnect_shake_hands_again()
    {
        using EchoServer server = new(_service, ServerContext(), _log);
        Assert.True(server.Start());
        Log log = new();
        using Asker client = new(_service, ClientContext(FileOf("server.pem")), server.Port, log);
        Assert.False(client.SendAsync("x") || client.IsHandshaked || client.Disconnect() || client.Send("x") > 0);
        Assert.True(client.Connect());
        Assert.True(client.IsHandshaked);
        Assert.True(client.Reconnect());
        Assert.True(server.Restart());
        log.Until("client: disconnected", 2);
        Assert.True(client.ConnectAsync());
        log.Until("client: handshaked True", 3);
        Assert.True(client.ReconnectAsync());
        log.Until("client: handshaked True", 4);
    }

    [Fact]
    public void Versions_that_are_broken_are_refused() =>
        Assert.Throws<NotSupportedException>(() => new SslContext(SslMethod.SSLV3));
}
