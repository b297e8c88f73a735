using System.Net;
using System.Net.Sockets;
using NetCoreServer;
using Whimbrel.Compat.Tests.Connections;
using TcpClient = NetCoreServer.TcpClient;

namespace Whimbrel.Compat.Tests.Differences;

/// <summary>Calls and callbacks of a TcpClient.</summary>
internal static class ClientCalls
{
    internal static IEnumerable<Behaviour> All =>
    [
        new(
            "Client: calls before Connect",
            Before,
            "False False False False 0 False False 0 0 null"),
        new(
            "Client: Connect, ConnectAsync and Disconnect twice",
            static () => Seen.Lines(
                Twice,
                AsyncTwice),
            "True False False True True False False ~ True False False False False"),
        new(
            "Client: callbacks of Connect and Disconnect, and of an end by the server",
            static () => Seen.Lines(
                Order,
                ServerEnds),
            "client: connecting False, client: connected True, disconnect, client: disconnecting True, client: "
            + "disconnected False ~ client: connecting False, client: connected True, client: disconnecting True, "
            + "client: disconnected False"),
        new(
            "Client: Connect to a port that refuses",
            Refused,
            "False False False False client: connecting False, client: disconnecting False, client: disconnected "
            + "False"),
        new(
            "Client: ConnectAsync to a port that refuses",
            RefusedAsync,
            "True False False False client: connecting False, client: disconnected False",
            "True False True False client: connecting False, client: disconnected False",
            "`IsSocketDisposed` after a `ConnectAsync` that failed"),
        new(
            "Client: flags in each state, Address, Port and Endpoint",
            static () => Seen.Lines(
                Flags,
                Names,
                ConnectToName),
            "False False False True | False True False False | False False False True | False False True True ~ "
            + "127.0.0.1 1 127.0.0.1:1 localhost 2 Unspecified/localhost:2 ~ True True True"),
        new(
            "Client: Connect to a name that does not exist",
            NoName,
            "False False connecting, error, disconnecting, disconnected"),
        new(
            "Client: Id and counters over a Reconnect",
            static () => Seen.Lines(
                Ids,
                Counters),
            "False True True ~ BytesPending=0 BytesSending=0 BytesSent=5 BytesReceived=5 | BytesPending=0 "
            + "BytesSending=0 BytesSent=0 BytesReceived=0"),
        new(
            "Client: Dispose while connected, twice, Connect after it",
            Disposed,
            "True False False True True client: connecting False, client: connected True, client: disconnecting "
            + "True, client: disconnected False, client: connecting False, client: connected True, client: "
            + "disconnecting True, client: disconnected False"),
        new(
            "Client: ConnectAsync in OnDisconnected",
            ReconnectInDisconnected,
            "client: connecting False, client: connected True, client: disconnecting True, client: disconnected "
            + "False, client: connecting False, client: again True, client: connected True"),
        new(
            "Client: Receive after Connect, and ReceiveAsync",
            static () => Seen.Lines(
                Receives,
                ReceiveAsync),
            "12345 5 5 3 ~ 0 5"),
        new(
            "Client: Receive with the ReceiveTimeout of its Socket",
            ReceiveInVain,
            "0 False client: connecting False, client: connected True, client: error TimedOut, client: "
            + "disconnecting True, client: disconnected False"),
        new(
            "Client: Receive when the peer has ended the connection",
            ReceiveAtEnd,
            "does not return",
            "0 False client: connecting False, client: connected True, client: disconnecting True, client: "
            + "disconnected False",
            "`Receive` of a client after the end of its peer"),
        new(
            "Client: SendAsync in OnConnected, and above OptionSendBufferLimit",
            static () => Seen.Lines(
                SendInConnected,
                SendLimit),
            "client: connecting False, client: connected True, client: True True False, client: received first ~ "
            + "False True client: connecting False, client: connected True, client: error NoBufferSpaceAvailable, "
            + "client: received 12345678"),
        new(
            "Client: Reconnect and ReconnectAsync when connected",
            Reconnects,
            "True True True client: connecting False, client: connected True, client: disconnecting True, "
            + "client: disconnected False, client: connecting False, client: connected True, client: disconnecting "
            + "True, client: disconnected False, client: connecting False, client: connected True"),
        new(
            "Client: Socket in each state, and of an own CreateSocket",
            static () => Seen.Lines(
                Sockets,
                OwnSocket),
            "True True False True ~ True 1 True True 2"),
    ];

    private static RecordingClient ToNowhere(Log log)
    {
        using TcpListener listener = new(IPAddress.Loopback, 0);
        listener.Start();
        int port = ((IPEndPoint)listener.LocalEndpoint).Port;
        listener.Stop();
        return new RecordingClient(log, port);
    }

