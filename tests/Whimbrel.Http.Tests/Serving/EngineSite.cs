using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Cryptography.X509Certificates;
using Whimbrel.Conformance;

namespace Whimbrel.Http.Tests.Serving;

/// <summary>A server, and a .NET client.</summary>
internal sealed class EngineSite : IAsyncDisposable
{
    internal static readonly TimeSpan Patience = TimeSpan.FromSeconds(30);

    private readonly Engine _engine;
    private readonly bool _isTls;

    internal EngineSite(EngineKind kind, bool isTls, Scheduling scheduling, HttpOptions? options = null, int loops = 2)
    {
        EngineSupport support = Engine.SupportFor(kind);
        Assert.SkipUnless(support.IsAvailable, support.Reason);
        _isTls = isTls;
        _engine = new Engine(new EngineOptions { Kind = kind, Loops = loops, OnDiagnosticEvent = static _ => { } });
        TlsOptions? tls = isTls
            ? new TlsOptions
            {
                Certificate = TlsCertificate.From(TestCertificates.Server),
                ApplicationProtocols = ["http/1.1"]
            }
            : null;
        Server = new HttpServer(new ServerOptions
        {
            Engine = _engine,
            EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
            Scheduling = scheduling,
            Tls = tls
        }, options);
        SocketsHttpHandler handler =
            new() { MaxConnectionsPerServer = 16, UseProxy = false, Expect100ContinueTimeout = Patience };
        handler.SslOptions.RemoteCertificateValidationCallback = IsOurs;
        handler.SslOptions.ApplicationProtocols = [SslApplicationProtocol.Http2, SslApplicationProtocol.Http11];
        Client = new HttpClient(handler) { Timeout = Patience };
    }

    internal HttpServer Server { get; }

    internal HttpClient Client { get; }

    internal async Task StartAsync()
    {
        await Server.StartAsync();
        Client.BaseAddress =
            new Uri($"{(_isTls ? "https" : "http")}://127.0.0.1:{((IPEndPoint)Server.EndPoint!).Port}");
    }

    internal Task<Stream> ConnectAsync() => ConnectAsync(Server.EndPoint!, _isTls);

    internal static async Task<Stream> ConnectAsync(EndPoint endPoint, bool isTls)
    {
        Socket socket = new(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        await socket.ConnectAsync(endPoint);
        NetworkStream stream = new(socket, ownsSocket: true);
        if (!isTls) return stream;
        SslStream tls = new(stream, false, IsOurs);
        await tls.AuthenticateAsClientAsync("chat.test");
        return tls;
    }

    private static bool IsOurs(object sender, X509Certificate? certificate, X509Chain? chain, SslPolicyErrors errors) =>
        certificate?.GetCertHashString() == TestCertificates.Server.GetCertHashString();

    public async ValueTask DisposeAsync()
    {
        Client.Dispose();
        await Server.DisposeAsync();
        await _engine.DisposeAsync();
    }
}
