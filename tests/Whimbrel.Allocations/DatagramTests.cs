using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Allocations;

// A datagram allocates nothing, for any sender.
public sealed class DatagramTests
{
    private const int Rounds = 300;

    public static TheoryData<string> Engines => Rig.Engines;

    [Theory]
    [MemberData(nameof(Engines))]
    public void An_echo_of_datagrams_allocates_nothing(string engine) =>
        Measure(engine, peers: 1, bytes: 32, AddressFamily.InterNetwork);

    [Theory]
    [MemberData(nameof(Engines))]
    public void An_echo_to_a_thousand_peers_allocates_nothing(string engine) =>
        Measure(engine, peers: 1_000, bytes: 32, AddressFamily.InterNetwork);

    [Theory]
    [MemberData(nameof(Engines))]
    public void An_echo_of_runs_allocates_nothing(string engine) =>
        Measure(engine, peers: 1, bytes: 1_200, AddressFamily.InterNetwork, burst: 40);

    [Theory]
    [MemberData(nameof(Engines))]
    public void An_echo_over_Unix_datagrams_allocates_nothing(string engine) =>
        Measure(engine, peers: 3, bytes: 32, AddressFamily.Unix);

    private static void Measure(string engine, int peers, int bytes, AddressFamily family, int burst = 1)
    {
        if (engine == "uring")
            Assert.SkipUnless(Whimbrel.Engines.Uring.UringProbe.Here.IsOffered,
                Whimbrel.Engines.Uring.UringProbe.Here.Reason);
        List<string> paths = [];
        Engine made = new(new EngineOptions
        {
            Kind = Enum.Parse<EngineKind>(engine, ignoreCase: true),
            Loops = 1,
            BlockedLoopMs = 60_000
        });
        DatagramSocket socket = new(new DatagramOptions { Engine = made, EndPoint = NewAddress() },
            static () => new EchoHandler());
        Rig.Wait(socket.StartAsync().AsTask());
        Socket[] clients = [.. Enumerable.Range(0, peers).Select(_ => Open())];
        byte[] message = new byte[bytes];
        byte[] answer = new byte[64 * 1024];
        int next = 0;
        new LoopMeter(made.GetLoop(0)).ExpectNone(
            $"echo of {burst} datagram(s) of {bytes} bytes among {peers} peer(s) over {family}",
            Math.Max(Rounds, peers), () =>
            {
                Socket client = clients[next++ % peers];
                for (int i = 0; i < burst; i++) client.Send(message);
                for (int i = 0; i < burst; i++) Assert.Equal(bytes, client.Receive(answer));
            });
        foreach (Socket client in clients) client.Dispose();
        Rig.Wait(socket.DisposeAsync().AsTask());
        Rig.Wait(made.DisposeAsync().AsTask());
        foreach (string path in paths) File.Delete(path);

        EndPoint NewAddress()
        {
            if (family == AddressFamily.InterNetwork) return new IPEndPoint(IPAddress.Loopback, 0);
            paths.Add(Path.Combine(Path.GetTempPath(), $"whimbrel-{Guid.NewGuid():N}.sock"));
            return new UnixDomainSocketEndPoint(paths[^1]);
        }

        Socket Open()
        {
            Socket client = new(family, SocketType.Dgram,
                family == AddressFamily.Unix ? ProtocolType.Unspecified : ProtocolType.Udp)
            {
                ReceiveTimeout = (int)LoopMeter.Patience.TotalMilliseconds
            };
            client.Bind(NewAddress());
            client.Connect(socket.EndPoint!);
            return client;
        }
    }

    private sealed class EchoHandler : DatagramHandler
    {
        protected override void OnReceived(ReadOnlySpan<byte> datagram, in DatagramPeer peer) =>
            Send(datagram, in peer);
    }
}
