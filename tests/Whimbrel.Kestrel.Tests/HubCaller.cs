using System.Collections.Concurrent;
using System.Net;
using System.Net.WebSockets;
using System.Threading.Channels;
using Microsoft.AspNetCore.Http.Connections;
using Microsoft.AspNetCore.Http.Connections.Client;
using Microsoft.AspNetCore.SignalR.Client;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using Whimbrel.Conformance;
using Whimbrel.Http;

namespace Whimbrel.Kestrel.Tests;

/// <summary>SignalR's client for one hub, on its own WebSocket or on ours.</summary>
internal sealed class HubCaller : ILoggerProvider, ILogger, IAsyncDisposable
{
    private readonly Engine? _engine;
    private readonly List<WebSocketClient> _clients = [];
    private readonly ConcurrentQueue<string> _complaints = [];

    /// <param name="address">Address of the hub.</param>
    /// <param name="kind">Engine of our WebSocket; null for .NET's own.</param>
    /// <param name="build">Further settings.</param>
    /// <param name="connect">Further settings of the connection.</param>
    internal HubCaller(Uri address, EngineKind? kind, Action<IHubConnectionBuilder>? build = null,
        Action<HttpConnectionOptions>? connect = null)
    {
        if (kind is { } wanted)
        {
            EngineSupport support = Engine.SupportFor(wanted);
            Assert.SkipUnless(support.IsAvailable, support.Reason);
            _engine = new Engine(new EngineOptions { Kind = wanted, Loops = 1, OnDiagnosticEvent = static _ => { } });
        }

        IHubConnectionBuilder builder = new HubConnectionBuilder().WithUrl(address, options =>
        {
            options.Transports = HttpTransportType.WebSockets;
            options.HttpMessageHandlerFactory = static handler =>
            {
                ((HttpClientHandler)handler).ServerCertificateCustomValidationCallback =
                    static (_, certificate, _, _) => IsOurs(certificate);
                return handler;
            };
            connect?.Invoke(options);
            options.WebSocketFactory = _engine is null ? ConnectNetAsync : ConnectAsync;
        });
        builder.Services.AddLogging(log => log.AddProvider(this).SetMinimumLevel(LogLevel.Warning));
        build?.Invoke(builder);
        Hub = builder.Build();
        Hub.Closed += why =>
        {
            Closed.TrySetResult(why);
            return Task.CompletedTask;
        };
    }

    internal HubConnection Hub { get; }

    /// <summary>Completes with the argument of <see cref="HubConnection.Closed"/>.</summary>
    internal TaskCompletionSource<Exception?> Closed { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);

    /// <summary>Address to connect to instead of the requested one; null for the requested one.</summary>
    internal Uri? Elsewhere { get; set; }

    /// <summary>Our sessions, in order of creation.</summary>
    internal Channel<WebSocketSession> Sessions { get; } = Channel.CreateUnbounded<WebSocketSession>();

    /// <summary>Actions that cut the connections of either kind, in order of creation.</summary>
    internal Channel<Action> Cuts { get; } = Channel.CreateUnbounded<Action>();

    /// <summary>One permit for each failed connect of our client.</summary>
    internal SemaphoreSlim Failures { get; } = new(0);

    /// <summary>Warnings and errors of SignalR's client.</summary>
    internal IReadOnlyCollection<string> Complaints => _complaints;

    public async ValueTask DisposeAsync()
    {
        await Hub.DisposeAsync();
        foreach (WebSocketClient client in _clients) await client.DisposeAsync();
        if (_engine is not null) await _engine.DisposeAsync();
    }

    private async ValueTask<WebSocket> ConnectNetAsync(WebSocketConnectionContext context, CancellationToken stop)
    {
        ClientWebSocket socket = new();
        foreach ((string name, string value) in context.Options.Headers) socket.Options.SetRequestHeader(name, value);
        if (context.Options.AccessTokenProvider is { } provider && await provider() is { Length: > 0 } token)
            socket.Options.SetRequestHeader("Authorization", "Bearer " + token);
        socket.Options.RemoteCertificateValidationCallback = static (_, certificate, _, _) => IsOurs(certificate);
        try
        {
            await socket.ConnectAsync(Elsewhere is { } elsewhere
                ? new UriBuilder(context.Uri) { Port = elsewhere.Port }.Uri : context.Uri, stop);
            Cuts.Writer.TryWrite(socket.Abort);
            return socket;
        }
        catch
        {
            Failures.Release();
            socket.Dispose();
            throw;
        }
    }

    // As a user writes it, with a separate engine, and with the token as SignalR's own factory sends it.
    private async ValueTask<WebSocket> ConnectAsync(WebSocketConnectionContext context, CancellationToken stop)
    {
        Uri address = context.Uri;
        if (Elsewhere is { } elsewhere) address = new UriBuilder(address) { Port = elsewhere.Port }.Uri;
        List<KeyValuePair<string, string>> fields = [.. context.Options.Headers];
        if (context.Options.AccessTokenProvider is { } provider && await provider() is { Length: > 0 } token)
            fields.Add(new("Authorization", "Bearer " + token));
        bool isTls = address.Scheme == "wss";
        WebSocketClient client = new(
            address.AbsoluteUri,
            new ClientOptions
            {
                Engine = _engine!,
                EndPoint = new IPEndPoint(IPAddress.Loopback, address.Port),
                Tls = isTls
                    ? new TlsOptions { ChecksHostName = false, Verify = static end => IsOurs(end.Certificate) }
                    : null,
            },
            static () => new WebSocketSession(),
            new Http.WebSocketOptions { Fields = fields });
        lock (_clients) _clients.Add(client);
        try
        {
            WebSocketSession session = await client.ConnectAsync(stop);
            Sessions.Writer.TryWrite(session);
            Cuts.Writer.TryWrite(session.Abort);
            return session.AsWebSocket();
        }
        catch
        {
            Failures.Release();
            throw;
        }
    }

    private static bool IsOurs(System.Security.Cryptography.X509Certificates.X509Certificate? certificate) =>
        certificate?.GetCertHashString() == TestCertificates.Server.GetCertHashString();

    // ------------------------------------------------------------------ the log

    ILogger ILoggerProvider.CreateLogger(string categoryName) => this;

    IDisposable? ILogger.BeginScope<TState>(TState state) => null;

    bool ILogger.IsEnabled(LogLevel logLevel) => logLevel >= LogLevel.Warning;

    void ILogger.Log<TState>(LogLevel logLevel, EventId eventId, TState state, Exception? exception,
        Func<TState, Exception?, string> formatter) =>
        _complaints.Enqueue($"{logLevel} {eventId.Name}: {formatter(state, exception)} {exception}");

    void IDisposable.Dispose()
    {
    }
}
