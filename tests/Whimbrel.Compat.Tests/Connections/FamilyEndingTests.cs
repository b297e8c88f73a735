using System.Diagnostics;
using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Net.WebSockets;
using System.Security.Authentication;
using System.Security.Cryptography;
using NetCoreServer;
using HttpRequest = NetCoreServer.HttpRequest;

namespace Whimbrel.Compat.Tests.Connections;

/// <summary>The cases of EndingTests for each family of servers: under a lock that OnDisconnected takes, and while
/// OnReceived of the session waits for that lock.</summary>
public sealed class FamilyEndingTests : IDisposable
{
    private static readonly TimeSpan s_most = TimeSpan.FromSeconds(4);

    private readonly string _folder = Directory.CreateTempSubdirectory("whimbrel-ends-").FullName;

    public static TheoryData<string, Scheduling> Families
    {
        get
        {
            TheoryData<string, Scheduling> cases = [];
            foreach (string family in (string[])["tcp", "ssl", "uds", "ws", "wss", "csharp tcp", "csharp ssl"])
            {
                cases.Add(family, Scheduling.ThreadPool);
                cases.Add(family, Scheduling.Inline);
            }

            return cases;
        }
    }

    public void Dispose() => Directory.Delete(_folder, recursive: true);

    [Theory]
    [MemberData(nameof(Families))]
    public async Task Ends_of_a_family_wait_for_no_lock_and_are_reported_once(string family, Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        foreach (string how in (string[])["session", "all", "stop", "dispose"])
        {
            foreach (bool isReceiving in (bool[])[false, true])
            {
                Told told = new();
                await using Party party = Make(family, told);
                await party.ConnectAsync();
                told.Log.Until("ready");
                TimeSpan took;
                lock (told.Gate)
                {
                    if (isReceiving)
                    {
                        party.Send();
                        told.Log.Until("waits");
                    }

                    long began = Stopwatch.GetTimestamp();
                    switch (how)
                    {
                        case "session": Assert.True(told.Disconnect!()); break;
                        case "all": Assert.True(party.DisconnectAll()); break;
                        case "stop": Assert.True(party.Stop()); break;
                        default: told.Session!.Dispose(); break;
                    }

                    took = Stopwatch.GetElapsedTime(began);
                    Assert.False(told.IsConnected!());
                }

                Assert.True(took < s_most, $"{how} took {took.TotalMilliseconds} ms");
                told.Log.Until("disconnected");
                Log.Until(() => party.Sessions() == 0, "no session");
                string[] expected = isReceiving
                    ? ["ready", "waits", "received", "disconnecting", "disconnected"]
                    : ["ready", "disconnecting", "disconnected"];
                Assert.Equal(expected.Where(l => l != "disconnecting"
                    || !family.StartsWith("csharp", StringComparison.Ordinal)), told.Log.Lines);
            }
        }
    }

    /// <summary>Counters of the session's callbacks.</summary>
    private sealed class Told
    {
        internal Log Log { get; } = new();

        internal object Gate { get; } = new();

        internal IDisposable? Session { get; private set; }

        internal Func<bool>? Disconnect { get; private set; }

        internal Func<bool>? IsConnected { get; private set; }

        internal void Ready(IDisposable session, Func<bool> disconnect, Func<bool> isConnected)
        {
            (Session, Disconnect, IsConnected) = (session, disconnect, isConnected);
            Log.Add("ready");
        }

        internal void Received()
        {
            Log.Add("waits");
            lock (Gate) Log.Add("received");
        }

        internal void Disconnecting() => Log.Add("disconnecting");

        internal void Disconnected()
        {
            lock (Gate) Log.Add("disconnected");
        }
    }

    /// <summary>A server, and a .NET peer.</summary>
    private sealed class Party(IDisposable server, Func<bool> disconnectAll, Func<bool> stop, Func<long> sessions,
        Func<Task<(IDisposable, Func<Task>)>> connect) : IAsyncDisposable
    {
        private IDisposable? _peer;
        private Func<Task>? _send;

        internal bool DisconnectAll() => disconnectAll();

        internal bool Stop() => stop();

        internal long Sessions() => sessions();

        internal async Task ConnectAsync() => (_peer, _send) = await connect();

        internal void Send() => _ = _send!();

        public ValueTask DisposeAsync()
        {
            _peer?.Dispose();
            server.Dispose();
            return default;
        }
    }

