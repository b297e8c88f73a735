using System.Collections.Concurrent;
using System.Net;
using System.Net.WebSockets;
using Whimbrel.Conformance;

namespace Whimbrel.Http.Tests.WebSockets;

/// <summary>A server of pulled WebSockets on a real engine, and its clients.</summary>
internal sealed class WsSite : IAsyncDisposable
{
    internal static readonly TimeSpan Patience = TimeSpan.FromSeconds(30);

    private readonly bool _isTls;
    private readonly Scheduling _scheduling;
    private readonly List<WebSocketClient> _clients = [];

    internal WsSite(EngineKind kind, bool isTls = false, Scheduling scheduling = Scheduling.Inline)
    {
        EngineSupport support = Engine.SupportFor(kind);
        Assert.SkipUnless(support.IsAvailable, support.Reason);
        _isTls = isTls;
        _scheduling = scheduling;
        Engine = new Engine(new EngineOptions { Kind = kind, Loops = 2, OnDiagnosticEvent = Notices.Enqueue });
        TlsOptions? tls = isTls ? new TlsOptions { Certificate = TlsCertificate.From(TestCertificates.Server) } : null;
        Server = new HttpServer(new ServerOptions
        {
            Engine = Engine,
            EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
            Scheduling = scheduling,
            Tls = tls,
            Limits = new() { AllowLargeMessages = true }
        });
    }

    internal Engine Engine { get; }

    /// <summary>Diagnostic events of the engine.</summary>
    internal ConcurrentQueue<DiagnosticEvent> Notices { get; } = [];

    internal HttpServer Server { get; }

    internal Uri Address => new($"{(_isTls ? "wss" : "ws")}://localhost:{((IPEndPoint)Server.EndPoint!).Port}/ws");

    internal async Task ServeAsync(Func<WebSocketSession, CancellationToken, Task> handler,
        WebSocketOptions? options = null)
    {
        Server.WebSocket("/ws", handler, options);
        await Server.StartAsync();
    }

    /// <summary>Connects one of our clients, in pull mode.</summary>
    internal async Task<WebSocketSession> ConnectAsync(WebSocketOptions? options, CancellationToken stop)
    {
        WebSocketClient client = new(
            Address.ToString(),
            new ClientOptions
            {
                Engine = Engine, EndPoint = Server.EndPoint, Scheduling = _scheduling,
                Limits = new() { AllowLargeMessages = true },
                Tls = _isTls
                    ? new TlsOptions
                    {
                        ChecksHostName = false,
                        Verify = static v =>
                            v.Certificate?.GetCertHashString() == TestCertificates.Server.GetCertHashString()
                    }
                    : null,
            },
            static () => new WebSocketSession(),
            options);
        _clients.Add(client);
        return await client.ConnectAsync(stop);
    }

    /// <summary>Connects .NET's client.</summary>
    internal async Task<ClientWebSocket> ConnectNetAsync(CancellationToken stop)
    {
        ClientWebSocket socket = new();
        socket.Options.RemoteCertificateValidationCallback = static (_, certificate, _, _) =>
            certificate?.GetCertHashString() == TestCertificates.Server.GetCertHashString();
        await socket.ConnectAsync(Address, stop);
        return socket;
    }

    public async ValueTask DisposeAsync()
    {
        foreach (WebSocketClient client in _clients) await client.DisposeAsync();
        await Server.StopAsync(TimeSpan.Zero);
        await Server.DisposeAsync();
        await Engine.DisposeAsync();
    }
}
