using System.Diagnostics;
using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Conformance;

/// <summary>Real sockets, real threads, real time.</summary>
public sealed class RealRig : Rig
{
    /// <summary>Only a broken build reaches this deadline.</summary>
    private static readonly TimeSpan s_deadline = TimeSpan.FromSeconds(20);

    private readonly List<Task> _elsewhere = [];
    private readonly List<string> _paths = [];
    private readonly List<IDisposable> _disposables = [];

    public RealRig(EngineKind kind, bool isUnix, int loops, bool isPool = false)
        : base(isUnix, isPool) => Engine = new RecordingEngine(
            new EngineOptions
            {
                Kind = kind,
                Loops = loops,
                Name = "conformance",
                OnDiagnosticEvent = AddNotice,
                OnLoopStarted = LoopStarted,
                OnLoopStopping = LoopStopping
            },
            AddEngineEvent);

    public override Engine Engine { get; }

    public override bool IsVirtual => false;

    public override EndPoint NewAddress()
    {
        if (!IsUnix) return new IPEndPoint(IPAddress.Loopback, 0);
        string path = Path.Combine(Path.GetTempPath(), $"whimbrel-{Guid.NewGuid():N}.sock");
        _paths.Add(path);
        return new UnixDomainSocketEndPoint(path);
    }

    public override void Until(Func<bool> condition, string what)
    {
        ArgumentNullException.ThrowIfNull(condition);
        long start = Stopwatch.GetTimestamp();
        for (int round = 0; !condition(); round++)
        {
            PumpPeers();
            if (Stopwatch.GetElapsedTime(start) > s_deadline)
                Assert.Fail($"Waited {s_deadline.TotalSeconds} s for {what}.");
            if (round < 50) Thread.Yield();
            else Nap(1);
        }
    }

    public override void Settle()
    {
        // On loopback, data is in the receiver's buffer when a write returns; after a few iterations a loop has seen
        // it.
        for (int round = 0; round < 5; round++)
        {
            for (int i = 0; i < Engine.LoopCount; i++) OnLoop(Engine.GetLoop(i), static () => { });
            PumpPeers();
            if (IsPool) SettlePool();
            Nap(2);
        }
    }

    /// <summary>Waits for work that the loops gave to the pool, but not long for a callback that blocks.</summary>
    private void SettlePool()
    {
        long start = Stopwatch.GetTimestamp();
        while (Sessions.Any(static s => s.Connection?.Pool?.Strand is { IsIdle: false })
            && Stopwatch.GetElapsedTime(start).TotalMilliseconds < 200)
            Nap(1);
    }

    public override void Pass(TimeSpan time) => Nap((int)time.TotalMilliseconds);

    public override void Block(TimeSpan time) => Nap((int)time.TotalMilliseconds);

    // tidy: waits because real time passes by itself, and only this place waits for it
    private static void Nap(int milliseconds) => Thread.Sleep(milliseconds);

    public override void Elsewhere(Action action)
    {
        lock (_elsewhere)
            _elsewhere.Add(Task.Factory.StartNew(action, CancellationToken.None, TaskCreationOptions.LongRunning,
                TaskScheduler.Default));
    }

    public override void Join()
    {
        Task[] tasks;
        lock (_elsewhere) tasks = [.. _elsewhere];
        Until(() => tasks.All(static t => t.IsCompleted), "the other threads to end");
        foreach (Task task in tasks) task.GetAwaiter().GetResult();
    }

    public override Peer ConnectPeer(EndPoint endPoint, int receiveBufferBytes = 0)
    {
        ArgumentNullException.ThrowIfNull(endPoint);
        Socket socket = Open(endPoint);
        if (receiveBufferBytes > 0) socket.ReceiveBufferSize = receiveBufferBytes;
        try
        {
            socket.Connect(endPoint);
        }
        catch (SocketException e) when (e.SocketErrorCode == SocketError.ConnectionReset)
        {
            // It was connected, and the server has aborted it meanwhile; its peer learns of that when it reads.
        }

        return Add(new SocketPeer(this, socket));
    }

    public override PeerListener Listen()
    {
        EndPoint address = NewAddress();
        Socket socket = Open(address);
        socket.Bind(address);
        socket.Listen(128);
        _disposables.Add(socket);
        return AddListener(new SocketPeerListener(this, socket));
    }

    public override EndPoint DeadAddress()
    {
        if (IsUnix) return NewAddress();
        // Bound, so that no other socket gets the port, and not listening, so that a connect is refused.
        Socket socket = Open(new IPEndPoint(IPAddress.Loopback, 0));
        socket.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        _disposables.Add(socket);
        return socket.LocalEndPoint!;
    }

    public override EndPoint? SilentAddress()
    {
        if (IsUnix) return null;
        // The server does not accept, and its backlog is full: Linux drops further SYNs, and the connect waits.
        Socket listener = Open(new IPEndPoint(IPAddress.Loopback, 0));
        listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        listener.Listen(0);
        _disposables.Add(listener);
        for (int i = 0; i < 4; i++)
        {
            Socket filler = Open(listener.LocalEndPoint!);
            filler.Blocking = false;
            _disposables.Add(filler);
            try
            {
                filler.Connect(listener.LocalEndPoint!);
            }
            catch (SocketException e) when (e.SocketErrorCode == SocketError.WouldBlock)
            {
                // The connect is pending, which is all that is needed.
            }
        }

        return listener.LocalEndPoint;
    }

    protected override void Release()
    {
        foreach (IDisposable disposable in _disposables) disposable.Dispose();
        foreach (string path in _paths) File.Delete(path);
    }

    private static Socket Open(EndPoint endPoint) =>
        new(endPoint.AddressFamily, SocketType.Stream,
            endPoint.AddressFamily == AddressFamily.Unix ? ProtocolType.Unspecified : ProtocolType.Tcp);
}
