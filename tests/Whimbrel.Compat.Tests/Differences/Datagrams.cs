using System.Net;
using System.Net.Sockets;
using System.Text;
using NetCoreServer;
using Whimbrel.Compat.Tests.Connections;
using UdpClient = NetCoreServer.UdpClient;

namespace Whimbrel.Compat.Tests.Differences;

/// <summary>Calls and callbacks of UdpServer and UdpClient.</summary>
internal static class Datagrams
{
    internal static IEnumerable<Behaviour> All =>
    [
        new(
            "UDP server: Start, Stop and Restart in each state, callbacks, flags",
            static () => Seen.Lines(
                Twice,
                Order,
                ServerFlags),
            "False True False True True False False ~ starting False, started True, stopping True, stopped False "
            + "~ False False True 0 | True False False 0 True | False False True 0 | False True True 0"),
        new(
            "UDP server: calls when it is stopped, a port that is taken",
            static () => Seen.Lines(
                Stopped,
                Taken),
            "0 False False 0 False 0 null ~ SocketException False"),
        new(
            "UDP server: Multicast without a group",
            NoGroup,
            "null ArgumentNullException ArgumentException",
            "null 0 False",
            "UDP: `Multicast` of a server without a group"),
        new(
            "UDP server: counters after an echo and after Stop",
            Counters,
            "BytesPending=0 BytesSending=0 BytesSent=5 BytesReceived=5 DatagramsSent=0 DatagramsReceived=1 | "
            + "BytesPending=0 BytesSending=0 BytesSent=5 BytesReceived=5 DatagramsSent=1 DatagramsReceived=1 | "
            + "BytesPending=0 BytesSending=0 BytesSent=5 BytesReceived=5 DatagramsSent=0 DatagramsReceived=1",
            "BytesPending=0 BytesSending=0 BytesSent=5 BytesReceived=5 DatagramsSent=1 DatagramsReceived=1 | "
            + "BytesPending=0 BytesSending=0 BytesSent=5 BytesReceived=5 DatagramsSent=1 DatagramsReceived=1 | "
            + "BytesPending=0 BytesSending=0 BytesSent=5 BytesReceived=5 DatagramsSent=1 DatagramsReceived=1",
            "UDP: `DatagramsSent`"),
        new(
            "UDP client: calls in each state, callbacks, sends of nothing",
            static () => Seen.Lines(
                Before,
                ClientTwice,
                ClientOrder,
                Empty),
            "False False 0 False False 0 null False ~ True False True True False False False ~ connecting False, "
            + "connected True, disconnecting True, disconnected False ~ 0 0 True 0"),
        new(
            "UDP client: Receive with the ReceiveTimeout of its Socket",
            ReceiveInVain,
            "0 False connecting False, connected True, error TimedOut, disconnecting True, disconnected False",
            "0 True connecting False, connected True, error TimedOut",
            "UDP: an error of a client"),
        new(
            "UDP client: sends in OnSent",
            TwoSends,
            "sent, sent, two sends in OnSent: True True",
            "two sends in OnSent: True True, sent, sent",
            "sends of UDP"),
        new(
            "UDP client: a datagram of 70,000 bytes",
            TooLong,
            "0 False connecting False, connected True, error MessageSize, disconnecting True, disconnected False",
            "0 True connecting False, connected True, error MessageSize",
            "UDP: an error of a client"),
        new(
            "UDP client: ReceiveAsync twice gives one datagram, OnSent of a Send",
            static () => Seen.Lines(
                ArmedTwice,
                SentSync),
            "received one, received two ~ 5 connecting False, connected True, sent 5"),
        new(
            "UDP client: a datagram longer than OptionReceiveBufferSize",
            LongerThanBuffer,
            "True connecting False, connected True, sent 5, received 0123456789abcdef",
            "True connecting False, connected True, sent 5, received 0123456789abcdefghij",
            "UDP: a datagram longer than `OptionReceiveBufferSize`"),
        new(
            "UDP client: Dispose twice, and Connect after it",
            Disposed,
            "True False True True connecting False, connected True, disconnecting True, disconnected False, "
            + "connecting False, connected True, disconnecting True, disconnected False"),
        new(
            "UDP client: joining what is no group, leaving what it has not joined",
            BadGroup,
            "SocketException FormatException SocketException"),
        new(
            "UDP client: no socket at the port",
            Unreachable,
            "3 3 True connecting False, connected True, sent 3, sent 3"),
    ];

    private sealed class Echo(Log log) : UdpServer(IPAddress.Loopback, 0)
    {
        internal int Chosen => ((IPEndPoint)Endpoint).Port;

        protected override void OnStarting() => log.Add($"starting {IsStarted}");

        protected override void OnStarted()
        {
            log.Add($"started {IsStarted}");
            ReceiveAsync();
        }

        protected override void OnStopping() => log.Add($"stopping {IsStarted}");

        protected override void OnStopped() => log.Add($"stopped {IsStarted}");

        protected override void OnReceived(EndPoint endpoint, byte[] buffer, long offset, long size)
        {
            log.Add($"received {size}");
            SendAsync(endpoint, buffer, offset, size);
        }

