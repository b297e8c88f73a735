using System.Net;
using System.Net.Sockets;
using System.Text;
using Whimbrel.Engines.Uring;

namespace Whimbrel.Conformance;

/// <summary>Servers on listening sockets that another owner created. Linux.</summary>
public sealed class InheritedSocketTests
{
    private static CancellationToken Cancel => TestContext.Current.CancellationToken;

    [Theory]
    [InlineData(EngineKind.Uring, false)]
    [InlineData(EngineKind.Uring, true)]
    [InlineData(EngineKind.Epoll, false)]
    [InlineData(EngineKind.Epoll, true)]
    public async Task A_server_serves_a_socket_of_another_owner_before_and_after_a_restart_and_leaves_it_open(
        EngineKind kind, bool isUnix)
    {
        SkipElsewhere(kind);
        string path = Path.Combine(Path.GetTempPath(), $"whimbrel-{Guid.NewGuid():n}.sock");
        using Socket owner =
            Listen(isUnix ? new UnixDomainSocketEndPoint(path) : new IPEndPoint(IPAddress.Loopback, 0));
        try
        {
            await using Engine engine = new(new EngineOptions { Kind = kind, Loops = 2 });
            await using Server server = new(new ServerOptions { Engine = engine, EndPoint = Inherit(owner) },
                () => new Echo());
            await server.StartAsync(Cancel);
            Assert.Equal(owner.LocalEndPoint!.ToString(), server.EndPoint!.ToString());
            await EchoesAsync(owner.LocalEndPoint!);
            await server.RestartAsync(TimeSpan.FromSeconds(10));
            await EchoesAsync(owner.LocalEndPoint!);
            await server.StopAcceptingAsync();
            using Socket waiting = await ConnectAsync(owner.LocalEndPoint!);
            await server.StartAcceptingAsync();
            await EchoesAsync(waiting);
            waiting.Dispose();
            await server.StopAsync(TimeSpan.FromSeconds(10));
            if (isUnix) Assert.True(File.Exists(path));
            // The owner can still accept: nothing was shut down, and no filter drops the connection.
            using Socket late = await ConnectAsync(owner.LocalEndPoint!);
            using Socket accepted = await owner.AcceptAsync(Cancel);
            Assert.True(accepted.Connected);
        }
        finally
        {
            if (isUnix) File.Delete(path);
        }
    }

    // A ring waits on blocking descriptors and epoll on others, and the mode belongs to the shared socket: a loop
    // would block in an accept for a connection that the other server took.
    [Theory]
    [InlineData(EngineKind.Uring, EngineKind.Epoll)]
    [InlineData(EngineKind.Epoll, EngineKind.Uring)]
    [InlineData(EngineKind.Uring, EngineKind.Uring)]
    public async Task Two_servers_share_a_socket_and_one_stops_without_losing_a_connection(EngineKind one,
        EngineKind other)
    {
        SkipElsewhere(one);
        SkipElsewhere(other);
        using Socket owner = Listen(new IPEndPoint(IPAddress.Loopback, 0));
        await using Engine first = new(new EngineOptions { Kind = one, Loops = 1 });
        await using Engine second = new(new EngineOptions { Kind = other, Loops = 1 });
        await using Server leaving = new(new ServerOptions { Engine = first, EndPoint = Inherit(owner) },
            () => new Echo());
        await using Server staying = new(new ServerOptions { Engine = second, EndPoint = Inherit(owner) },
            () => new Echo());
        await leaving.StartAsync(Cancel);
        await staying.StartAsync(Cancel);
        Task[] clients = [.. Enumerable.Range(0, 4).Select(async _ =>
        {
            for (int i = 0; i < 100; i++) await EchoesAsync(owner.LocalEndPoint!);
        })];
        // tidy: waits because the number of accepted connections has no event
        while (leaving.AcceptedCount < 10 && !clients.All(static c => c.IsCompleted)) await Task.Delay(1, Cancel);
        await leaving.StopAcceptingAsync();
        await Task.WhenAll(clients);
        Assert.Equal(400, leaving.AcceptedCount + staying.AcceptedCount);
        await leaving.StopAsync(TimeSpan.FromSeconds(10));
        await EchoesAsync(owner.LocalEndPoint!);
    }

