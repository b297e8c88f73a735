using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Authentication;
using System.Security.Cryptography.X509Certificates;
using System.Text;

namespace Whimbrel.Tool.Tests.Tls;

/// <summary> Trust decisions, with our side as client, then as server, and SslStream or OpenSSL as the peer. Each case
/// must have the same result with every peer and provider. </summary>
public class TrustTests
{
    private const TlsFailure Ok = TlsFailure.None;
    private const TlsFailure Rejected = TlsFailure.CertificateRejected;

#pragma warning disable CA5397, SYSLIB0039, CA5398 // obsolete versions are enabled to test that they are rejected
    // Our side is the client: which servers does it trust?
    private static readonly TrustCase[] s_connecting =
    [
        new("a good certificate"),
        new("an RSA certificate") { Server = "server RSA" },
        new("TLS 1.2 when the server has no other") { PeerProtocols = SslProtocols.Tls12 },
        new("TLS 1.3 when we allow no other") { Protocols = SslProtocols.Tls13 },
        new("TLS 1.1 only")
        {
            PeerProtocols = SslProtocols.Tls11,
            Failure = TlsFailure.NoCommonVersion,
            Says = "1.2, 1.3"
        },
        new("another host") { Host = "other.example", Failure = Rejected, Says = "other.example" },
        new("a wildcard that covers") { Server = "server wildcard", Host = "one.chat.example" },
        new("a wildcard and two labels")
        {
            Server = "server wildcard",
            Host = "one.two.chat.example",
            Failure = Rejected,
            Says = "one.two.chat.example"
        },
        new("an address that is covered") { Server = "server address", Host = "127.0.0.1" },
        new("an address that is not") { Host = "127.0.0.1", Failure = Rejected, Says = "127.0.0.1" },
        new("a name in the subject only")
        {
            Server = "server without names",
            Failure = Rejected,
            Says = TrustMaterial.Host
        },
        new("expired") { Server = "server expired", Failure = Rejected, Says = "expired" },
        new("not yet valid") { Server = "server not yet valid", Failure = Rejected, Says = "not valid before" },
        new("self-signed") { Server = "server self-signed", Failure = Rejected, Says = "trusted" },
        new("an unknown authority") { Server = "server of other root", Failure = Rejected, Says = "trusted" },
        new("a client's certificate on a server") { Server = "client", Failure = Rejected, Says = "" },
        new("an intermediate that is sent") { Server = "server of intermediate" },
        new("an intermediate that is not sent")
        {
            Server = "server of intermediate",
            Whole = false,
            Failure = Rejected,
            Says = "intermediate"
        },
        new("an issuer that is no authority") { Server = "server of a server", Failure = Rejected },
        new("revoked by a list")
        {
            Server = "server revoked",
            LooksAtList = true,
            Failure = Rejected,
            Says = "revoked"
        },
        new("not in the list") { LooksAtList = true },
        new("revoked and no list given") { Server = "server revoked" },
        new("self-signed with the right pin") { Server = "server self-signed", Pin = "server self-signed" },
        new("good with the wrong pin") { Pin = "client", Failure = Rejected, Says = "pin" },
        new("expired and the hook says yes") { Server = "server expired", Verdict = true },
        new("good and the hook says no") { Verdict = false, Failure = Rejected },
        new("a server that asks, and nothing to show") { Asks = TlsClientCertificates.Requested },
        new("a server that requires, and nothing to show")
        {
            Asks = TlsClientCertificates.Required,
            Failure = TlsFailure.RefusedByPeer
        },
        new("a server that requires, and a good one") { Asks = TlsClientCertificates.Required, Client = "client" },
        new("a server that requires, and one of another authority")
        {
            Asks = TlsClientCertificates.Required,
            Client = "client of other root",
            Failure = TlsFailure.RefusedByPeer
        },
        new("an application protocol in common") { ServerApplications = ["b", "a"], ClientApplications = ["a", "c"] },
        new("no application protocol in common")
        {
            ServerApplications = ["b"],
            ClientApplications = ["a"],
            Failure = TlsFailure.NoCommonApplicationProtocol
        },
    ];

