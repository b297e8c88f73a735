using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using Whimbrel.Engines.Uring;
using Whimbrel.Simulation.Kernel;

namespace Whimbrel.Simulation.Uring;

// An echo server on the real kernel, on a loop that this thread runs, and peers with sockets that this thread serves as
// well: a scenario is some of these connections with one plan.
internal sealed class InjectionScenario : IDisposable
{
    private const int Buffers = 8;
    private const int SmallBufferBytes = 4096;
    private const int UsualBufferBytes = 32 * 1024;
    private const int LargestBytes = 60_000;

    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(30);
    private static readonly byte[] s_pattern = MakePattern();

    private readonly InjectionPlan _plan;
    private readonly RingedEngine _engine;
    private readonly Server _server;
    private int _begun;
    private int _ended;

    internal InjectionScenario(int seed)
    {
        _plan = new InjectionPlan(seed);
        _engine = new RingedEngine(() => InjectingRing.Open(_plan, Buffers,
            _plan.Seed % 40 < 20 ? SmallBufferBytes : UsualBufferBytes), new InjectingSockets(_plan));
        _server = new Server(new ServerOptions
        {
            Engine = _engine,
            EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
            Timeouts = new() { Drain = s_patience }
        }, () => new Echo(this));
        TurnUntil(_server.StartAsync().AsTask());
    }

    internal int Faults => _plan.Count;

    private Loop Loop => _engine.Loops[0];

    private sealed class RingedEngine : Engine
    {
        internal RingedEngine(Func<Ring> open, InjectingSockets sockets)
            : base("uring", "by the test", new EngineOptions { Loops = 1, AdoptedLoops = 1, BlockedLoopMs = 60_000 }) =>
            Loops = [new UringLoop(this, 0, open, sockets) { IsAdopted = true }];
    }

    private sealed class Echo : Session
    {
        private readonly InjectionScenario _scenario;

        internal Echo(InjectionScenario scenario) => _scenario = scenario;

        protected override void OnConnected() => _scenario._begun++;

        protected override void OnReceived(ReadOnlySpan<byte> data)
        {
            if (_scenario._plan.Dice.Chance(50))
            {
                PauseReceiving();
                Loop.Post(ResumeReceiving);
            }

            Send(data);
        }

        protected override void OnDisconnected(CloseReason reason) => _scenario._ended++;
    }

    private sealed class Peer(Socket socket, int offset, int length)
    {
        private int _sent;
        private int _received;
        private bool _isFinished;

        internal bool IsOver { get; private set; }

        public override string ToString() => $"{_sent} of {length} sent, {_received} back{(IsOver ? ", over" : "")}";

        // One step. Throws if a byte is wrong, or the end came too early.
        internal void Act(Dice dice, InjectionPlan plan)
        {
            try
            {
                if (_sent < length && socket.Poll(0, SelectMode.SelectWrite))
                    _sent += socket.Send(s_pattern, offset + _sent, Math.Min(length - _sent, dice.Next(1, 20_000)),
                        SocketFlags.None);
                if (_sent == length && !_isFinished)
                {
                    _isFinished = true;
                    socket.Shutdown(SocketShutdown.Send);
                }

                if (socket.Available == 0 && !(_isFinished && socket.Poll(0, SelectMode.SelectRead))) return;
                byte[] buffer = new byte[dice.Next(1, 20_000)];
                int count = socket.Receive(buffer);
                if (!buffer.AsSpan(0, count).SequenceEqual(s_pattern.AsSpan(offset + _received, count)))
                    throw new OracleException($"wrong bytes after {_received}\n{plan}");
                _received += count;
                if (count > 0) return;
                if (_received != length)
                    throw new OracleException($"the end came after {_received} of {length} bytes\n{plan}");
                Leave();
            }
            catch (SocketException e) when (e.SocketErrorCode is SocketError.ConnectionReset or SocketError.Shutdown
                or SocketError.ConnectionAborted)
            {
                if (!plan.WasFatal) throw new OracleException($"reset after {_received} of {length} bytes\n{plan}");
                Leave();
            }
            catch (SocketException e) when (e.SocketErrorCode is SocketError.WouldBlock)
            {
                // Later.
            }
        }

        private void Leave()
        {
            IsOver = true;
            socket.Dispose();
        }
    }