    private Party Make(string family, Told told)
    {
        switch (family)
        {
            case "tcp":
                Tcp tcp = new(told);
                Assert.True(tcp.Start());
                return new Party(tcp, tcp.DisconnectAll, tcp.Stop, () => tcp.ConnectedSessions,
                    () => PlainAsync(tcp.Endpoint));
            case "ssl":
                Ssl ssl = new(told);
                Assert.True(ssl.Start());
                return new Party(ssl, ssl.DisconnectAll, ssl.Stop, () => ssl.ConnectedSessions,
                    () => SecureAsync(ssl.Endpoint));
            case "uds":
                Uds uds = new(told, Path.Combine(_folder, "end.sock"));
                Assert.True(uds.Start());
                return new Party(uds, uds.DisconnectAll, uds.Stop, () => uds.ConnectedSessions,
                    () => PlainAsync(uds.Endpoint));
            case "ws":
                Ws ws = new(told);
                Assert.True(ws.Start());
                return new Party(ws, ws.DisconnectAll, ws.Stop, () => ws.ConnectedSessions,
                    () => WebSocketAsync("ws", ws.Endpoint));
            case "wss":
                Wss wss = new(told);
                Assert.True(wss.Start());
                return new Party(wss, wss.DisconnectAll, wss.Stop, () => wss.ConnectedSessions,
                    () => WebSocketAsync("wss", wss.Endpoint));
            default:
                return MakeCSharp(family, told);
        }
    }

    private Party MakeCSharp(string family, Told told)
    {
        CSharpServer.Service service = new();
        Assert.True(service.Start());
        if (family == "csharp tcp")
        {
            CSharpTcp tcp = new(service, told);
            Assert.True(tcp.Start());
            Log.Until(() => tcp.IsStarted, "the server");
            return new Party(service, tcp.DisconnectAll, tcp.Stop, () => (long)tcp.ConnectedSessions,
                () => PlainAsync(new IPEndPoint(IPAddress.Loopback, tcp.Port)));
        }

        string chain = Path.Combine(_folder, "server.pem"), key = Path.Combine(_folder, "server.key");
        File.WriteAllText(chain, SslTests.Certificate.ExportCertificatePem());
        using (RSA? rsa = System.Security.Cryptography.X509Certificates.RSACertificateExtensions.GetRSAPrivateKey(
            SslTests.Certificate))
        using (ECDsa? curve = System.Security.Cryptography.X509Certificates.ECDsaCertificateExtensions
            .GetECDsaPrivateKey(SslTests.Certificate))
            File.WriteAllText(key, ((AsymmetricAlgorithm?)rsa ?? curve)!.ExportPkcs8PrivateKeyPem());
        CSharpServer.SslContext context = new(CSharpServer.SslMethod.TLSV12);
        context.UseCertificateChainFile(chain);
        context.UsePrivateKeyFile(key, CSharpServer.SslFileFormat.PEM);
        CSharpSsl ssl = new(service, context, told);
        Assert.True(ssl.Start());
        Log.Until(() => ssl.IsStarted, "the server");
        return new Party(service, ssl.DisconnectAll, ssl.Stop, () => (long)ssl.ConnectedSessions,
            () => SecureAsync(new IPEndPoint(IPAddress.Loopback, ssl.Port)));
    }

    private static async Task<(IDisposable, Func<Task>)> PlainAsync(EndPoint server)
    {
        Socket peer = new(server.AddressFamily, SocketType.Stream, ProtocolType.Unspecified);
        await peer.ConnectAsync(server);
        return (peer, () => peer.SendAsync(new byte[1]));
    }

    private static async Task<(IDisposable, Func<Task>)> SecureAsync(EndPoint server)
    {
        Socket peer = new(server.AddressFamily, SocketType.Stream, ProtocolType.Tcp);
        await peer.ConnectAsync(server);
        SslStream stream = new(new NetworkStream(peer, ownsSocket: true), leaveInnerStreamOpen: false, SslTests.Own);
        await stream.AuthenticateAsClientAsync("localhost");
        return (stream, () => stream.WriteAsync(new byte[1]).AsTask());
    }

    private static async Task<(IDisposable, Func<Task>)> WebSocketAsync(string scheme, EndPoint server)
    {
        ClientWebSocket peer = new();
        peer.Options.RemoteCertificateValidationCallback = SslTests.Own;
        await peer.ConnectAsync(new Uri($"{scheme}://127.0.0.1:{((IPEndPoint)server).Port}/"), CancellationToken.None);
        return (peer,
            () => peer.SendAsync(new byte[1], WebSocketMessageType.Binary, endOfMessage: true, CancellationToken.None));
    }