    // Our side is the server: which clients does it accept?
    private static readonly TrustCase[] s_serving =
    [
        new("nobody is asked"),
        new("nobody is asked, over TLS 1.2") { PeerProtocols = SslProtocols.Tls12 },
        new("TLS 1.1 only")
        {
            PeerProtocols = SslProtocols.Tls11,
            Failure = TlsFailure.NoCommonVersion,
            Says = "1.2, 1.3"
        },
        new("TLS 1.2 where only 1.3 is allowed")
        {
            Protocols = SslProtocols.Tls13,
            PeerProtocols = SslProtocols.Tls12,
            Failure = TlsFailure.NoCommonVersion,
            Says = "1.3"
        },
        new("a client that trusts somebody else")
        {
            Server = "server of other root",
            Failure = TlsFailure.RefusedByPeer
        },
        new("a client that means another host") { Host = "other.example", Failure = TlsFailure.RefusedByPeer },
        new("our intermediate is sent") { Server = "server of intermediate" },
        new("requested and none") { Asks = TlsClientCertificates.Requested },
        new("requested and good") { Asks = TlsClientCertificates.Requested, Client = "client" },
        new("requested and bad")
        {
            Asks = TlsClientCertificates.Requested,
            Client = "client of other root",
            Failure = Rejected,
            Says = "trusted"
        },
        new("required and none") { Asks = TlsClientCertificates.Required, Failure = Rejected, Says = "no certificate" },
        new("required and good") { Asks = TlsClientCertificates.Required, Client = "client" },
        new("required and good, over TLS 1.2")
        {
            Asks = TlsClientCertificates.Required,
            Client = "client",
            PeerProtocols = SslProtocols.Tls12
        },
        new("required and of another authority")
        {
            Asks = TlsClientCertificates.Required,
            Client = "client of other root",
            Failure = Rejected,
            Says = "trusted"
        },
        new("required and expired")
        {
            Asks = TlsClientCertificates.Required,
            Client = "client expired",
            Failure = Rejected,
            Says = "expired"
        },
        new("required and not yet valid")
        {
            Asks = TlsClientCertificates.Required,
            Client = "client not yet valid",
            Failure = Rejected,
            Says = "not valid before"
        },
        new("required and a server's") { Asks = TlsClientCertificates.Required, Client = "server", Failure = Rejected },
        new("required and self-signed")
        {
            Asks = TlsClientCertificates.Required,
            Client = "client self-signed",
            Failure = Rejected,
            Says = "trusted"
        },
        new("required and the intermediate is sent")
        {
            Asks = TlsClientCertificates.Required,
            Client = "client of intermediate"
        },
        new("required and the intermediate is missing")
        {
            Asks = TlsClientCertificates.Required,
            Client = "client of intermediate",
            Whole = false,
            Failure = Rejected,
            Says = "intermediate"
        },
        new("required and revoked by a list")
        {
            Asks = TlsClientCertificates.Required,
            Client = "client revoked",
            LooksAtList = true,
            Failure = Rejected,
            Says = "revoked"
        },
        new("required and the hook says no")
        {
            Asks = TlsClientCertificates.Required,
            Client = "client",
            Verdict = false,
            Failure = Rejected
        },
        new("an application protocol in common") { ServerApplications = ["b", "a"], ClientApplications = ["a", "b"] },
        new("no application protocol in common")
        {
            ServerApplications = ["b"],
            ClientApplications = ["a"],
            Failure = TlsFailure.NoCommonApplicationProtocol
        },
    ];
#pragma warning restore CA5397, SYSLIB0039, CA5398

    public static TheoryData<string, string, TlsProvider> Connecting => All(s_connecting);

    public static TheoryData<string, string, TlsProvider> Serving => All(s_serving);

    [Theory]
    [MemberData(nameof(Connecting))]
    public async Task Our_client_connects(string name, string peerName, TlsProvider provider)
    {
        TrustCase which = s_connecting.Single(c => c.Name == name);
        await using TrustPeer peer = PeerOf(peerName, which);
        using TemporaryFolder folder = new();
        int port = await peer.ListenAsync(which);
        TlsOptions tls = new()
        {
            Provider = provider,
            HostName = which.Host,
            Roots = TrustMaterial.Get(which.Roots).Roots,
            Certificate = which.Client is { } client ? TrustMaterial.Get(client).ToTls() : null,
            Protocols = which.Protocols,
            ApplicationProtocols = which.ClientApplications,
            RevocationLists = which.LooksAtList ? [TrustMaterial.Get("list").Write(folder, "list.pem")] : [],
            PinnedKeys = which.Pin is { } pin ? [TlsCertificate.PinOf(TrustMaterial.Get(pin).Certificate)] : [],
            Verify = which.Verdict is { } verdict ? _ => verdict : null,
        };
        TrustSession session = new(connects: true);
        await using Client connector =
            new(new ClientOptions { EndPoint = new IPEndPoint(IPAddress.Loopback, port), Tls = tls }, () => session);
        try
        {
            await connector.ConnectAsync(TestContext.Current.CancellationToken);
        }
        catch (NetworkException)
        {
            // The cause is in the close reason of the session.
        }
        catch (ArgumentException e) when (provider == TlsProvider.OpenSsl)
        {
            Assert.Skip(e.Message);
        }

        (string? line, CloseReason reason) = await session.EndAsync();
        Judge(which, peerName, line, reason);
        if (which.Failure == Ok && which.ServerApplications.Length > 0)
            Assert.Equal("a", session.Tls!.ApplicationProtocol);
        if (which.Failure == Ok)
            Assert.Equal(TrustMaterial.Get(which.Server).Certificate.Thumbprint,
                session.Tls!.PeerCertificate!.Thumbprint);
    }

