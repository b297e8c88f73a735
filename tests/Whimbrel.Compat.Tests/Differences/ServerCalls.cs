using System.Net;
using System.Net.Sockets;
using NetCoreServer;
using Whimbrel.Compat.Tests.Connections;

namespace Whimbrel.Compat.Tests.Differences;

/// <summary>Calls of a TcpServer in every state.</summary>
internal static class ServerCalls
{
    internal static IEnumerable<Behaviour> All =>
    [
        new(
            "Server: Start, Stop and Restart in each state",
            static () => Seen.Lines(
                Twice,
                Restarts),
            "True False True False ~ False True True True True False False"),
        new(
            "Server: flags in each state, Dispose twice, Start after it",
            static () => Seen.Lines(
                Flags,
                Disposed),
            "False False False True | True True False False | False False False True | False False True True ~ "
            + "False False True True"),
        new(
            "Server: Port and Endpoint where the system chooses the port",
            Ports,
            "127.0.0.1 0 127.0.0.1:0 0 True True"),
        new(
            "Server: calls when it is stopped, and without sessions",
            static () => Seen.Lines(
                Stopped,
                Alone),
            "False False False False null 0 0 | False False False False null 0 0 ~ True True True True null"),
        new(
            "Server: Start at a port that is taken, and at an address of another machine",
            static () => Seen.Lines(
                Taken,
                NotHere),
            "True SocketException False False False  ~ SocketException False"),
        new(
            "Server: Start in OnStopped, Stop in OnStarting",
            static () => Seen.Lines(
                StartInOnStopped,
                StopInOnStarting),
            "True True starting, starting, start True ~ True True stop False"),
        new(
            "Server: counters after a session, after Stop, after the next Start",
            Counters,
            "ConnectedSessions=1 BytesPending=0 BytesSent=0 BytesReceived=0 | ConnectedSessions=1 BytesPending=0 "
            + "BytesSent=5 BytesReceived=5 | ConnectedSessions=0 BytesPending=0 BytesSent=5 BytesReceived=5 | "
            + "ConnectedSessions=0 BytesPending=0 BytesSent=5 BytesReceived=5 | ConnectedSessions=0 BytesPending=0 "
            + "BytesSent=0 BytesReceived=0"),
        new(
            "Server: FindSession and Id",
            Find,
            "False True True False null True"),
        new(
            "Server: callbacks of its start and stop, of a peer that connects and ends",
            static () => Seen.Lines(
                Order,
                Connects,
                PeerEnds),
            "starting False, started True, stopping True, stopped False 0, starting False, started True, "
            + "stopping True, stopped False 0 ~ session: connecting False, server: connecting, session: connected "
            + "True, server: connected ~ session: disconnecting True, server: disconnecting, session: disconnected "
            + "False, server: disconnected"),
        new(
            "Server: callbacks of Stop and DisconnectAll with a session",
            static () => Seen.Lines(
                StopWithSession,
                DisconnectAll),
            "stopping True, session: disconnecting True, server: disconnecting, session: disconnected False, "
            + "server: disconnected, stopped False 0 ~ True 0 session: disconnecting True, server: disconnecting, "
            + "session: disconnected False, server: disconnected"),
        new(
            "Server: Stop in OnDisconnected of a session",
            StopInDisconnected,
            "True False"),
    ];

    private static string Twice()
    {
        using TcpServer server = new(IPAddress.Loopback, 0);
        return Seen.All(() => server.Start(), () => server.Start(), () => server.Stop(), () => server.Stop());
    }

    private static string Restarts()
    {
        using TcpServer server = new(IPAddress.Loopback, 0);
        string before = Seen.All(() => server.Restart(), () => server.Start());
        EndPoint first = server.Endpoint;
        string started = Seen.All(() => server.Restart(), () => server.Endpoint.Equals(first));
        return $"{before} {started} {Seen.All(() => server.Stop(), () => server.Restart(), () => server.IsStarted)}";
    }

    private static string Order()
    {
        Log log = new();
        using RecordingServer server = new(log);
        server.Start();
        server.Restart();
        server.Stop();
        return Seen.Of(log);
    }

    private static string Flags()
    {
        TcpServer server = new(IPAddress.Loopback, 0);
        List<string> states = [State()];
        server.Start();
        states.Add(State());
        server.Stop();
        states.Add(State());
        server.Start();
        server.Dispose();
        states.Add(State());
        return string.Join(" | ", states);

        string State() => Seen.All(
            () => server.IsStarted, () => server.IsAccepting, () => server.IsDisposed, () => server.IsSocketDisposed);
    }

    private static string Disposed()
    {
        TcpServer server = new(IPAddress.Loopback, 0);
        server.Start();
        server.Dispose();
        server.Dispose();
        string text = Seen.All(() => server.IsStarted, () => server.Stop(), () => server.Start(),
            () => server.IsStarted);
        server.Stop();
        return text;
    }

    private static string Ports()
    {
        using TcpServer server = new(IPAddress.Loopback, 0);
        string before = Seen.All(() => server.Address, () => server.Port, () => server.Endpoint);
        server.Start();
        string started = Seen.All(() => server.Port, () => ((IPEndPoint)server.Endpoint).Port > 0);
        int port = ((IPEndPoint)server.Endpoint).Port;
        server.Stop();
        return $"{before} {started} {((IPEndPoint)server.Endpoint).Port == port}";
    }

