using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Authentication;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using NetCoreServer;
using Whimbrel.Conformance;

namespace Whimbrel.Compat.Tests.Connections;

public sealed class SslTests
{
    // As in the samples of the library: accepts its own certificate, regardless of the system's trust.
    internal static readonly RemoteCertificateValidationCallback Own =
        static (_, certificate, _, _) => certificate?.GetCertHashString() == Certificate!.GetCertHashString();

    internal static readonly X509Certificate2 Certificate = MakeCertificate();

    [Theory]
    [InlineData(SslProtocols.Tls12)]
    [InlineData(SslProtocols.Tls13)]
    public void Events_come_in_their_order(SslProtocols protocols)
    {
        Log log = new(), clientLog = new();
        using Server server = new(new SslContext(protocols, Certificate), log);
        Assert.True(server.Start());
        using Client client = new(new SslContext(protocols, Own), server.Chosen, clientLog);
        Assert.True(client.ConnectAsync());
        clientLog.Until("handshaked True");
        Assert.True(client.SendAsync("hello"));
        clientLog.Until("received hello");
        Assert.True(client.Disconnect());
        Assert.Equal(["connecting", "connected False", "early False", "handshaking", "handshaked True",
            "received hello", "disconnecting", "disconnected"], clientLog.Lines);
        log.Until("server: disconnected");
        server.Stop();
        Assert.Equal(
            [
                "connecting", "server: connecting", "connected False", "server: connected", "handshaking",
                "server: handshaking", "handshaked True", "server: handshaked",
                "received hello", "disconnecting", "server: disconnecting", "disconnected", "server: disconnected",
            ],
            log.Lines);
    }

    [Fact]
    public void A_handshake_takes_at_most_the_StallTimeout()
    {
        using SendRules rules = new(TimeSpan.FromMilliseconds(300), CompatOptions.SendBudgetBytes);
        Log log = new();
        using Server server = new(new SslContext(SslProtocols.Tls13, Certificate), log);
        Assert.True(server.Start());
        using Socket silent = Cost.Connect(server.Chosen);
        log.Until("server: disconnected");
    }

    [Theory]
    [InlineData(60, 60)]
    [InlineData(0, 600)]
    [InlineData(3600, 600)]
    public void Without_a_StallTimeout_a_handshake_has_the_longest_time(int stallSeconds, int seconds)
    {
        using SendRules rules = new(TimeSpan.FromSeconds(stallSeconds), CompatOptions.SendBudgetBytes);
        SslContext context = new(SslProtocols.Tls13, Certificate);
        Assert.Equal(seconds, Links.TlsMap.ForServer(this, context).HandshakeTimeout.TotalSeconds);
        Assert.Equal(seconds, Links.TlsMap.ForClient(this, context, "localhost").HandshakeTimeout.TotalSeconds);
    }

    [Fact]
    public async Task Data_queued_before_Disconnect_arrives_over_TLS_too()
    {
        using PartingServer server = new(new SslContext(SslProtocols.Tls13, Certificate), new Log());
        Assert.True(server.Start());
        using System.Net.Sockets.TcpClient tcp = new();
        await tcp.ConnectAsync(IPAddress.Loopback, server.Chosen, TestContext.Current.CancellationToken);
        await using SslStream stream = new(tcp.GetStream(), leaveInnerStreamOpen: false, Own);
        await stream.AuthenticateAsClientAsync("localhost");
        await stream.WriteAsync("go"u8.ToArray(), TestContext.Current.CancellationToken);
        using MemoryStream all = new();
        await stream.CopyToAsync(all, TestContext.Current.CancellationToken);
        Assert.Equal(PartingServer.Bytes, all.Length);
    }

    // The connection is handed over during its handshake.
    [Fact]
    public void A_session_that_overrides_OnEmpty_gets_all_other_callbacks_as_well()
    {
        Log log = new();
        using Server server = new(new SslContext(SslProtocols.Tls13, Certificate), log, tells: true);
        Assert.True(server.Start());
        for (int i = 1; i <= 3; i++)
        {
            using Client client = new(new SslContext(SslProtocols.Tls13, Own), server.Chosen, new Log());
            Assert.True(client.Connect());
            Assert.True(client.SendAsync("hello"));
            log.Until("received hello", i);
            log.Until("empty", 2 * i);
            client.Disconnect();
            log.Until("server: disconnected", i);
        }

        foreach (string line in (string[])["connecting", "server: connecting", "connected False", "server: connected",
            "handshaking", "handshaked True", "disconnecting", "disconnected"])
        {
            Assert.Equal(3, log.Count(line));
        }
    }

