using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Cryptography.X509Certificates;

namespace Whimbrel.Gallery;

// Programs over TLS, with certificates made as their first lines say, and .NET's SslStream as the client.
public sealed class TlsProgramTests(TlsProgramTests.Certificates certificates)
    : IClassFixture<TlsProgramTests.Certificates>
{
    [Fact]
    public async Task A_client_is_known_by_its_certificate_and_others_are_rejected()
    {
        await using RunningProgram mtls =
            await RunningProgram.StartAsync("mtls", "tls://127.0.0.1:0", certificates.Folder);
        using (LineClient anna = new(await ConnectAsync(mtls.EndPoint, certificates.Client)))
        {
            Assert.Equal("Welcome, anna.", await anna.ReadLineAsync());
            Assert.Equal("hello", await anna.AskAsync("hello\n"));
        }

        using LineClient stranger = new(await ConnectAsync(mtls.EndPoint, null));
        await Assert.ThrowsAnyAsync<IOException>(stranger.ReadLineAsync); // in TLS 1.3 the rejection follows later
        Assert.Contains("was rejected", await mtls.ReadLineAsync(), StringComparison.Ordinal);
        await mtls.StopAsync();
    }

    [Fact]
    public async Task A_connection_continues_encrypted_after_STARTTLS()
    {
        await using RunningProgram mail =
            await RunningProgram.StartAsync("starttls", "tcp://127.0.0.1:0", certificates.Folder);
        using TcpClient tcp = new();
        await tcp.ConnectAsync(mail.EndPoint);
        using LineClient plain = new(tcp.GetStream());
        Assert.Equal("220 mail.example ready", await plain.ReadLineAsync());
        Assert.Equal("250-mail.example", await plain.AskAsync("EHLO test\r\n"));
        Assert.Equal("250 STARTTLS", await plain.ReadLineAsync());
        Assert.StartsWith("530 ", await plain.AskAsync("MAIL FROM:<a@b.example>\r\n"), StringComparison.Ordinal);
        Assert.StartsWith("220 ", await plain.AskAsync("STARTTLS\r\n"), StringComparison.Ordinal);
        using LineClient secure = new(await certificates.SecureAsync(tcp.GetStream(), null));
        Assert.Equal("250 mail.example", await secure.AskAsync("EHLO test\r\n"));
        Assert.Equal("221 Bye", await secure.AskAsync("QUIT\r\n"));
        Assert.Null(await secure.ReadLineAsync());
        await mail.StopAsync();
    }

    [Fact]
    public async Task A_command_sent_together_with_STARTTLS_ends_the_connection()
    {
        await using RunningProgram mail =
            await RunningProgram.StartAsync("starttls", "tcp://127.0.0.1:0", certificates.Folder);
        using LineClient attacked = await LineClient.ConnectAsync(mail.EndPoint);
        await attacked.ReadLineAsync();
        await attacked.SendAsync("STARTTLS\r\nNOOP\r\n");
        try
        {
            while (await attacked.ReadLineAsync() is { } line)
                Assert.DoesNotContain("250", line, StringComparison.Ordinal);
        }
        catch (IOException)
        {
            // A reset is an end as well.
        }

        await mail.StopAsync();
    }

    private async Task<SslStream> ConnectAsync(IPEndPoint endPoint, X509Certificate2? client)
    {
        TcpClient tcp = new();
        await tcp.ConnectAsync(endPoint);
        return await certificates.SecureAsync(tcp.GetStream(), client);
    }

    /// <summary>The files that `whimbrel certs --client anna` makes.</summary>
    public sealed class Certificates : IAsyncLifetime
    {
        private readonly string _parent = Directory.CreateTempSubdirectory("gallery-").FullName;

        public string Folder => Path.Combine(_parent, "certs");

        public X509Certificate2 Client =>
            X509CertificateLoader.LoadPkcs12FromFile(Path.Combine(Folder, "anna.pfx"), null);

        public async ValueTask InitializeAsync()
        {
            string configuration = new DirectoryInfo(AppContext.BaseDirectory).Parent!.Name;
            string tool = Repository.PathOf($"src/Whimbrel.Tool/bin/{configuration}/net10.0/Whimbrel.Tool.dll");
            (int code, string output) =
                await RunningProgram.RunCommandAsync(tool, "certs", "--client", "anna", "--out", Folder);
            Assert.True(code == 0, output);
        }

        public ValueTask DisposeAsync()
        {
            Directory.Delete(_parent, recursive: true);
            return ValueTask.CompletedTask;
        }

        public async Task<SslStream> SecureAsync(Stream stream, X509Certificate2? client)
        {
            X509Certificate2Collection roots = [];
            roots.ImportFromPemFile(Path.Combine(Folder, "ca.pem"));
            X509ChainPolicy policy = new()
            {
                TrustMode = X509ChainTrustMode.CustomRootTrust,
                RevocationMode = X509RevocationMode.NoCheck,
            };
            policy.CustomTrustStore.AddRange(roots);
            SslStream secure = new(stream);
            await secure.AuthenticateAsClientAsync(new SslClientAuthenticationOptions
            {
                TargetHost = "localhost",
                CertificateChainPolicy = policy,
                ClientCertificates = client is null ? null : [client],
            }).WaitAsync(RunningProgram.Patience);
            return secure;
        }
    }
}