        protected override void OnSent(EndPoint endpoint, long sent)
        {
            log.Add($"sent {sent}");
            ReceiveAsync();
        }

        protected override void OnError(SocketError error) => log.Add($"error {error}");
    }

    private sealed class Talking(Log log, int port, bool receives = true) : UdpClient(IPAddress.Loopback, port)
    {
        internal Action<Talking>? AtReceived { get; init; }

        protected override void OnConnecting() => log.Add($"connecting {IsConnected}");

        protected override void OnConnected()
        {
            log.Add($"connected {IsConnected}");
            if (receives) ReceiveAsync();
        }

        protected override void OnDisconnecting() => log.Add($"disconnecting {IsConnected}");

        protected override void OnDisconnected() => log.Add($"disconnected {IsConnected}");

        protected override void OnReceived(EndPoint endpoint, byte[] buffer, long offset, long size)
        {
            log.Add($"received {Encoding.UTF8.GetString(buffer, (int)offset, (int)Math.Min(size, 40))}");
            AtReceived?.Invoke(this);
        }

        protected override void OnSent(EndPoint endpoint, long sent) => log.Add($"sent {sent}");

        protected override void OnError(SocketError error) => log.Add($"error {error}");
    }

    private static string Twice()
    {
        using UdpServer server = new(IPAddress.Loopback, 0);
        return Seen.All(
            () => server.Restart(), () => server.Start(), () => server.Start(), () => server.Restart(),
            () => server.Stop(), () => server.Stop(),
            () => server.Restart());
    }

    private static string Order()
    {
        Log log = new();
        using Echo server = new(log);
        server.Start();
        server.Stop();
        return Seen.Of(log);
    }

    private static string ServerFlags()
    {
        UdpServer server = new(IPAddress.Loopback, 0);
        List<string> states = [State()];
        server.Start();
        states.Add(State() + $" {((IPEndPoint)server.Endpoint).Port > 0}");
        server.Stop();
        states.Add(State());
        server.Start();
        server.Dispose();
        states.Add(State());
        return string.Join(" | ", states);

        string State() => Seen.All(() => server.IsStarted, () => server.IsDisposed,
            () => server.IsSocketDisposed, () => server.Port);
    }

    private static string Stopped()
    {
        using UdpServer server = new(IPAddress.Loopback, 0);
        EndPoint peer = new IPEndPoint(IPAddress.Loopback, 9); // tidy: fixed port because nothing is sent there
        return Seen.All(
            () => server.Send(peer, "x"), () => server.SendAsync(peer, "x"), () => server.SendAsync(peer, ""),
            () => server.Multicast("x"),
            () => server.MulticastAsync("x"), () => server.Receive(ref peer, new byte[4]), () => server.Socket);
    }

    private static string NoGroup()
    {
        using UdpServer server = new(IPAddress.Loopback, 0);
        server.Start();
        return Seen.All(() => server.MulticastEndpoint, () => server.Multicast("x"), () => server.MulticastAsync("x"));
    }

    private static string Taken()
    {
        using Socket first = new(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp);
        first.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        using UdpServer server = new(IPAddress.Loopback, ((IPEndPoint)first.LocalEndPoint!).Port);
        return Seen.All(() => server.Start(), () => server.IsStarted);
    }

    private static string Counters()
    {
        Log log = new();
        using Echo server = new(log);
        server.Start();
        using Talking client = new(new Log(), server.Chosen);
        client.Connect();
        client.Send("12345");
        log.Until("sent 5");
        Log.Until(() => server.BytesSent == 5 && client.BytesReceived == 5, "the counters");
        string text = $"{Count(server)} | {Count(client)}";
        server.Stop();
        return $"{text} | {Count(server)}";
    }

    private static string Count(object of) =>
        Seen.Properties(of, "BytesPending", "BytesSending", "BytesSent", "BytesReceived", "DatagramsSent",
            "DatagramsReceived");

    private static string Before()
    {
        using UdpClient client = new(IPAddress.Loopback, 9);
        EndPoint peer = new IPEndPoint(IPAddress.Loopback, 9); // tidy: fixed port because nothing is sent there
        return Seen.All(
            () => client.Disconnect(), () => client.Reconnect(), () => client.Send("x"),
            () => client.SendAsync("x"), () => client.SendAsync(""),
            () => client.Receive(ref peer, new byte[4]), () => client.Socket, () => client.IsConnected);
    }

    private static string ClientTwice()
    {
        using UdpClient client = new(IPAddress.Loopback, 9);
        return Seen.All(
            () => client.Connect(), () => client.Connect(), () => client.Reconnect(), () => client.Disconnect(),
            () => client.Disconnect(),
            () => client.Reconnect(), () => client.IsConnected);
    }

    private static string ClientOrder()
    {
        Log log = new();
        using Talking client = new(log, 9);
        client.Connect();
        client.Disconnect();
        return Seen.Of(log);
    }