    private static string Before()
    {
        using RecordingClient client = ToNowhere(new Log());
        return Seen.All(
            () => client.Disconnect(), () => client.DisconnectAsync(), () => client.Reconnect(),
            () => client.ReconnectAsync(),
            () => client.Send("x"), () => client.SendAsync("x"), () => client.SendAsync(""),
            () => client.Receive(new byte[4]),
            () => client.Receive(4).Length, () => client.Socket);
    }

    private static string Twice()
    {
        using TcpServer server = new(IPAddress.Loopback, 0);
        server.Start();
        using TcpClient client = new(IPAddress.Loopback, ((IPEndPoint)server.Endpoint).Port);
        return Seen.All(
            () => client.Connect(), () => client.Connect(), () => client.ConnectAsync(), () => client.IsConnected,
            () => client.Disconnect(), () => client.Disconnect(), () => client.IsConnected);
    }

    private static string AsyncTwice()
    {
        using TcpServer server = new(IPAddress.Loopback, 0);
        server.Start();
        using TcpClient client = new(IPAddress.Loopback, ((IPEndPoint)server.Endpoint).Port);
        string text = Seen.All(() => client.ConnectAsync(), () => client.ConnectAsync());
        Log.Until(() => client.IsConnected, "the connection");
        return $"{text} {Seen.All(() => client.ConnectAsync(), () => client.Connect(), () => client.IsConnecting)}";
    }

    private static string Order()
    {
        using Pair pair = new(isSync: true);
        pair.ClientLog.Add("disconnect");
        pair.Client.Disconnect();
        return Seen.Of(pair.ClientLog);
    }

    private static string ServerEnds()
    {
        using Pair pair = new();
        pair.Session.Disconnect();
        pair.ClientLog.Until("client: disconnected False");
        return Seen.Of(pair.ClientLog);
    }

    private static string Refused()
    {
        Log log = new();
        using RecordingClient client = ToNowhere(log);
        string text = Seen.All(() => client.Connect(), () => client.IsConnected, () => client.IsConnecting,
            () => client.Disconnect());
        return $"{text} {Seen.Of(log)}";
    }

