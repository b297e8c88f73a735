using CSharpServer;
using Whimbrel.Compat.Tests.Connections;
using RecordingClient = Whimbrel.Compat.Tests.CSharp.RecordingClient;
using RecordingServer = Whimbrel.Compat.Tests.CSharp.RecordingServer;
using RecordingService = Whimbrel.Compat.Tests.CSharp.RecordingService;

namespace Whimbrel.Compat.Tests.Differences;

/// <summary>
/// CSharpServer 1.9. It runs on Windows only, so its values were read: from its source, and from that of CppServer,
/// which it wraps.
/// </summary>
internal static class CSharpCalls
{
    internal static IEnumerable<Behaviour> All =>
    [
        new(
            "C#: a new Service, Start and Stop twice, its callbacks",
            static () => Seen.Lines(Services, ServiceOrder),
            "1 False False True False True True False False ~ thread begins, started True, stopped False, thread ends"),
        new(
            "C#: a Service without threads",
            static () => Seen.One(static () => new Service(0).Threads),
            "0",
            "ArgumentOutOfRangeException",
            "`Service(0)`"),
        new("C#: options of a new server and client", Options, "False False False False False False"),
        new(
            "C#: calls of a server in each state",
            static () => Seen.Lines(ServerStates, ServerTwice, Alone),
            "False False False null 0 | False False False null 0 ~ True False True False ~ True True True null"),
        new(
            "C#: calls of clients and UDP objects that are not connected",
            static () => Seen.Lines(ClientBefore, UdpStates),
            "False False 0 False 0 0 False False ~ False 0 False 0 False | False 0 False 0 False"),
        new(
            "C#: callbacks of a connection",
            Story,
            "started True, session: connected True True, server: connected, session: received x, "
            + "session: disconnected False False, server: disconnected"
            + " | client: connected True, client: empty, client: received x, client: disconnected False"),
        new(
            "C#: an Id is a UUID in lower case",
            static () => Seen.One(static () =>
            {
                using Service service = new();
                string id = new TcpServer(service, "127.0.0.1", 0).Id;
                return Guid.TryParse(id, out _) && !id.Any(char.IsUpper);
            }),
            "True"),
        new("C#: a send of UDP while one is in progress", UdpTwo, "True False", "True True", "UDP: sends"),
    ];

    private static string Services()
    {
        Service service = new();
        string fresh = Seen.All(() => service.Threads, () => service.IsStarted, () => service.IsPolling);
        string started = Seen.All(() => service.Start(), () => service.Start(), () => service.IsStarted);
        string text = $"{fresh} {started} {Seen.All(() => service.Stop(), () => service.Stop(),
            () => service.IsStarted)}";
        service.Dispose();
        return text;
    }

    private static string ServiceOrder()
    {
        Log log = new();
        using RecordingService service = new(log);
        service.Start();
        log.Until("started True");
        service.Stop();
        return string.Join(", ", log.Lines.Where(static l => l != "idle"));
    }

    private static string Options()
    {
        using Service service = new();
        TcpServer server = new(service, "127.0.0.1", 0);
        TcpClient client = new(service, "127.0.0.1", 1);
        return Seen.All(
            () => server.OptionKeepAlive, () => server.OptionNoDelay, () => server.OptionReuseAddress,
            () => server.OptionReusePort,
            () => client.OptionKeepAlive, () => client.OptionNoDelay);
    }

    private static string ServerStates()
    {
        using Service service = new();
        service.Start();
        using TcpServer server = new(service, "127.0.0.1", 0);
        string before = Calls();
        server.Start();
        Log.Until(() => server.IsStarted, "the start");
        server.Stop();
        Log.Until(() => !server.IsStarted, "the stop");
        return $"{before} | {Calls()}";

        string Calls() => Seen.All(
            () => server.Stop(), () => server.Multicast("x"), () => server.DisconnectAll(),
            () => server.FindSession("x"), () => server.ConnectedSessions);
    }

    private static string ServerTwice()
    {
        using Service service = new();
        service.Start();
        using TcpServer server = new(service, "127.0.0.1", 0);
        string started = Seen.One(() => server.Start());
        Log.Until(() => server.IsStarted, "the start");
        started += " " + Seen.All(() => server.Start(), () => server.Stop());
        Log.Until(() => !server.IsStarted, "the stop");
        return $"{started} {Seen.One(() => server.Stop())}";
    }

    private static string ClientBefore()
    {
        using Service service = new();
        service.Start();
        using TcpClient client = new(service, "127.0.0.1", 1);
        return Seen.All(
            () => client.Disconnect(), () => client.DisconnectAsync(), () => client.Send("x"),
            () => client.SendAsync("x"),
            () => client.Receive(4).Length, () => client.BytesSent, () => client.IsConnected, () => client.Reconnect());
    }

    private static string Story()
    {
        Log log = new(), clientLog = new();
        using Service service = new();
        service.Start();
        using RecordingServer server = new(service, log);
        server.Start();
        Log.Until(() => server.IsStarted, "the start");
        using RecordingClient client = new(service, clientLog, "127.0.0.1", server.Port);
        client.ConnectAsync();
        clientLog.Until("client: empty");
        client.SendAsync("x");
        clientLog.Until("client: received x");
        client.DisconnectAsync();
        clientLog.Until("client: disconnected False");
        log.Until("server: disconnected");
        string[] lines = [.. clientLog.Lines.Distinct()];
        return $"{Seen.Of(log)} | {string.Join(", ", lines)}";
    }

    private static string Alone()
    {
        using Service service = new();
        service.Start();
        using TcpServer server = new(service, "127.0.0.1", 0);
        server.Start();
        Log.Until(() => server.IsStarted, "the start");
        return Seen.All(() => server.Multicast(""), () => server.Multicast("x"), () => server.DisconnectAll(),
            () => server.FindSession("x"));
    }

    private static string UdpStates()
    {
        using Service service = new();
        service.Start();
        using UdpServer server = new(service, "127.0.0.1", 0);
        using UdpClient client = new(service, "127.0.0.1", 9);
        using UdpEndpoint peer = new("127.0.0.1", 9);
        byte[] data = [1];
        return Seen.All(() => server.Stop(), () => server.Send(peer, data), () => server.SendAsync(peer, data),
            () => server.Multicast(data), () => server.MulticastAsync(data))
            + " | " + Seen.All(() => client.Disconnect(), () => client.Send(data), () => client.SendAsync(data),
            () => client.BytesSent, () => client.IsConnected);
    }

    private static string UdpTwo()
    {
        using Service service = new();
        service.Start();
        using UdpClient client = new(service, "127.0.0.1", 9);
        client.ConnectAsync();
        Log.Until(() => client.IsConnected, "the socket");
        byte[] data = [1];
        return Seen.All(() => client.SendAsync(data), () => client.SendAsync(data));
    }
}