    [Fact]
    public void A_server_with_several_certificates_sends_its_own_with_those_above_it()
    {
        using X509Certificate2 own = TestCertificates.Make("old server", issuer: TestCertificates.Intermediate);
        // Without its private key.
        using X509Certificate2 middle = X509CertificateLoader.LoadCertificate(TestCertificates.Intermediate.RawData);
        string[] seen = [];
        Log log = new();
        using Server server = new(new SslContext(SslProtocols.Tls13, new X509Certificate2Collection { middle, own }),
            log);
        Assert.True(server.Start());
        SslContext context = new(SslProtocols.Tls13, (_, certificate, chain, _) =>
        {
            seen = [certificate!.Subject, .. chain!.ChainPolicy.ExtraStore
                .Concat(chain.ChainElements.Select(static e => e.Certificate)).Select(static c => c.Subject)];
            return true;
        });
        using Client client = new(context, server.Chosen, new Log());
        Assert.True(client.Connect());
        Assert.Equal("CN=old server", seen[0]);
        Assert.Contains(middle.Subject, seen);
    }

    [Fact]
    public void A_connect_that_waits_waits_for_the_handshake()
    {
        using Server server = new(new SslContext(SslProtocols.Tls13, Certificate), new Log());
        server.Start();
        using Client client = new(new SslContext(SslProtocols.Tls13, Own), server.Chosen, new Log());
        Assert.True(client.Connect());
        Assert.True(client.IsHandshaked);
        Assert.Equal(4, client.Send("ping"));
        Assert.Equal("ping", client.Receive(4));
    }

    [Fact]
    public void A_foreign_certificate_is_refused_and_reported()
    {
        Log log = new(), clientLog = new();
        using Server server = new(new SslContext(SslProtocols.Tls13, Certificate), log);
        server.Start();
        using Client client = new(new SslContext(SslProtocols.Tls13), server.Chosen, clientLog);
        Assert.False(client.Connect());
        Assert.Equal(["connecting", "connected False", "early False", "handshaking", "error NotConnected",
            "disconnecting", "disconnected"], clientLog.Lines);
        Assert.False(client.IsHandshaked);
        log.Until("server: disconnected");
        Assert.True(server.IsStarted);
    }

    [Fact]
    public void The_callback_sees_certificate_and_errors_and_decides()
    {
        using Server server = new(new SslContext(SslProtocols.Tls13, Certificate), new Log());
        server.Start();
        (string? Subject, SslPolicyErrors Errors) seen = default;
        using Client client = new(
            new SslContext(SslProtocols.Tls13, (_, certificate, _, errors) =>
            {
                seen = (certificate?.Subject, errors);
                return false;
            }),
            server.Chosen,
            new Log());
        Assert.False(client.Connect());
        Assert.Equal("CN=localhost", seen.Subject);
        Assert.True(seen.Errors.HasFlag(SslPolicyErrors.RemoteCertificateChainErrors));
    }

    [Fact]
    public void A_client_that_must_show_a_certificate_does()
    {
        int shown = 0;
        SslContext context = new(SslProtocols.Tls13, Certificate, (_, certificate, _, _) =>
        {
            if (certificate is not null) Interlocked.Increment(ref shown);
            return certificate is not null;
        })
        { ClientCertificateRequired = true };
        using Server server = new(context, new Log());
        server.Start();
        using Client with = new(new SslContext(SslProtocols.Tls13, Certificate, Own), server.Chosen, new Log());
        Assert.True(with.Connect());
        Assert.Equal("x", with.Send("x") == 1 ? with.Receive(1) : "");
        Assert.Equal(1, shown);
        Log log = new();
        using Client without = new(new SslContext(SslProtocols.Tls13, Own), server.Chosen, log);
        without.ConnectAsync();
        log.Until("disconnected");
    }

