namespace Whimbrel.Connections;

/// <summary>Kind of time limit that has passed.</summary>
internal enum TimeLimit : byte
{
    None,
    Idle,
    Receive,
    Send,
    Phase,
}

/// <summary>State of a connection at a check of its time limits.</summary>
/// <param name="Received">Number of bytes received so far.</param>
/// <param name="Sent">Number of bytes sent so far.</param>
/// <param name="IsRead">True if received data would be delivered.</param>
/// <param name="HeldMs">Total time for which the connection was not read, without the current interval.</param>
/// <param name="IsSending">True if data waits for the peer.</param>
internal readonly record struct Traffic(long Received, long Sent, bool IsRead, long HeldMs, bool IsSending);

/// <summary>
/// Time limits of one session. No timer is started when a byte arrives or a phase begins: the loop checks periodically
/// and compares. A timeout has passed after <see cref="Looks"/> consecutive checks without progress, so it is never
/// reported early, and late by a quarter at most. A phase has passed by its start time.
/// </summary>
/// <remarks>
/// Threads: the loop checks. Timeouts may be set by any thread, each in one word (a count, and the milliseconds). A
/// phase is set by the session's thread, which on the pool is not the loop: its fields are written between two
/// increments of <see cref="_version"/>. A thread that sets a limit which ends before <see cref="NextLookMs"/> requests
/// a check; the loop checks again if a limit was set during its check. So one of the two sees the other.
/// </remarks>
internal sealed class TimeLimits
{
    /// <summary>Number of checks for each timeout.</summary>
    internal const int Looks = 4;

    /// <summary>Time until the next attempt if a phase is being set at this moment.</summary>
    private const int RetryMs = 1;

    private Silence _idle, _receive, _send;
    private int _version;
    private SessionPhase? _phase;
    private long _phaseFromMs;
    private long _phaseReceived;
    private long _phaseHeldMs;
    private int _toldVersion;
    private long _nextLookMs = long.MaxValue;

    /// <summary>One timeout: its setting, and the progress seen by the last checks.</summary>
    private struct Silence
    {
        /// <summary>A value that no progress has, so that the next check starts again.</summary>
        private const long Nothing = -1;

        internal long Set; // any thread: count << 32 | milliseconds
        private long _applied;
        private long _nextMs;
        private long _seen;
        private int _count;

        internal readonly long EveryMs => ((uint)Set + Looks - 1) / Looks;

        /// <summary>
        /// Checks the timeout. Returns true if there was no progress for its time; it then starts again.
        /// </summary>
        internal bool Look(long nowMs, long progress, bool counts, ref long nextLookMs)
        {
            long set = Volatile.Read(ref Set);
            if ((uint)set == 0)
            {
                _applied = set;
                return false;
            }

            bool passed = false;
            if (_applied != set)
            {
                _applied = set;
                Begin(nowMs, counts ? progress : Nothing);
            }
            else if (nowMs >= _nextMs)
            {
                if (!counts || progress != _seen) Begin(nowMs, counts ? progress : Nothing);
                else if (++_count >= Looks) passed = true;
                else _nextMs = nowMs + EveryMs;
                if (passed) Begin(nowMs, progress);
            }

            nextLookMs = Math.Min(nextLookMs, _nextMs);
            return passed;
        }

        private void Begin(long nowMs, long seen)
        {
            _seen = seen;
            _count = 0;
            _nextMs = nowMs + EveryMs;
        }
    }

    /// <summary>Time of the loop's next check. Any thread.</summary>
    internal long NextLookMs => Volatile.Read(ref _nextLookMs);

    /// <summary>Records the time for which the loop's timer is set. Called by the loop.</summary>
    internal void LooksAt(long ms) => Volatile.Write(ref _nextLookMs, ms);

    /// <summary>Current phase, or null. The session's thread.</summary>
    internal SessionPhase? Phase => _phase;

    /// <summary>Last phase that was reported as passed. Used by the loop.</summary>
    internal SessionPhase? PassedPhase { get; private set; }

    /// <summary>True if the session has begun or ended a phase since the last report. The session's thread.</summary>
    internal bool HasMovedOn => _toldVersion != _version;

    private ref long SetOf(TimeLimit which)
    {
        switch (which)
        {
            case TimeLimit.Idle:
                return ref _idle.Set;
            case TimeLimit.Receive:
                return ref _receive.Set;
            default:
                return ref _send.Set;
        }
    }

