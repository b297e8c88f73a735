using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Allocations;

// One loop with one server, and raw clients in the test's own thread.
internal sealed class Rig : IDisposable
{
    private readonly List<Socket> _clients = [];
    private readonly byte[] _buffer = new byte[256 * 1024];

    private readonly int _socketBytes;

    internal Rig(string engine, Func<Session> factory, int sendLimitBytes = 1024 * 1024, int socketBytes = 0,
        Scheduling scheduling = Scheduling.Inline, TlsOptions? tls = null)
        : this(engine, options => new Server(options, factory), sendLimitBytes, socketBytes, scheduling, tls)
    {
    }

    internal Rig(string engine, Func<SessionContext, Session> factory, int sendLimitBytes = 1024 * 1024,
        int socketBytes = 0, Scheduling scheduling = Scheduling.Inline, TlsOptions? tls = null)
        : this(engine, options => new Server(options, factory), sendLimitBytes, socketBytes, scheduling, tls)
    {
    }

    private Rig(string engine, Func<ServerOptions, Server> makeServer, int sendLimitBytes, int socketBytes,
        Scheduling scheduling, TlsOptions? tls)
    {
        _socketBytes = socketBytes;
        if (engine == "uring")
            Assert.SkipUnless(Whimbrel.Engines.Uring.UringProbe.Here.IsOffered,
                Whimbrel.Engines.Uring.UringProbe.Here.Reason);
        Engine = new Engine(new EngineOptions
        {
            Kind = Enum.Parse<EngineKind>(engine, ignoreCase: true),
            Loops = 1,
            BlockedLoopMs = 60_000
        });
        Server = makeServer(
            new ServerOptions
            {
                Engine = Engine,
                EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
                Limits = new() { SendBytes = sendLimitBytes, SlowConsumer = SlowConsumer.Wait },
                Socket = new() { SendBufferBytes = socketBytes },
                Scheduling = scheduling,
                Tls = tls
            });
        Wait(Server.StartAsync().AsTask());
        Meter = new LoopMeter(Engine.GetLoop(0));
    }

    // WHIMBREL_ALLOCATION_ENGINES selects others, separated by commas.
    public static TheoryData<string> Engines => [.. (Environment.GetEnvironmentVariable("WHIMBREL_ALLOCATION_ENGINES")
        ?? "epoll,uring").Split(',')];

    internal Engine Engine { get; }

    internal Server Server { get; }

    internal LoopMeter Meter { get; }

    internal Socket Connect()
    {
        Socket client = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp)
        {
            NoDelay = true,
            ReceiveTimeout = (int)LoopMeter.Patience.TotalMilliseconds
        };
        if (_socketBytes > 0) client.ReceiveBufferSize = _socketBytes;
        client.Connect(Server.EndPoint!);
        _clients.Add(client);
        return client;
    }

    internal void Read(Socket client, int count)
    {
        while (count > 0)
        {
            int part = client.Receive(_buffer, 0, Math.Min(count, _buffer.Length), SocketFlags.None);
            if (part == 0) Assert.Fail("The connection has ended."); // assertions of the test library allocate
            count -= part;
        }
    }

    internal static void Wait(Task task)
    {
        if (!task.Wait(LoopMeter.Patience, TestContext.Current.CancellationToken))
            throw new TimeoutException("It did not end.");
    }

    public void Dispose()
    {
        foreach (Socket client in _clients) client.Dispose();
        Wait(Server.StopAsync(TimeSpan.Zero).AsTask());
        Wait(Engine.DisposeAsync().AsTask());
    }
}
