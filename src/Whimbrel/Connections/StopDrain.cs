using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// Calls OnServerStopping of the sessions of a stopping server, each once, spread evenly over a window. On each loop
/// the oldest session is first, so that a new one has the longest time for its work. Any thread may shorten the
/// window; the rest runs on the loops.
/// </summary>
internal sealed class StopDrain(Engine engine, TimeSpan window)
{
    private const int TickMs = 50;

    private readonly long _startMs = engine.NowMs;
    private long _windowMs = Loop.WholeMs(window);

    private long ElapsedMs => engine.NowMs - _startMs;

    /// <summary>Takes the shorter window of a second stop.</summary>
    internal void Shorten(StopDrain other)
    {
        long end = Math.Max(0, other._startMs - _startMs + other._windowMs);
        long now = Volatile.Read(ref _windowMs);
        while (end < now)
        {
            long before = Interlocked.CompareExchange(ref _windowMs, end, now);
            if (before == now) return;
            now = before;
        }
    }

    internal void Begin(IEnumerable<HostShard> shards)
    {
        foreach (HostShard shard in shards)
            shard.Loop.PostControl(static (_, s, d, _) => new Walk((StopDrain)d!, (HostShard)s!).Step(), shard, this);
    }

    /// <summary>Adds a session that has connected after the begin; it is asked last. Its loop's thread.</summary>
    internal void Add(Connection late) => late.Loop.PostControl(
        static (_, c, d, g) => new Walk((StopDrain)d!, (Connection)c!, (uint)g).Step(), late, this, late.Generation);

    /// <summary>The sessions of one loop, and the next of them.</summary>
    private sealed class Walk
    {
        private readonly StopDrain _drain;
        private readonly Loop _loop;
        private readonly (Connection Member, uint Generation)[] _members;
        private readonly bool _isLate;
        private int _next;

        internal Walk(StopDrain drain, HostShard shard)
        {
            _drain = drain;
            _loop = shard.Loop;
            Connection[] members = shard.Members.Members;
            Array.Sort(members, static (a, b) => a.Session.Id.CompareTo(b.Session.Id));
            _members = new (Connection, uint)[members.Length];
            for (int i = 0; i < members.Length; i++) _members[i] = (members[i], members[i].Generation);
        }

        internal Walk(StopDrain drain, Connection late, uint generation)
        {
            _drain = drain;
            _loop = late.Loop;
            _members = [(late, generation)];
            _isLate = true;
        }

        /// <summary>Asks the sessions that are due. A control action, never inside a callback.</summary>
        internal void Step()
        {
            long windowMs = Volatile.Read(ref _drain._windowMs), elapsedMs = _drain.ElapsedMs;
            for (; _next < _members.Length; _next++)
            {
                // The first one goes at once, the last one a step before the end.
                if (elapsedMs < (_isLate ? windowMs : windowMs * _next / _members.Length)) break;
                (Connection member, uint generation) = _members[_next];
                if (member.Generation == generation) member.ServerStopping();
            }

            // A tick, because a second stop may shorten the window.
            if (_next < _members.Length)
                _loop.StartTimer(TimeSpan.FromMilliseconds(TickMs), static walk => ((Walk)walk!).Tick(), this);
        }

        // Posted, because a timer is a callback.
        private void Tick() => _loop.PostControl(static (_, w, _, _) => ((Walk)w!).Step(), this);
    }
}