    /// <summary>Returns the milliseconds, 0 for none; null if it was never set. Any thread.</summary>
    internal long? Get(TimeLimit which) => Volatile.Read(ref SetOf(which)) is not 0 and long set ? (uint)set : null;

    /// <summary>Sets a timeout, which starts again. Any thread.</summary>
    internal void Set(TimeLimit which, long limitMs)
    {
        ref long set = ref SetOf(which);
        long before = Volatile.Read(ref set);
        while (true)
        {
            long after = ((((long)((ulong)before >> 32)) + 1) << 32) | limitMs;
            long seen = Interlocked.CompareExchange(ref set, after, before);
            if (seen == before) return;
            before = seen;
        }
    }

    /// <summary>Sets the value of the options, unless the session has set one. Any thread.</summary>
    internal void SetDefault(TimeLimit which, long limitMs)
    {
        if (limitMs > 0) Interlocked.CompareExchange(ref SetOf(which), (1L << 32) | limitMs, 0);
    }

    /// <summary>Returns the latest time of the loop's next check for a limit that was just set.</summary>
    internal static long FirstLookMs(long nowMs, long limitMs) =>
        limitMs == 0 ? long.MaxValue : nowMs + ((limitMs + Looks - 1) / Looks);

    /// <summary>Begins a phase, or restarts it. The session's thread.</summary>
    internal void Begin(SessionPhase? phase, long nowMs, long received, long heldMs)
    {
        _version++;
        Volatile.WriteBarrier();
        _phase = phase;
        _phaseFromMs = nowMs;
        _phaseReceived = received;
        _phaseHeldMs = heldMs;
        Volatile.WriteBarrier();
        _version++;
    }

    /// <summary>
    /// Returns the first limit that has passed, if any, and sets the time of the next check. Called by the loop.
    /// </summary>
    internal TimeLimit Look(long nowMs, in Traffic traffic)
    {
        long next = long.MaxValue;
        TimeLimit passed = TimeLimit.None;
        int version = Volatile.Read(ref _version);
        long idleSet = _idle.Set, receiveSet = _receive.Set, sendSet = _send.Set;
        if (LookAtPhase(version, nowMs, traffic, ref next)) passed = TimeLimit.Phase;
        else if (_send.Look(nowMs, traffic.Sent, traffic.IsSending, ref next)) passed = TimeLimit.Send;
        // A peer that has to read first need not send, and a peer that was not read has its full time again.
        else if (_receive.Look(nowMs, traffic.Received + traffic.HeldMs,
            traffic.IsRead && !traffic.IsSending, ref next))
            passed = TimeLimit.Receive;
        else if (_idle.Look(nowMs, traffic.Received + traffic.Sent, counts: true, ref next)) passed = TimeLimit.Idle;
        // The other limits have not been checked.
        if (passed != TimeLimit.None) next = nowMs + RetryMs;
        Volatile.Write(ref _nextLookMs, next);
        Interlocked.MemoryBarrier();
        // A limit that was set meanwhile did not request a check, because this one was already due.
        if (version != Volatile.Read(ref _version) || idleSet != Volatile.Read(ref _idle.Set)
            || receiveSet != Volatile.Read(ref _receive.Set) || sendSet != Volatile.Read(ref _send.Set))
        {
            Volatile.Write(ref _nextLookMs, nowMs + RetryMs);
        }

        return passed;
    }

    private bool LookAtPhase(int version, long nowMs, in Traffic traffic, ref long nextLookMs)
    {
        SessionPhase? phase = _phase;
        long fromMs = _phaseFromMs, received = _phaseReceived, heldMs = _phaseHeldMs;
        Volatile.ReadBarrier();
        if ((version & 1) != 0 || version != Volatile.Read(ref _version))
        {
            nextLookMs = nowMs + RetryMs;
            return false;
        }

        if (phase is null || version == _toldVersion) return false;
        long dueMs = fromMs + phase.LimitMs;
        if (phase.LeastBytesPerSecond > 0)
        {
            dueMs += (long)((Int128)(traffic.Received - received) * 1000 / phase.LeastBytesPerSecond) + Math.Max(0,
                traffic.HeldMs - heldMs);
            // Data that the peer sends now is not read, so the phase gets at least a part of its time after reading
            // starts again.
            if (!traffic.IsRead) dueMs = Math.Max(dueMs, nowMs + ((phase.LimitMs + Looks - 1) / Looks));
        }

        nextLookMs = Math.Min(nextLookMs, dueMs);
        if (nowMs < dueMs) return false;
        _toldVersion = version;
        PassedPhase = phase;
        return true;
    }
}