    private static byte[] MakePattern()
    {
        byte[] pattern = new byte[LargestBytes * 2];
        new Random(7).NextBytes(pattern);
        return pattern;
    }

    internal void Run(int number)
    {
        _plan.Begin(number);
        List<Peer> peers = [];
        int most = _plan.Dice.Pick(1, 2, 2, 6);
        for (int i = 0; i < most; i++)
        {
            Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
            socket.Connect(_server.EndPoint!);
            socket.Blocking = false;
            peers.Add(new Peer(socket, _plan.Dice.Next(LargestBytes),
                _plan.Dice.Pick(0, 1, 100, 5_000, _plan.Dice.Next(LargestBytes))));
        }

        TurnUntil(
            () =>
            {
                bool isOver = true;
                foreach (Peer peer in peers)
                {
                    if (!peer.IsOver) peer.Act(_plan.Dice, _plan);
                    isOver &= peer.IsOver;
                }

                return isOver;
            },
            () => string.Join("\n", peers));
        TurnUntil(() => _server.SessionCount == 0 && _ended == _begun,
            () => $"{_server.SessionCount} sessions, {_begun} began, {_ended} ended");
        if (Loop.Blocks.Outstanding != 0)
            throw new OracleException($"{Loop.Blocks.Outstanding} blocks are missing\n{_plan}");
    }

    // A successful echo, then an error that ends every receive for some time, then a successful echo again. Returns the
    // number of receives that failed.
    internal int RunLasting(int error, int messageBytes, TimeSpan time)
    {
        using Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        socket.Connect(_server.EndPoint!);
        socket.Blocking = false;
        // After large messages it receives by calls. Otherwise the first receive of the ring must fail, because a
        // multishot receive continues by itself.
        for (int i = 0; i < 3 && messageBytes > UsualBufferBytes; i++)
            Exchange(socket, messageBytes, duringAnswer: () => { });
        long start = 0;
        Exchange(socket, messageBytes, duringAnswer: () =>
        {
            if (start == 0) (start, _plan.LastingError) = (Stopwatch.GetTimestamp(), error);
            else if (Stopwatch.GetElapsedTime(start) > time) _plan.LastingError = 0;
        });
        socket.Shutdown(SocketShutdown.Send);
        TurnUntil(() => _server.SessionCount == 0, static () => "the end of the session");
        return _plan.LastingErrors;
    }

    private void Exchange(Socket socket, int length, Action duringAnswer)
    {
        byte[] buffer = new byte[length];
        int sent = 0, received = 0;
        duringAnswer();
        TurnUntil(
            () =>
            {
                duringAnswer();
                if (sent < length && socket.Poll(0, SelectMode.SelectWrite))
                    sent += socket.Send(s_pattern, sent, length - sent, SocketFlags.None);
                if (socket.Available > 0)
                    received += socket.Receive(buffer, received, length - received, SocketFlags.None);
                return received == length;
            },
            () => $"the echo: {sent} of {length} sent, {received} back");
        if (!buffer.AsSpan().SequenceEqual(s_pattern.AsSpan(0, length))) throw new OracleException("wrong bytes");
    }

    private void TurnUntil(Func<bool> condition, Func<string> state)
    {
        long start = Stopwatch.GetTimestamp();
        while (!condition())
        {
            if (Stopwatch.GetElapsedTime(start) > s_patience)
                throw new OracleException($"waited too long: {state()}\n{_plan}");
            Loop.Turn(TimeSpan.Zero);
        }
    }

    private void TurnUntil(Task task)
    {
        TurnUntil(() => task.IsCompleted, static () => "a task");
        task.GetAwaiter().GetResult();
    }

    public void Dispose()
    {
        _plan.Calm();
        TurnUntil(_server.StopAsync(TimeSpan.Zero).AsTask());
        Task ending = _engine.DisposeAsync().AsTask();
        long start = Stopwatch.GetTimestamp();
        while (!ending.IsCompleted && Stopwatch.GetElapsedTime(start) < s_patience) Loop.Turn(TimeSpan.Zero);
        ending.GetAwaiter().GetResult();
        if (Loop.ResidentCount != 0)
            throw new OracleException($"{Loop.ResidentCount} residents after the end\n{_plan}");
    }
}