    // Disconnecting a client while it was connecting used a stream that did not exist yet.
    [Fact]
    public void T2_a_client_may_disconnect_while_it_connects()
    {
        TcpListener silent = new(IPAddress.Loopback, 0);
        silent.Start();
        long begin = Environment.TickCount64;
        for (int i = 0; i < 10; i++)
        {
            Log log = new();
            using Client client = new(new SslContext(SslProtocols.Tls13, Own),
                ((IPEndPoint)silent.LocalEndpoint).Port, log);
            Assert.True(client.ConnectAsync());
            if (i % 2 == 1) log.Until("handshaking");
            client.Disconnect();
            log.Until("disconnected");
            Assert.Equal((1, 0), (log.Count("disconnected"), log.Count("handshaked True")));
            Assert.False(client.IsConnected || client.IsConnecting || client.IsHandshaking);
        }

        // None of them waited for the handshake timeout.
        Assert.InRange(Environment.TickCount64 - begin, 0, 9_999);
        silent.Stop();
    }

    // A client without a certificate accepted any protocol version.
    [Theory]
    [InlineData(SslProtocols.Tls12, SslProtocols.Tls13)]
    [InlineData(SslProtocols.Tls13, SslProtocols.Tls12)]
    public void T4_the_versions_of_a_context_are_kept(SslProtocols ofServer, SslProtocols ofClient)
    {
        using Server server = new(new SslContext(ofServer, Certificate), new Log());
        server.Start();
        using Client other = new(new SslContext(ofClient, Own), server.Chosen, new Log());
        Assert.False(other.Connect());
        using Client same = new(new SslContext(ofServer, Own), server.Chosen, new Log());
        Assert.True(same.Connect());
    }

    // A server checked the property Certificate only.
    [Fact]
    public void T5_a_server_takes_its_certificate_from_a_collection()
    {
        using Server server = new(new SslContext(SslProtocols.Tls13, new X509Certificate2Collection(Certificate)),
            new Log());
        Assert.True(server.Start());
        using Client client = new(new SslContext(SslProtocols.Tls13, Own), server.Chosen, new Log());
        Assert.True(client.Connect());
    }

    [Theory, InlineData(false), InlineData(true)]
    public void A_server_takes_the_certificate_that_has_a_key_at_any_place_of_a_collection(bool isFirst)
    {
        using X509Certificate2 other = MakeCertificate();
        using X509Certificate2 withoutKey = X509CertificateLoader.LoadCertificate(other.RawData);
        X509Certificate2Collection all = isFirst ? [Certificate, withoutKey] : [withoutKey, Certificate];
        using Server server = new(new SslContext(SslProtocols.Tls13, all), new Log());
        Assert.True(server.Start());
        using Client client = new(new SslContext(SslProtocols.Tls13, Own), server.Chosen, new Log());
        Assert.True(client.Connect());
    }

    [Fact]
    public void Each_refused_certificate_is_reported_not_only_the_first()
    {
        using Server server = new(new SslContext(SslProtocols.Tls13, Certificate), new Log());
        Assert.True(server.Start());
        Log log = new();
        SslContext context = new(SslProtocols.Tls13, static (_, _, _, _) => false);
        using Refusing client = new(context, server.Chosen, log);
        for (int i = 1; i <= 3; i++)
        {
            Assert.True(client.ConnectAsync());
            log.Until("disconnected", i);
            Assert.Equal(i, log.Count($"error {SocketError.NotConnected}"));
        }
    }

    private sealed class Refusing(SslContext context, int port, Log log) : SslClient(context, IPAddress.Loopback, port)
    {
        protected override void OnError(SocketError error) => log.Add($"error {error}");

        protected override void OnDisconnected() => log.Add("disconnected");
    }

    // A write that completed synchronously started the next one recursively, until the stack overflowed.
    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void T6_sending_the_next_message_in_OnSent_does_not_grow_the_stack(Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        Log log = new();
        using Chain server = new(log);
        server.Start();
        using Client client = new(new SslContext(SslProtocols.Tls13, Own), server.Chosen, new Log());
        client.ConnectAsync();
        log.Until("all sent");
        Assert.Equal(0, log.Count("inside"));
    }

    private sealed class Chain(Log log) : Server(new SslContext(SslProtocols.Tls13, Certificate), log)
    {
        protected override SslSession CreateSession() => new Next(this, Log);

        private sealed class Next(SslServer server, Log log) : Session(server, log)
        {
            private int _left = 2000;
            private bool _isInside;

            protected override void OnHandshaked() => SendAsync("x");