    [Theory]
    [InlineData(EngineKind.Uring)]
    [InlineData(EngineKind.Epoll)]
    public async Task A_datagram_socket_of_another_owner_is_used_and_stays_open(EngineKind kind)
    {
        SkipElsewhere(kind);
        using Socket owner = new(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp);
        owner.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        using Socket peer = new(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp);
        await peer.ConnectAsync(owner.LocalEndPoint!, Cancel);
        await using Engine engine = new(new EngineOptions { Kind = kind, Loops = 1 });
        await using (DatagramSocket socket = new(new DatagramOptions { Engine = engine, EndPoint = Inherit(owner) },
            static () => new Back()))
        {
            await socket.StartAsync(Cancel);
            Assert.Equal(owner.LocalEndPoint, socket.EndPoint);
            await EchoesAsync(peer);
        }

        await peer.SendAsync("later"u8.ToArray(), Cancel);
        Assert.Equal(5, await owner.ReceiveAsync(new byte[16], Cancel));
    }

    [Fact]
    public void A_descriptor_that_is_no_listening_socket_is_refused_with_the_reason()
    {
        SkipElsewhere(EngineKind.Epoll);
        using Socket plain = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        using FileStream file = File.OpenRead("/dev/null");
        Assert.Contains("does not listen", Assert.Throws<ArgumentException>(() => Inherit(plain)).Message,
            StringComparison.Ordinal);
        int descriptor = (int)file.SafeFileHandle.DangerousGetHandle();
        Assert.Contains("is not a socket",
            Assert.Throws<ArgumentException>(() => new InheritedSocket(descriptor)).Message,
            StringComparison.Ordinal);
        Assert.Contains("999999 (web) is not open",
            Assert.Throws<ArgumentException>(() => new InheritedSocket(999_999, "web")).Message,
            StringComparison.Ordinal);
        Assert.Throws<ArgumentOutOfRangeException>(() => new InheritedSocket(-1));
    }

    [Fact]
    public async Task Options_name_the_mistake_of_an_inherited_socket()
    {
        SkipElsewhere(EngineKind.Epoll);
        using Socket stream = Listen(new IPEndPoint(IPAddress.Loopback, 0));
        using Socket datagrams = new(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp);
        datagrams.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        Assert.Contains("is a datagram socket", Mistake(new ServerOptions { EndPoint = Inherit(datagrams) }),
            StringComparison.Ordinal);
        Client client = new(new ClientOptions { EndPoint = Inherit(stream) }, static () => new Echo());
        Assert.Contains("is for servers", (await Assert.ThrowsAsync<ArgumentException>(
            async () => await client.ConnectAsync(Cancel))).Message, StringComparison.Ordinal);
        Assert.Contains("Descriptor 999999 is not open", Mistake(new ServerOptions { Address = "fd:999999" }),
            StringComparison.Ordinal);
        Assert.Contains("LISTEN_FDS and LISTEN_PID are not set", Mistake(new ServerOptions { Address = "systemd:web" }),
            StringComparison.Ordinal);
        Assert.Contains("right would be fd:3", Mistake(new ServerOptions { Address = "fd:three" }),
            StringComparison.Ordinal);
        Assert.Contains("right would be systemd:name", Mistake(new ServerOptions { Address = "systemd://web" }),
            StringComparison.Ordinal);
        Assert.Empty(new ServerOptions { Address = $"fd:{stream.Handle}" }.FindMistakes());
        await using Engine portable = new(new EngineOptions { Kind = EngineKind.Portable });
        Assert.Contains("use epoll or io_uring",
            Mistake(new ServerOptions { Engine = portable, Address = $"fd:{stream.Handle}" }),
            StringComparison.Ordinal);

        static string Mistake(ServerOptions options) => Assert.Single(options.FindMistakes());
    }