    // ------------------------------------------------------------------ one server of each family

    private sealed class Tcp(Told told) : TcpServer(IPAddress.Loopback, 0)
    {
        protected override TcpSession CreateSession() => new TcpOne(this, told);
    }

    private sealed class TcpOne(TcpServer server, Told told) : TcpSession(server)
    {
        protected override void OnConnected() => told.Ready(this, Disconnect, () => IsConnected);

        protected override void OnReceived(byte[] buffer, long offset, long size) => told.Received();

        protected override void OnDisconnecting() => told.Disconnecting();

        protected override void OnDisconnected() => told.Disconnected();
    }

    private sealed class Ssl(Told told)
        : SslServer(new SslContext(SslProtocols.Tls13, SslTests.Certificate), IPAddress.Loopback, 0)
    {
        protected override SslSession CreateSession() => new SslOne(this, told);
    }

    private sealed class SslOne(SslServer server, Told told) : SslSession(server)
    {
        protected override void OnHandshaked() => told.Ready(this, Disconnect, () => IsConnected);

        protected override void OnReceived(byte[] buffer, long offset, long size) => told.Received();

        protected override void OnDisconnecting() => told.Disconnecting();

        protected override void OnDisconnected() => told.Disconnected();
    }

    private sealed class Uds(Told told, string path) : UdsServer(path)
    {
        protected override UdsSession CreateSession() => new UdsOne(this, told);
    }

    private sealed class UdsOne(UdsServer server, Told told) : UdsSession(server)
    {
        protected override void OnConnected() => told.Ready(this, Disconnect, () => IsConnected);

        protected override void OnReceived(byte[] buffer, long offset, long size) => told.Received();

        protected override void OnDisconnecting() => told.Disconnecting();

        protected override void OnDisconnected() => told.Disconnected();
    }

    private sealed class Ws(Told told) : WsServer(IPAddress.Loopback, 0)
    {
        protected override TcpSession CreateSession() => new WsOne(this, told);
    }

    private sealed class WsOne(WsServer server, Told told) : WsSession(server)
    {
        public override void OnWsConnected(HttpRequest request) => told.Ready(this, Disconnect, () => IsConnected);

        public override void OnWsReceived(byte[] buffer, long offset, long size) => told.Received();

        public override void OnWsDisconnecting() => told.Disconnecting();

        public override void OnWsDisconnected() => told.Disconnected();
    }

    private sealed class Wss(Told told)
        : WssServer(new SslContext(SslProtocols.Tls13, SslTests.Certificate), IPAddress.Loopback, 0)
    {
        protected override SslSession CreateSession() => new WssOne(this, told);
    }

    private sealed class WssOne(WssServer server, Told told) : WssSession(server)
    {
        public override void OnWsConnected(HttpRequest request) => told.Ready(this, Disconnect, () => IsConnected);

        public override void OnWsReceived(byte[] buffer, long offset, long size) => told.Received();

        public override void OnWsDisconnecting() => told.Disconnecting();

        public override void OnWsDisconnected() => told.Disconnected();
    }

    private sealed class CSharpTcp(CSharpServer.Service service, Told told)
        : CSharpServer.TcpServer(service, "127.0.0.1", 0)
    {
        protected override CSharpServer.TcpSession CreateSession() => new CSharpTcpOne(this, told);
    }

    private sealed class CSharpTcpOne(CSharpServer.TcpServer server, Told told) : CSharpServer.TcpSession(server)
    {
        protected override void OnConnected() => told.Ready(this, Disconnect, () => IsConnected);

        protected override void OnReceived(byte[] buffer, long size) => told.Received();

        protected override void OnDisconnected() => told.Disconnected();
    }

    private sealed class CSharpSsl(CSharpServer.Service service, CSharpServer.SslContext context, Told told)
        : CSharpServer.SslServer(service, context, "127.0.0.1", 0)
    {
        protected override CSharpServer.SslSession CreateSession() => new CSharpSslOne(this, told);
    }

    private sealed class CSharpSslOne(CSharpServer.SslServer server, Told told) : CSharpServer.SslSession(server)
    {
        protected override void OnHandshaked() => told.Ready(this, Disconnect, () => IsConnected);

        protected override void OnReceived(byte[] buffer, long size) => told.Received();

        protected override void OnDisconnected() => told.Disconnected();
    }
}