    private static string ReceiveInVain()
    {
        using Echo server = new(new Log());
        server.Start();
        Log log = new();
        using Talking client = new(log, server.Chosen, receives: false);
        client.Connect();
        EndPoint peer = new IPEndPoint(IPAddress.Any, 0);
        client.Socket.ReceiveTimeout = 50;
        string text = Seen.All(() => client.Receive(ref peer, new byte[4]), () => client.IsConnected);
        return $"{text} {Seen.Of(log)}";
    }

    private static string Empty()
    {
        using UdpClient client = new(IPAddress.Loopback, 9);
        client.Connect();
        return Seen.All(() => client.Send(""), () => client.Send(Array.Empty<byte>()),
            () => client.SendAsync(""), () => client.DatagramsSent);
    }

    private static string TwoSends()
    {
        using Socket peer = new(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp);
        peer.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        Log log = new();
        using InOnSent client = new(log, ((IPEndPoint)peer.LocalEndPoint!).Port);
        client.Connect();
        client.SendAsync("1");
        Log.Until(() => log.Lines.Length >= 3, Seen.Of(log));
        return Seen.Of(log);
    }

    // A send that completes at once calls OnSent inside SendAsync in the original.
    private sealed class InOnSent(Log log, int port) : UdpClient(IPAddress.Loopback, port)
    {
        private int _sent;

        protected override void OnSent(EndPoint endpoint, long sent)
        {
            if (_sent++ == 0) log.Add($"two sends in OnSent: {SendAsync("2")} {SendAsync("3")}");
            else log.Add("sent");
        }
    }

    private static string TooLong()
    {
        Log log = new();
        using Talking client = new(log, 9, receives: false);
        client.Connect();
        string text = Seen.One(() => client.Send(new byte[70_000]));
        log.Until("error MessageSize");
        return $"{text} {client.IsConnected} {Seen.Of(log)}";
    }

    private static string ArmedTwice()
    {
        using Socket peer = new(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp);
        peer.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        Log log = new();
        using Talking client = new(log, ((IPEndPoint)peer.LocalEndPoint!).Port);
        client.Connect();
        client.ReceiveAsync();
        client.ReceiveAsync();
        client.Send("hello");
        EndPoint from = new IPEndPoint(IPAddress.Any, 0);
        peer.ReceiveTimeout = 30_000;
        peer.ReceiveFrom(new byte[8], ref from);
        peer.SendTo("one"u8, from);
        log.Until("received one");
        peer.SendTo("two"u8, from);
        client.ReceiveAsync();
        log.Until("received two");
        return string.Join(", ", log.Lines.Where(static l => l.StartsWith("received", StringComparison.Ordinal)));
    }

    private static string SentSync()
    {
        using Socket peer = new(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp);
        peer.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        Log log = new();
        using Talking client = new(log, ((IPEndPoint)peer.LocalEndPoint!).Port, receives: false);
        client.Connect();
        string text = Seen.One(() => client.Send("12345"));
        log.Until("sent 5");
        return $"{text} {Seen.Of(log)}";
    }

    private static string LongerThanBuffer()
    {
        using Socket peer = new(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp);
        peer.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        peer.ReceiveTimeout = 30_000;
        Log log = new();
        using Talking client = new(log, ((IPEndPoint)peer.LocalEndPoint!).Port) { OptionReceiveBufferSize = 16 };
        client.Connect();
        client.Send("hello");
        EndPoint from = new IPEndPoint(IPAddress.Any, 0);
        peer.ReceiveFrom(new byte[8], ref from);
        peer.SendTo("0123456789abcdefghij"u8, from);
        Log.Until(
            () => log.Lines.Any(static l => l.StartsWith("received", StringComparison.Ordinal)
                || l.StartsWith("error", StringComparison.Ordinal)),
            Seen.Of(log));
        return $"{Seen.One(() => client.IsConnected)} {Seen.Of(log)}";
    }

    private static string Disposed()
    {
        Log log = new();
        Talking client = new(log, 9, receives: false);
        client.Connect();
        client.Dispose();
        client.Dispose();
        string text = Seen.All(() => client.IsDisposed, () => client.IsConnected, () => client.Connect(),
            () => client.IsConnected);
        client.Disconnect();
        return $"{text} {Seen.Of(log)}";
    }

    private static string BadGroup()
    {
        using UdpClient client = new(IPAddress.Loopback, 9);
        client.Connect();
        return Seen.All(
            () => Do(() => client.JoinMulticastGroup("127.0.0.1")),
            () => Do(() => client.JoinMulticastGroup("no address")),
            () => Do(() => client.LeaveMulticastGroup("239.255.0.1")));

        static string Do(Action action)
        {
            action();
            return "done";
        }
    }

    private static string Unreachable()
    {
        int port;
        using (Socket peer = new(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp))
        {
            peer.Bind(new IPEndPoint(IPAddress.Loopback, 0));
            port = ((IPEndPoint)peer.LocalEndPoint!).Port;
        }

        Log log = new();
        using Talking client = new(log, port);
        client.Connect();
        string text = Seen.All(() => client.Send("one"), () => client.Send("two"), () => client.IsConnected);
        log.Until("sent 3", 2);
        return $"{text} {Seen.Of(log)}";
    }
}
