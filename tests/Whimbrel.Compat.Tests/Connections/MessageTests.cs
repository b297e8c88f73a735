using System.Net;
using System.Net.Sockets;
using System.Security.Authentication;
using NetCoreServer;
using TcpClient = NetCoreServer.TcpClient;

namespace Whimbrel.Compat.Tests.Connections;

// Messages of the old API for misuse and errors: they name the user's classes and the cause.
public sealed class MessageTests : IAsyncLifetime
{
    private readonly List<string> _notices = [];
    private readonly Engine _engine;

    public MessageTests() => _engine = new Engine(new EngineOptions
    {
        OnDiagnosticEvent = n =>
        {
            lock (_notices) _notices.Add(n.Message);
        },
    });

    public async ValueTask InitializeAsync()
    {
        await _engine.StartAsync();
        CompatOptions.Engine = _engine;
    }

    public ValueTask DisposeAsync()
    {
        CompatOptions.Engine = null;
        return _engine.DisposeAsync();
    }

    private string DiagnosticEvent(string part)
    {
        string? found = null;
        Log.Until(
            () =>
            {
                lock (_notices)
                    return (found = _notices.Find(n => n.Contains(part, StringComparison.Ordinal))) is not null;
            },
            $"a notice with '{part}'");
        return found!;
    }

    private sealed class Throwing(TcpServer server, bool wantsSent) : TcpSession(server)
    {
        protected override void OnReceived(byte[] buffer, long offset, long size) =>
            throw new FormatException($"sent {wantsSent}");
    }

    private sealed class ThrowingTelling(TcpServer server) : TcpSession(server)
    {
        protected override void OnSent(long sent, long pending)
        {
        }

        protected override void OnReceived(byte[] buffer, long offset, long size) =>
            throw new FormatException("telling");
    }

    private sealed class Makes(Func<TcpServer, TcpSession> make) : TcpServer(IPAddress.Loopback, 0)
    {
        protected override TcpSession CreateSession() => make(this);
    }

    [Fact]
    public void A_diagnostic_event_names_the_class_of_the_user()
    {
        foreach (Func<TcpServer, TcpSession> make in (Func<TcpServer, TcpSession>[])[
            static s => new Throwing(s, wantsSent: false), static s => new ThrowingTelling(s)])
        {
            using Makes server = new(make);
            Assert.True(server.Start());
            using Socket peer = Cost.Connect(((IPEndPoint)server.Endpoint).Port);
            peer.Send(new byte[1]);
            string name = make(server).GetType().Name;
            Assert.StartsWith($"OnReceived of {name} (session ", DiagnosticEvent($"OnReceived of {name}"),
                StringComparison.Ordinal);
        }
    }

    [Fact]
    public void A_CreateSession_that_returns_null_is_named_with_its_server()
    {
        using Makes server = new(static _ => null!);
        Assert.True(server.Start());
        using Socket peer = Cost.Connect(((IPEndPoint)server.Endpoint).Port);
        Assert.Contains("Makes.CreateSession returned null. Return a new session of this server.",
            DiagnosticEvent("CreateSession"), StringComparison.Ordinal);
    }

    [Fact]
    public void A_TLS_client_that_refuses_a_certificate_reports_which_one_and_why()
    {
        using SslServer server = new(new SslContext(SslProtocols.Tls13, SslTests.Certificate), IPAddress.Loopback, 0);
        Assert.True(server.Start());
        using SslClient client = new(new SslContext(SslProtocols.Tls13), IPAddress.Loopback,
            ((IPEndPoint)server.Endpoint).Port);
        Assert.False(client.Connect());
        string notice = DiagnosticEvent("SslClient cannot connect");
        Assert.Contains("certificate", notice, StringComparison.Ordinal);
        Assert.Contains("certificateValidationCallback", notice, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_request_to_a_closed_port_fails_with_the_address_and_the_reason()
    {
        int port;
        using (Socket free = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp))
        {
            free.Bind(new IPEndPoint(IPAddress.Loopback, 0));
            port = ((IPEndPoint)free.LocalEndPoint!).Port;
        }

        using HttpClientEx client = new(IPAddress.Loopback, port);
        InvalidOperationException e =
            await Assert.ThrowsAsync<InvalidOperationException>(() => client.SendGetRequest("/"));
        Assert.StartsWith($"No response from 127.0.0.1:{port}: cannot connect: connection refused", e.Message,
            StringComparison.Ordinal);
    }
}