    private static string Stopped()
    {
        using TcpServer server = new(IPAddress.Loopback, 0);
        string never = Calls();
        server.Start();
        server.Stop();
        return $"{never} | {Calls()}";

        string Calls() => Seen.All(
            () => server.Multicast("text"), () => server.Multicast(""),
            () => server.Multicast(Array.Empty<byte>()), () => server.DisconnectAll(),
            () => server.FindSession(Guid.NewGuid()), () => server.ConnectedSessions, () => server.BytesPending);
    }

    private static string Alone()
    {
        using TcpServer server = new(IPAddress.Loopback, 0);
        server.Start();
        return Seen.All(
            () => server.Multicast("text"), () => server.Multicast(""),
            () => server.Multicast(Array.Empty<byte>()), () => server.DisconnectAll(),
            () => server.FindSession(Guid.Empty));
    }

    private static string Taken()
    {
        using TcpServer first = new(IPAddress.Loopback, 0) { OptionExclusiveAddressUse = true };
        bool isStarted = first.Start();
        using TcpListener other = new(IPAddress.Loopback, 0);
        other.Start();
        Log log = new();
        using RecordingServer second = new(log, ((IPEndPoint)other.LocalEndpoint).Port);
        string text = Seen.All(() => second.Start(), () => second.IsStarted, () => second.IsAccepting,
            () => second.Stop());
        return $"{isStarted} {text} {Seen.Of(log)}";
    }

    private static string StartInOnStopped()
    {
        int left = 1;
        using ActingServer server = new() { AtStopped = s => left-- > 0 ? $"start {s.Start()}" : "" };
        server.Start();
        return $"{Seen.All(() => server.Stop(), () => server.IsStarted)} {Seen.Of(server.Log)}";
    }

    private static string StopInOnStarting()
    {
        using ActingServer server = new() { AtStarting = static s => $"stop {s.Stop()}" };
        return $"{Seen.All(() => server.Start(), () => server.IsStarted)} {Seen.Of(server.Log)}";
    }

    private sealed class ActingServer() : TcpServer(IPAddress.Loopback, 0)
    {
        internal Log Log { get; } = new();

        internal Func<ActingServer, string>? AtStarting { get; init; }

        internal Func<ActingServer, string>? AtStopped { get; init; }

        protected override void OnStarting() => Log.Add(AtStarting?.Invoke(this) ?? "starting");

        protected override void OnStopped() => Log.Add(AtStopped?.Invoke(this) ?? "stopped");
    }

    private static string Counters()
    {
        using Pair pair = new();
        string fresh = Count();
        pair.Client.SendAsync("12345");
        pair.ClientLog.Until("client: received 12345");
        Log.Until(() => pair.Server.BytesSent == 5 && pair.Server.BytesPending == 0, "the counters");
        string used = Count();
        pair.Client.Disconnect();
        Log.Until(() => pair.Server.ConnectedSessions == 0, "the end");
        string left = Count();
        pair.Server.Stop();
        string stopped = Count();
        pair.Server.Start();
        return $"{fresh} | {used} | {left} | {stopped} | {Count()}";

        string Count() =>
            Seen.Properties(pair.Server, "ConnectedSessions", "BytesPending", "BytesSent", "BytesReceived");
    }

    private static string Find()
    {
        using Pair pair = new();
        Guid id = pair.Session.Id;
        string text = Seen.All(
            () => id == Guid.Empty, () => pair.Server.FindSession(id) == pair.Session,
            () => pair.Session.Server == pair.Server,
            () => pair.Server.Id == Guid.Empty);
        pair.Session.Disconnect();
        Log.Until(() => pair.Server.ConnectedSessions == 0, "the end");
        return $"{text} {Seen.All(() => pair.Server.FindSession(id), () => pair.Session.Id == id)}";
    }

    private static string Connects()
    {
        using Pair pair = new();
        return string.Join(", ", pair.Log.Lines[2..]);
    }

    private static string PeerEnds()
    {
        using Pair pair = new();
        int before = pair.Log.Lines.Length;
        pair.Client.Disconnect();
        pair.Log.Until("server: disconnected");
        return string.Join(", ", pair.Log.Lines[before..]);
    }

    private static string StopWithSession()
    {
        using Pair pair = new();
        int before = pair.Log.Lines.Length;
        pair.Server.Stop();
        pair.Log.Until("server: disconnected");
        return string.Join(", ", pair.Log.Lines[before..]);
    }

    private static string DisconnectAll()
    {
        using Pair pair = new();
        int before = pair.Log.Lines.Length;
        string text = Seen.All(() => pair.Server.DisconnectAll(), () => pair.Server.ConnectedSessions);
        pair.Log.Until("server: disconnected");
        return $"{text} {string.Join(", ", pair.Log.Lines[before..])}";
    }

    private static string StopInDisconnected()
    {
        string said = "";
        using Pair pair = new(s => s.Make = own => new RecordingSession((RecordingServer)own)
        {
            AtDisconnected = x => said = Seen.All(() => x.Server.Stop(), () => x.Server.IsStarted),
        });
        pair.Client.Disconnect();
        Log.Until(() => said.Length > 0, "OnDisconnected");
        Log.Until(() => pair.Server.ConnectedSessions == 0, "the end");
        return said;
    }

    private static string NotHere()
    {
        using TcpServer server = new("192.0.2.1", 0);
        return Seen.All(() => server.Start(), () => server.IsStarted);
    }
}