    private static string RefusedAsync()
    {
        Log log = new();
        using RecordingClient client = ToNowhere(log);
        string text = Seen.One(() => client.ConnectAsync());
        log.Until("client: disconnected False");
        Log.Until(() => !client.IsConnecting, "the end");
        return $"{text} {Seen.All(() => client.IsConnected, () => client.IsSocketDisposed,
            () => client.Disconnect())} {Seen.Of(log)}";
    }

    private static string Flags()
    {
        using TcpServer server = new(IPAddress.Loopback, 0);
        server.Start();
        TcpClient client = new(IPAddress.Loopback, ((IPEndPoint)server.Endpoint).Port);
        List<string> states = [State()];
        client.Connect();
        states.Add(State());
        client.Disconnect();
        states.Add(State());
        client.Dispose();
        states.Add(State());
        return string.Join(" | ", states);

        string State() => Seen.All(
            () => client.IsConnecting, () => client.IsConnected, () => client.IsDisposed,
            () => client.IsSocketDisposed);
    }

    private static string Names()
    {
        using TcpClient address = new("127.0.0.1", 1);
        using TcpClient name = new(new DnsEndPoint("localhost", 2));
        return Seen.All(
            () => address.Address, () => address.Port, () => address.Endpoint, () => name.Address,
            () => name.Port, () => name.Endpoint);
    }

    private static string ConnectToName()
    {
        using TcpServer server = new(IPAddress.Loopback, 0);
        server.Start();
        using TcpClient client = new(new DnsEndPoint("localhost", ((IPEndPoint)server.Endpoint).Port,
            AddressFamily.InterNetwork));
        return Seen.All(() => client.Connect(), () => client.IsConnected, () => client.Endpoint is DnsEndPoint);
    }

    private static string NoName()
    {
        Log log = new();
        using NamedClient client = new(log);
        return $"{Seen.All(() => client.Connect(), () => client.IsConnected)} {Seen.Of(log)}";
    }

    private sealed class NamedClient(Log log)
        : TcpClient(new DnsEndPoint("no-such-name.invalid", 1, AddressFamily.InterNetwork))
    {
        protected override void OnConnecting() => log.Add("connecting");

        protected override void OnDisconnecting() => log.Add("disconnecting");

        protected override void OnDisconnected() => log.Add("disconnected");

        protected override void OnError(SocketError error) => log.Add("error");
    }

    private static string Ids()
    {
        using Pair pair = new();
        Guid id = pair.Client.Id;
        return Seen.All(() => id == Guid.Empty, () => pair.Client.Reconnect(), () => pair.Client.Id == id);
    }

    private static string Counters()
    {
        using Pair pair = new();
        pair.Client.SendAsync("12345");
        pair.ClientLog.Until("client: received 12345");
        pair.Client.Disconnect();
        string left = Count();
        pair.Client.Connect();
        return $"{left} | {Count()}";

        string Count() => Seen.Properties(pair.Client, "BytesPending", "BytesSending", "BytesSent", "BytesReceived");
    }

    private static string Disposed()
    {
        using Pair pair = new();
        pair.Client.Dispose();
        pair.Client.Dispose();
        string text = Seen.All(
            () => pair.Client.IsDisposed, () => pair.Client.IsConnected, () => pair.Client.SendAsync("x"),
            () => pair.Client.Connect(),
            () => pair.Client.IsConnected);
        pair.Client.Disconnect();
        return $"{text} {Seen.Of(pair.ClientLog)}";
    }

    private static string ReconnectInDisconnected()
    {
        int left = 1;
        using Pair pair = new(make: (log, port) => new RecordingClient(log, port)
        {
            AtDisconnected = c =>
            {
                if (left-- > 0) log.Add($"client: again {c.ConnectAsync()}");
            },
        });
        pair.Client.Disconnect();
        pair.ClientLog.Until("client: connected True", 2);
        return Seen.Of(pair.ClientLog);
    }

    private static string Receives()
    {
        using Pair pair = new(isSync: true);
        pair.Session.SendAsync("12345");
        string text = Seen.All(() => pair.Client.Receive(5), () => pair.Client.BytesReceived,
            () => pair.Client.Received);
        pair.Client.Send("again");
        return $"{text} {Seen.One(() => pair.Client.Receive(new byte[3], 0, 3))}";
    }

    private static string ReceiveInVain()
    {
        using Pair pair = new(isSync: true);
        pair.Client.Socket.ReceiveTimeout = 50;
        string text = Seen.All(() => pair.Client.Receive(4).Length, () => pair.Client.IsConnected);
        return $"{text} {Seen.Of(pair.ClientLog)}";
    }

    private static string ReceiveAtEnd()
    {
        using Pair pair = new(isSync: true);
        pair.Session.Disconnect();
        string text = Seen.All(() => pair.Client.Receive(4).Length);
        pair.ClientLog.Until("client: disconnected False");
        return $"{text} {Seen.One(() => pair.Client.IsConnected)} {Seen.Of(pair.ClientLog)}";
    }

    private static string ReceiveAsync()
    {
        using Pair pair = new(isSync: true);
        pair.Session.SendAsync("12345");
        Log.Until(() => pair.Session.BytesPending == 0, "the bytes");
        long before = pair.Client.Received;
        pair.Client.ReceiveAsync();
        pair.ClientLog.Until("client: received 12345");
        return $"{before} {pair.Client.Received}";
    }

    private static string SendInConnected()
    {
        using Pair pair = new(make: static (log, port) => new RecordingClient(log, port)
        {
            AtConnected = c => log.Add($"client: {c.SendAsync("first")} {c.IsConnected} {c.IsConnecting}"),
        });
        pair.ClientLog.Until("client: received first");
        return Seen.Of(pair.ClientLog);
    }

    private static string Reconnects()
    {
        using Pair pair = new();
        string text = Seen.All(() => pair.Client.Reconnect(), () => pair.Client.IsConnected,
            () => pair.Client.ReconnectAsync());
        pair.ClientLog.Until("client: connected True", 3);
        return $"{text} {Seen.Of(pair.ClientLog)}";
    }

    private static string SendLimit()
    {
        using Pair pair = new();
        pair.Client.OptionSendBufferLimit = 8;
        string text = Seen.All(() => pair.Client.SendAsync("123456789"), () => pair.Client.SendAsync("12345678"));
        pair.ClientLog.Until("client: received 12345678");
        return $"{text} {Seen.Of(pair.ClientLog)}";
    }

    private static string Sockets()
    {
        using Pair pair = new(isSync: true);
        Socket socket = pair.Client.Socket;
        string text = Seen.All(() => socket.Connected, () => socket.RemoteEndPoint!.Equals(pair.Server.Endpoint));
        pair.Client.Disconnect();
        Log.Until(() => Seen.One(() => socket.Available) == nameof(ObjectDisposedException), "the end of the socket");
        return $"{text} {Seen.All(() => pair.Client.Socket is null,
            () => ReferenceEquals(pair.Client.Socket, socket))}";
    }

    private static string OwnSocket()
    {
        using TcpServer server = new(IPAddress.Loopback, 0);
        server.Start();
        using OwnSocketClient client = new(((IPEndPoint)server.Endpoint).Port);
        return Seen.All(() => client.Connect(), () => client.Made,
            () => ReferenceEquals(client.Socket, client.Last), () => client.Reconnect(), () => client.Made);
    }

    private sealed class OwnSocketClient(int port) : TcpClient(IPAddress.Loopback, port)
    {
        internal int Made { get; private set; }

        internal Socket? Last { get; private set; }

        protected override Socket CreateSocket()
        {
            Made++;
            return Last = base.CreateSocket();
        }
    }
}
