#if MEMORY
using System.Net;
using System.Net.Sockets;
using Whimbrel.Testing;

namespace Whimbrel.Conformance;

/// <summary>The memory engine: one thread, virtual time, and a seed that decides the order of events.</summary>
[System.Diagnostics.CodeAnalysis.SuppressMessage("Design", "CA1001",
    Justification = "Finish disposes the engine of every rig.")]
public sealed class MemoryRig : Rig
{
    private static int s_lastPath;

    private readonly MemoryEngine _engine;
    private readonly List<Exception> _thrown = [];
    private int _elsewhere;

    public MemoryRig(int seed, bool isUnix, int loops, bool isPool = false)
        : base(isUnix, isPool) =>
        _engine = new RecordingMemoryEngine(seed, loops, AddNotice, LoopStarted, LoopStopping, AddEngineEvent);

    public override Engine Engine => _engine;

    /// <summary>Features that only this engine has.</summary>
    public MemoryEngine Memory => _engine;

    public override bool IsVirtual => true;

    public override EndPoint NewAddress() => IsUnix
        ? new UnixDomainSocketEndPoint($"/memory/{Interlocked.Increment(ref s_lastPath)}")
        : new IPEndPoint(IPAddress.Loopback, 0);

    public override void Until(Func<bool> condition, string what)
    {
        ArgumentNullException.ThrowIfNull(condition);
        if (condition()) return;
        try
        {
            _engine.RunUntil(() => (PumpPeers() & false) || condition());
        }
        catch (SimulationStalledException e)
        {
            throw new InvalidOperationException($"Nothing more can happen while waiting for {what}.", e);
        }
    }

    public override void Settle()
    {
        do
        {
            _engine.RunUntilIdle();
        }
        while (PumpPeers());
    }

    public override bool HasResets => true;

    public override void SetWallClock(DateTimeOffset now) => _engine.WallClock = now;

    public override void Pass(TimeSpan time)
    {
        // Advances to each due time, so that timers do not fire all together at the end.
        long end = _engine.NowMs + (long)time.TotalMilliseconds;
        while (true)
        {
            _engine.RunUntilIdle();
            long due = _engine.Loops.Where(static l => !l.IsStopped).Min(static l => (long?)l.Timers.NextDueMs)
                ?? long.MaxValue;
            if (due > end) break;
            _engine.Advance(TimeSpan.FromMilliseconds(Math.Max(0, due - _engine.NowMs)));
        }

        _engine.Advance(TimeSpan.FromMilliseconds(end - _engine.NowMs));
        _engine.RunUntilIdle();
    }

    public override void Block(TimeSpan time) => _engine.Block(time);

    public override void Elsewhere(Action action)
    {
        _elsewhere++;
        _engine.Elsewhere(() =>
        {
            try
            {
                action();
            }
            catch (Exception e)
            {
                _thrown.Add(e);
            }

            _elsewhere--;
        });
    }

    public override void Join()
    {
        Until(() => _elsewhere == 0, "the other threads to end");
        if (_thrown.Count > 0) throw new AggregateException(_thrown);
    }

    public override Peer ConnectPeer(EndPoint endPoint, int receiveBufferBytes = 0)
    {
        MemoryPeer peer = _engine.Connect(endPoint);
        Until(() => peer.IsConnected, "the raw peer to be connected");
        return Add(new ScriptedPeer(this, peer));
    }

    public override PeerListener Listen() => AddListener(new ScriptedPeerListener(this, _engine.Listen(NewAddress())));

    public override EndPoint DeadAddress() =>
        IsUnix ? NewAddress() : new IPEndPoint(IPAddress.Loopback, ushort.MaxValue - 1);

    public override EndPoint? SilentAddress()
    {
        EndPoint address = DeadAddress();
        _engine.AddBlackHole(address);
        return address;
    }

    protected override void Release()
    {
    }
}
#endif
