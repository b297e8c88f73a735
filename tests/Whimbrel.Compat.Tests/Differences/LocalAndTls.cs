using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Authentication;
using NetCoreServer;
using Whimbrel.Compat.Tests.Connections;
using Whimbrel.Conformance;

namespace Whimbrel.Compat.Tests.Differences;

/// <summary>Unix sockets, and TLS.</summary>
internal static class LocalAndTls
{
    internal static IEnumerable<Behaviour> All =>
    [
        new(
            "Unix socket: the file after Start and Stop, callbacks of a client",
            static () => Seen.Lines(
                File,
                Story),
            "True True True False True True True ~ True False True False connecting False, connected True, "
            + "disconnecting True, disconnected False"),
        new(
            "Unix socket: a file that is there already",
            Stale,
            "SocketException False",
            "True True",
            "a Unix socket with a file left over"),
        new(
            "Unix socket: a client whose server does not exist",
            NoServer,
            "False False connecting False, error AddressNotAvailable, disconnecting False, disconnected False"),
        new(
            "TLS: callbacks of a connection",
            Handshake,
            "session: connecting False False, session: connected True False False, session: handshaking True "
            + "False, session: handshaked True True, server: handshaked, session: disconnecting, session: "
            + "disconnected False False | client: connecting False False, client: connected True False False 0, "
            + "client: handshaking True False, client: handshaked True True True, client: disconnecting, client: "
            + "disconnected False False"),
        new(
            "TLS: calls before the handshake",
            Early,
            "False 0 0 False False False False"),
        new(
            "TLS: a certificate that the client refuses",
            Refused,
            "client: connecting False False, client: connected True False False 0, client: handshaking True "
            + "False, client: error NotConnected, client: disconnecting, client: disconnected False False"),
    ];

    private static string NewPath() => Path.Combine(Path.GetTempPath(), $"compat-{Guid.NewGuid():N}.sock");

    private static string File()
    {
        string path = NewPath();
        using UdsServer server = new(path);
        return Seen.All(
            () => server.Start(), () => System.IO.File.Exists(path), () => server.Stop(),
            () => System.IO.File.Exists(path),
            () => server.Start(), () => server.Restart(), () => System.IO.File.Exists(path));
    }

    private static string Stale()
    {
        string path = NewPath();
        using Socket old = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        old.Bind(new UnixDomainSocketEndPoint(path)); // no server listens there
        using UdsServer server = new(path);
        string text = Seen.All(() => server.Start(), () => server.IsStarted);
        server.Stop();
        System.IO.File.Delete(path);
        return text;
    }

    private sealed class LocalClient(Log log, string path) : UdsClient(path)
    {
        protected override void OnConnecting() => log.Add($"connecting {IsConnected}");

        protected override void OnConnected() => log.Add($"connected {IsConnected}");

        protected override void OnDisconnecting() => log.Add($"disconnecting {IsConnected}");

        protected override void OnDisconnected() => log.Add($"disconnected {IsConnected}");

        protected override void OnError(SocketError error) => log.Add($"error {error}");
    }

    private static string NoServer()
    {
        Log log = new();
        using LocalClient client = new(log, NewPath());
        return $"{Seen.All(() => client.Connect(), () => client.IsConnected)} {Seen.Of(log)}";
    }

    private static string Story()
    {
        string path = NewPath();
        using UdsServer server = new(path);
        server.Start();
        Log log = new();
        using LocalClient client = new(log, path);
        string text = Seen.All(() => client.Connect(), () => client.Connect(), () => client.Disconnect(),
            () => client.Disconnect());
        return $"{text} {Seen.Of(log)}";
    }

    // ------------------------------------------------------------------ TLS

    private static SslContext ServerContext() => new(SslProtocols.Tls12, TestCertificates.Server);

    private static SslContext ClientContext(bool accepts = true) =>
        new(SslProtocols.Tls12, TestCertificates.Server,
            (RemoteCertificateValidationCallback)((_, _, _, _) => accepts));

    private sealed class SecureServer(Log log, SslContext context) : SslServer(context, IPAddress.Loopback, 0)
    {
        internal int Chosen => ((IPEndPoint)Endpoint).Port;

        protected override SslSession CreateSession() => new SecureSession(this, log);

        protected override void OnHandshaked(SslSession session) => log.Add("server: handshaked");
    }

    private sealed class SecureSession(SecureServer server, Log log) : SslSession(server)
    {
        protected override void OnConnecting() => log.Add($"session: connecting {IsConnected} {IsHandshaked}");

        protected override void OnConnected() =>
            log.Add($"session: connected {IsConnected} {IsHandshaked} {SendAsync("early")}");

        protected override void OnHandshaking() => log.Add($"session: handshaking {IsConnected} {IsHandshaked}");

        protected override void OnHandshaked() => log.Add($"session: handshaked {IsConnected} {IsHandshaked}");

        protected override void OnDisconnecting() => log.Add("session: disconnecting");

        protected override void OnDisconnected() => log.Add($"session: disconnected {IsConnected} {IsHandshaked}");
    }

    private sealed class SecureClient(Log log, SslContext context, int port)
        : SslClient(context, IPAddress.Loopback, port)
    {
        protected override void OnConnecting() => log.Add($"client: connecting {IsConnected} {IsHandshaked}");

        protected override void OnConnected() =>
            log.Add($"client: connected {IsConnected} {IsHandshaked} {SendAsync("early")} {Send("early")}");

        protected override void OnHandshaking() => log.Add($"client: handshaking {IsConnected} {IsHandshaked}");

        protected override void OnHandshaked() =>
            log.Add($"client: handshaked {IsConnected} {IsHandshaked} {SendAsync("")}");

        protected override void OnDisconnecting() => log.Add("client: disconnecting");

        protected override void OnDisconnected() => log.Add($"client: disconnected {IsConnected} {IsHandshaked}");

        protected override void OnError(SocketError error) => log.Add($"client: error {error}");
    }

    private static string Handshake()
    {
        Log log = new(), clientLog = new();
        using SecureServer server = new(log, ServerContext());
        server.Start();
        using SecureClient client = new(clientLog, ClientContext(), server.Chosen);
        client.ConnectAsync();
        Log.Until(() => client.IsHandshaked, "the handshake");
        log.Until("server: handshaked");
        client.DisconnectAsync();
        clientLog.Until("client: disconnected False False");
        log.Until("session: disconnected False False");
        return $"{Seen.Of(log)} | {Seen.Of(clientLog)}";
    }

    private static string Early()
    {
        using SslClient client = new(ClientContext(), IPAddress.Loopback, 9);
        return Seen.All(
            () => client.SendAsync("x"), () => client.Send("x"), () => client.Receive(4).Length,
            () => client.Disconnect(),
            () => client.IsHandshaking, () => client.IsHandshaked, () => client.Reconnect());
    }

    private static string Refused()
    {
        Log clientLog = new();
        using SecureServer server = new(new Log(), ServerContext());
        server.Start();
        using SecureClient client = new(clientLog, ClientContext(accepts: false), server.Chosen);
        client.ConnectAsync();
        clientLog.Until("client: disconnected False False");
        return Seen.Of(clientLog);
    }
}