            protected override void OnSent(long sent, long pending)
            {
                if (_isInside) Log.Add("inside");
                _isInside = true;
                if (--_left > 0) SendAsync("x");
                else if (_left == 0) Log.Add("all sent");
                _isInside = false;
            }
        }
    }

    [Fact]
    public void A_context_without_a_certificate_is_reported_at_the_start()
    {
        SslContext context = new(SslProtocols.Tls13);
        using Server server = new(context, new Log());
        Assert.Contains("no certificate", Assert.Throws<InvalidOperationException>(() => server.Start()).Message,
            StringComparison.Ordinal);
        Assert.False(server.IsStarted);
        context.Certificate = Certificate;
        Assert.True(server.Start());
    }

    private static X509Certificate2 MakeCertificate()
    {
        using ECDsa key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        CertificateRequest request = new("CN=localhost", key, HashAlgorithmName.SHA256);
        SubjectAlternativeNameBuilder names = new();
        names.AddIpAddress(IPAddress.Loopback);
        request.CertificateExtensions.Add(names.Build());
        using X509Certificate2 made = request.CreateSelfSigned(DateTimeOffset.UtcNow.AddDays(-1),
            DateTimeOffset.UtcNow.AddDays(30));
        return X509CertificateLoader.LoadPkcs12(made.Export(X509ContentType.Pfx), null);
    }

    private class Server(SslContext context, Log log, bool tells = false) : SslServer(context, IPAddress.Loopback, 0)
    {
        protected Log Log => log;

        internal int Chosen => ((IPEndPoint)Endpoint).Port;

        protected override SslSession CreateSession() => tells ? new Telling(this, log) : new Session(this, log);

        protected override void OnConnecting(SslSession session) => log.Add("server: connecting");

        protected override void OnConnected(SslSession session) => log.Add("server: connected");

        protected override void OnHandshaking(SslSession session) => log.Add("server: handshaking");

        protected override void OnHandshaked(SslSession session) => log.Add("server: handshaked");

        protected override void OnDisconnecting(SslSession session) => log.Add("server: disconnecting");

        protected override void OnDisconnected(SslSession session) => log.Add("server: disconnected");
    }

    private sealed class PartingServer(SslContext context, Log log) : Server(context, log)
    {
        internal const int Bytes = 4_000_000;

        protected override SslSession CreateSession() => new Parting(this, Log);

        private sealed class Parting(SslServer server, Log log) : Session(server, log)
        {
            protected override void OnReceived(byte[] buffer, long offset, long size)
            {
                SendAsync(new byte[Bytes]);
                Disconnect();
            }
        }
    }

    private sealed class Telling(SslServer server, Log log) : Session(server, log)
    {
        protected override void OnEmpty() => Log.Add("empty");
    }

    private class Session(SslServer server, Log log) : SslSession(server)
    {
        protected Log Log => log;

        protected override void OnConnecting() => log.Add("connecting");

        protected override void OnConnected() => log.Add($"connected {IsHandshaked}");

        protected override void OnHandshaking() => log.Add("handshaking");

        protected override void OnHandshaked() => log.Add($"handshaked {IsHandshaked}");

        protected override void OnDisconnecting() => log.Add("disconnecting");

        protected override void OnDisconnected() => log.Add("disconnected");

        protected override void OnReceived(byte[] buffer, long offset, long size)
        {
            log.Add("received " + Encoding.UTF8.GetString(buffer, (int)offset, (int)size));
            SendAsync(buffer, offset, size);
        }
    }

    private sealed class Client(SslContext context, int port, Log log) : SslClient(context, IPAddress.Loopback, port)
    {
        protected override void OnConnecting() => log.Add("connecting");

        protected override void OnConnected()
        {
            log.Add($"connected {IsHandshaked}");
            log.Add($"early {SendAsync("x")}");
        }

        protected override void OnHandshaking() => log.Add("handshaking");

        protected override void OnHandshaked() => log.Add($"handshaked {IsHandshaked}");

        protected override void OnDisconnecting() => log.Add("disconnecting");

        protected override void OnDisconnected() => log.Add("disconnected");

        protected override void OnReceived(byte[] buffer, long offset, long size) =>
            log.Add("received " + Encoding.UTF8.GetString(buffer, (int)offset, (int)size));

        protected override void OnError(SocketError error) => log.Add($"error {error}");
    }
}