    [Fact]
    public void Sockets_of_systemd_are_found_by_name_and_other_descriptors_are_left_out()
    {
        SkipElsewhere(EngineKind.Epoll);
        string own = Environment.ProcessId.ToString(System.Globalization.CultureInfo.InvariantCulture);
        using Socket a = Listen(new IPEndPoint(IPAddress.Loopback, 0));
        int first = (int)a.Handle;
        SystemdSockets one = new(own, "1", "web", first);
        InheritedSocket socket = Assert.Single(one.Sockets);
        Assert.Equal(("web", first, SocketType.Stream), (socket.Name, socket.Descriptor, socket.SocketType));
        Assert.Equal(a.LocalEndPoint, socket.LocalEndPoint);
        Assert.Single(one.Find("web", SocketType.Stream, out string? mistake));
        Assert.Null(mistake);
        Assert.Single(one.Find("", SocketType.Stream, out _));
        Assert.Empty(one.Find("mail", SocketType.Stream, out mistake));
        Assert.Contains($"no listening socket named 'mail', but: Stream {a.LocalEndPoint} (descriptor {first}, web)",
            mistake, StringComparison.Ordinal);
        Assert.Empty(one.Find("web", SocketType.Dgram, out mistake));
        Assert.Contains("no datagram socket named 'web'", mistake, StringComparison.Ordinal);
        using FileStream file = File.OpenRead("/dev/null");
        SystemdSockets none = new(own, "1", "fifo", (int)file.SafeFileHandle.DangerousGetHandle());
        Assert.Empty(none.Find("", SocketType.Stream, out mistake));
        Assert.Contains("(fifo) is not a socket", mistake, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(null, null, "are not set")]
    [InlineData("1", "1", "LISTEN_PID is 1, and this process is")]
    [InlineData("own", "0", "LISTEN_FDS is 0")]
    [InlineData("own", "-1", "LISTEN_FDS = '-1' is no number")]
    [InlineData("own", "x", "LISTEN_FDS = 'x' is no number")]
    [InlineData("own", "100001", "is no number")]
    public void A_start_without_sockets_of_systemd_says_why(string? process, string? count, string expected)
    {
        if (process == "own")
            process = Environment.ProcessId.ToString(System.Globalization.CultureInfo.InvariantCulture);
        SystemdSockets sockets = new(process, count, "web", 3);
        Assert.Empty(sockets.Sockets);
        Assert.Empty(sockets.Find("web", SocketType.Stream, out string? mistake));
        Assert.Contains(expected, mistake, StringComparison.Ordinal);
    }

    private static void SkipElsewhere(EngineKind kind)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Sockets of other processes are used on Linux only.");
        Assert.SkipWhen(kind == EngineKind.Uring && !UringProbe.Here.IsOffered, UringProbe.Here.Reason);
    }

    private static InheritedSocket Inherit(Socket socket) => new((int)socket.Handle, "test");

    private static Socket Listen(EndPoint at)
    {
        Socket socket = new(at.AddressFamily, SocketType.Stream, ProtocolType.Unspecified);
        socket.Bind(at);
        socket.Listen(512);
        return socket;
    }

    private static async Task<Socket> ConnectAsync(EndPoint to)
    {
        Socket socket = new(to.AddressFamily, SocketType.Stream, ProtocolType.Unspecified);
        await socket.ConnectAsync(to, Cancel);
        return socket;
    }

    private static async Task EchoesAsync(EndPoint to)
    {
        using Socket socket = await ConnectAsync(to);
        await EchoesAsync(socket);
    }

    internal static async Task EchoesAsync(Socket socket)
    {
        using CancellationTokenSource limit = CancellationTokenSource.CreateLinkedTokenSource(Cancel);
        limit.CancelAfter(TimeSpan.FromSeconds(30));
        await socket.SendAsync(Encoding.ASCII.GetBytes("ping"), limit.Token);
        byte[] buffer = new byte[4];
        for (int got = 0; got < 4;)
        {
            int count = await socket.ReceiveAsync(buffer.AsMemory(got), limit.Token);
            Assert.NotEqual(0, count);
            got += count;
        }

        Assert.Equal("ping"u8, buffer);
    }

    private sealed class Back : DatagramHandler
    {
        protected override void OnReceived(ReadOnlySpan<byte> datagram, in DatagramPeer peer) =>
            Send(datagram, in peer);
    }

    private sealed class Echo : Session
    {
        protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);
    }
}