    [Theory]
    [MemberData(nameof(Serving))]
    public async Task Our_server_accepts(string name, string peerName, TlsProvider provider)
    {
        TrustCase which = s_serving.Single(c => c.Name == name);
        await using TrustPeer peer = PeerOf(peerName, which);
        using TemporaryFolder folder = new();
        TlsOptions tls = new()
        {
            Provider = provider,
            Certificate = TrustMaterial.Get(which.Server).ToTls(),
            ClientCertificates = which.Asks,
            Roots = TrustMaterial.Get(which.Roots).Roots,
            Protocols = which.Protocols,
            ApplicationProtocols = which.ServerApplications,
            RevocationLists = which.LooksAtList ? [TrustMaterial.Get("list").Write(folder, "list.pem")] : [],
            Verify = which.Verdict is { } verdict ? _ => verdict : null,
        };
        TrustSession session = new(connects: false);
        await using Server server =
            new(new ServerOptions { EndPoint = new IPEndPoint(IPAddress.Loopback, 0), Tls = tls }, () => session);
        await StartAsync(server);
        (string? answer, string told) = await peer.ConnectAsync(which, ((IPEndPoint)server.EndPoint!).Port);
        if (which.Failure == Ok)
        {
            Assert.True(answer == TrustPeer.Line, told);
            Assert.Equal(1, server.ReadCounters().TlsHandshakes);
            if (which.Client is { } client)
                Assert.Equal(TrustMaterial.Get(client).Certificate.Thumbprint,
                    session.Tls!.PeerCertificate!.Thumbprint);
            if (which.ServerApplications.Length > 0) Assert.Equal("b", session.Tls!.ApplicationProtocol);
            return;
        }

        Assert.Null(answer);
        (_, CloseReason reason) = await session.EndAsync();
        Judge(which, peerName, null, reason);
        // The peer receives an alert. With TLS 1.3 the portable provider cannot send one, because SslStream completes
        // its own handshake first.
        if (peerName == "OpenSSL" && which.Failure != TlsFailure.RefusedByPeer
            && !(provider == TlsProvider.Portable && which.Failure == Rejected))
            Assert.Contains("alert", told, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(TlsProvider.Portable)]
    [InlineData(TlsProvider.OpenSsl)]
    public async Task Plain_HTTP_on_the_port_is_reported_as_such(TlsProvider provider)
    {
        TrustSession session = new(connects: false);
        TlsOptions tls = new() { Provider = provider, Certificate = TrustMaterial.Get("server").ToTls() };
        await using Server server =
            new(new ServerOptions { EndPoint = new IPEndPoint(IPAddress.Loopback, 0), Tls = tls }, () => session);
        await StartAsync(server);
        using Peer peer = new(server.EndPoint!);
        await peer.SendAsync(Encoding.ASCII.GetBytes("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
        (_, CloseReason reason) = await session.EndAsync();
        Assert.Equal(TlsFailure.NotTls, reason.TlsFailure);
        Assert.Contains("HTTP", reason.ToString(), StringComparison.Ordinal);
        Assert.Equal(1, server.ReadCounters().TlsFailed);
    }

    // More handshakes than one loop iteration completes: data of the connections that finish later must also be read.
    [Theory]
    [InlineData(TlsProvider.Portable)]
    [InlineData(TlsProvider.OpenSsl)]
    public async Task Fifty_handshakes_at_once_all_end_and_all_are_served(TlsProvider provider)
    {
        const int clients = 50;
        TlsOptions tls = new() { Provider = provider, Certificate = TrustMaterial.Get("server").ToTls() };
        await using Engine engine = new(new EngineOptions { Loops = 1 });
        await using Server server =
            new(new ServerOptions { EndPoint = new IPEndPoint(IPAddress.Loopback, 0), Tls = tls, Engine = engine },
                static () => new TrustSession(connects: false));
        await StartAsync(server);
        X509ChainPolicy policy =
            new() { TrustMode = X509ChainTrustMode.CustomRootTrust, RevocationMode = X509RevocationMode.NoCheck };
        policy.CustomTrustStore.Add(TrustMaterial.Get("root").Certificate);
        await Deadline.Within(
            async cancellation =>
            {
                await Task.WhenAll(Enumerable.Range(0, clients).Select(_ => TalkAsync(cancellation)));
                return 0;
            },
            () => "the echoes");
        Assert.Equal(clients, server.ReadCounters().TlsHandshakes);

        async Task TalkAsync(CancellationToken cancellation)
        {
            using TcpClient socket = new();
            await socket.ConnectAsync((IPEndPoint)server.EndPoint!, cancellation);
            await using SslStream stream = new(socket.GetStream());
            await stream.AuthenticateAsClientAsync(
                new SslClientAuthenticationOptions { TargetHost = TrustMaterial.Host, CertificateChainPolicy = policy },
                cancellation);
            StreamReader reader = new(stream);
            // Twice, because the first line may arrive together with the end of the handshake.
            foreach (string line in (string[])["one", "two"])
            {
                await stream.WriteAsync(Encoding.ASCII.GetBytes(line + "\n"), cancellation);
                Assert.Equal(line, await reader.ReadLineAsync(cancellation));
            }
        }
    }

    private static void Judge(TrustCase which, string peerName, string? line, CloseReason reason)
    {
        if (which.Failure == Ok)
        {
            Assert.True(line is TrustPeer.Line or "olleh", $"{line} {reason}");
            return;
        }

        Assert.Null(line);
        // With TLS 1.3, SslStream checks the certificate after the handshake, and then closes without close_notify.
        if (peerName == "SslStream" && which.Failure == TlsFailure.RefusedByPeer
            && reason.TlsFailure == TlsFailure.Truncated)
            return;
        Assert.True(which.Failure == reason.TlsFailure, $"{reason.Cause} {reason.TlsFailure}: {reason}");
        Assert.Contains(which.Says, reason.ToString(), StringComparison.OrdinalIgnoreCase);
    }

    private static TheoryData<string, string, TlsProvider> All(TrustCase[] cases)
    {
        TheoryData<string, string, TlsProvider> all = [];
        foreach (TrustCase each in cases)
        {
            foreach (string peer in (string[])["SslStream", "OpenSSL"])
            {
                all.Add(each.Name, peer, TlsProvider.Portable);
                all.Add(each.Name, peer, TlsProvider.OpenSsl);
            }
        }

        return all;
    }

    private static TrustPeer PeerOf(string name, TrustCase which)
    {
        if (name == "SslStream")
        {
#pragma warning disable CA5397, SYSLIB0039 // to test that it is rejected
            Assert.SkipWhen(which.PeerProtocols == SslProtocols.Tls11,
                "The system's policy refuses TLS 1.1 for SslStream.");
#pragma warning restore CA5397, SYSLIB0039
            return new SslStreamPeer();
        }

        OtherProgram.Needs("openssl");
        return new OpenSslPeer();
    }

    // Skips the test if the provider is not available.
    internal static async Task NeedsAsync(TlsProvider provider)
    {
        TlsOptions tls = new() { Provider = provider, Certificate = TrustMaterial.Get("server").ToTls() };
        await using Server server =
            new(new ServerOptions { EndPoint = new IPEndPoint(IPAddress.Loopback, 0), Tls = tls },
                static () => new TrustSession(connects: false));
        await StartAsync(server);
    }

    private static async Task StartAsync(Server server)
    {
        try
        {
            await server.StartAsync();
        }
        catch (ArgumentException e) when (server.Options.Tls!.Provider == TlsProvider.OpenSsl)
        {
            Assert.Skip(e.Message);
        }
    }

    // Sends the line as client, echoes as server, and records the close reason.
    private sealed class TrustSession(bool connects) : Session
    {
        private readonly TaskCompletionSource<(string?, CloseReason)> _end =
            new(TaskCreationOptions.RunContinuationsAsynchronously);

        public Task<(string? Line, CloseReason Reason)> EndAsync() => Deadline.Within(
            async cancellation => await _end.Task.WaitAsync(cancellation), () => "the end of our session");

        protected override void OnConnected()
        {
            if (connects) Send(Encoding.ASCII.GetBytes(TrustPeer.Line + "\n"));
        }

        protected override int OnData(ReadOnlySpan<byte> unread)
        {
            int end = unread.IndexOf((byte)'\n');
            if (end < 0) return 0;
            if (connects)
            {
                _end.TrySetResult((Encoding.ASCII.GetString(unread[..end]), default));
                Close();
            }
            else
            {
                Send(unread[..(end + 1)]);
            }

            return end + 1;
        }

        protected override void OnConnectFailed(CloseReason reason) => _end.TrySetResult((null, reason));

        protected override void OnDisconnected(CloseReason reason) => _end.TrySetResult((null, reason));
    }
}
