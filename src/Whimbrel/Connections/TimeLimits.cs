namespace Whimbrel.Connections;

/// <summary>Which of a session's time limits has passed.</summary>
internal enum TimeLimit : byte
{
    None,
    Idle,
    Receive,
    Send,
    Phase,
}

/// <summary>What a look at a connection sees.</summary>
/// <param name="Received">Bytes so far.</param>
/// <param name="Sent">Bytes so far.</param>
/// <param name="IsRead">Somebody would take what the peer sends.</param>
/// <param name="HeldMs">How long it was not read so far, without the time that runs now.</param>
/// <param name="IsSending">Something waits for the peer to take it.</param>
internal readonly record struct Traffic(long Received, long Sent, bool IsRead, long HeldMs, bool IsSending);

/// <summary>
/// The time limits of one session. Nobody starts a timer when a byte comes or a phase begins: the loop looks in a while and compares. Silence is found by
/// <see cref="Looks"/> looks in a row that see nothing new, so it is told never early and a quarter late at most; a phase by when it began.
/// </summary>
/// <remarks>
/// Threads: the loop looks. The silences may be set by any thread, each in one word (how often it was set, and the milliseconds); a phase by the
/// session's thread, which on the pool is another than the loop: its fields stand between two steps of <see cref="_version"/>. Who sets something that is due
/// before <see cref="NextLookMs"/> asks the loop to look; the loop looks again when something was set while it did. So one of the two sees the other.
/// </remarks>
internal sealed class TimeLimits
{
    /// <summary>For each silence.</summary>
    internal const int Looks = 4;

    /// <summary>Until the next try, when a phase is being set at this moment.</summary>
    private const int RetryMs = 1;

    private Silence _idle, _receive, _send;
    private int _version;
    private SessionPhase? _phase;
    private long _phaseFromMs;
    private long _phaseReceived;
    private long _phaseHeldMs;
    private int _toldVersion;
    private long _nextLookMs = long.MaxValue;

    /// <summary>One silence: as it was set, and what the last looks have seen.</summary>
    private struct Silence
    {
        /// <summary>No progress has this number: the next look begins anew.</summary>
        private const long Nothing = -1;

        internal long Set; // any thread: how often << 32 | milliseconds
        private long _applied;
        private long _nextMs;
        private long _seen;
        private int _count;

        internal readonly long EveryMs => ((uint)Set + Looks - 1) / Looks;

        /// <summary>True when nothing has moved for so long. Begins anew then.</summary>
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

    /// <summary>When the loop looks next. Any thread.</summary>
    internal long NextLookMs => Volatile.Read(ref _nextLookMs);

    /// <summary>The loop's timer stands at this time. The loop.</summary>
    internal void LooksAt(long ms) => Volatile.Write(ref _nextLookMs, ms);

    /// <summary>The phase that runs, or null. The session's thread.</summary>
    internal SessionPhase? Phase => _phase;

    /// <summary>The last phase that was told to have passed. The loop.</summary>
    internal SessionPhase? PassedPhase { get; private set; }

    /// <summary>The session has begun another phase, or ended it, since it was told. The session's thread.</summary>
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

    /// <summary>Milliseconds, 0 for none; null when it was never set. Any thread.</summary>
    internal long? Get(TimeLimit which) => Volatile.Read(ref SetOf(which)) is not 0 and long set ? (uint)set : null;

    /// <summary>Sets a silence; its time begins anew. Any thread.</summary>
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

    /// <summary>What the options say, unless the session has said something else. Any thread.</summary>
    internal void SetDefault(TimeLimit which, long limitMs)
    {
        if (limitMs > 0) Interlocked.CompareExchange(ref SetOf(which), (1L << 32) | limitMs, 0);
    }

    /// <summary>When the loop must look at the latest, for what was just set to this.</summary>
    internal static long FirstLookMs(long nowMs, long limitMs) => limitMs == 0 ? long.MaxValue : nowMs + ((limitMs + Looks - 1) / Looks);

    /// <summary>Begins a phase, or begins it anew. The session's thread.</summary>
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

    /// <summary>The first limit that has passed, if one has, and sets when to look next. The loop.</summary>
    internal TimeLimit Look(long nowMs, in Traffic traffic)
    {
        long next = long.MaxValue;
        TimeLimit passed = TimeLimit.None;
        int version = Volatile.Read(ref _version);
        long idleSet = _idle.Set, receiveSet = _receive.Set, sendSet = _send.Set;
        if (LookAtPhase(version, nowMs, traffic, ref next)) passed = TimeLimit.Phase;
        else if (_send.Look(nowMs, traffic.Sent, traffic.IsSending, ref next)) passed = TimeLimit.Send;
        // Who is to take something first need not send; and who was not listened to has begun anew.
        else if (_receive.Look(nowMs, traffic.Received + traffic.HeldMs, traffic.IsRead && !traffic.IsSending, ref next)) passed = TimeLimit.Receive;
        else if (_idle.Look(nowMs, traffic.Received + traffic.Sent, counts: true, ref next)) passed = TimeLimit.Idle;
        // The others have not been looked at.
        if (passed != TimeLimit.None) next = nowMs + RetryMs;
        Volatile.Write(ref _nextLookMs, next);
        Interlocked.MemoryBarrier();
        // What was set meanwhile did not ask for a look, because of the one that it knew of.
        if (version != Volatile.Read(ref _version) || idleSet != Volatile.Read(ref _idle.Set) || receiveSet != Volatile.Read(ref _receive.Set) || sendSet != Volatile.Read(ref _send.Set))
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
            dueMs += (long)((Int128)(traffic.Received - received) * 1000 / phase.LeastBytesPerSecond) + Math.Max(0, traffic.HeldMs - heldMs);
            // What it would send now is not heard: it has at least a part of its time when it is.
            if (!traffic.IsRead) dueMs = Math.Max(dueMs, nowMs + ((phase.LimitMs + Looks - 1) / Looks));
        }

        nextLookMs = Math.Min(nextLookMs, dueMs);
        if (nowMs < dueMs) return false;
        _toldVersion = version;
        PassedPhase = phase;
        return true;
    }
}
