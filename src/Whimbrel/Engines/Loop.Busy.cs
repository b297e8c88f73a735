using System.Runtime.CompilerServices;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel;

/// <summary>
/// Records which user code the loop runs. The watchdog reads it to report a turn that takes too long while it lasts; a
/// stop reads it to name what delays it. The loop's thread writes. Other threads read, and may see slightly outdated
/// values.
/// </summary>
public abstract partial class Loop
{
    /// <summary>
    /// User code that takes this much longer is reported while it runs, and again at the end of its turn.
    /// </summary>
    internal const int StuckMs = 1_000;

    /// <summary>
    /// Limit for a turn with JIT compilation, in which user code runs for the first time: loading and initializing
    /// types takes time once.
    /// </summary>
    private const int FirstUseMs = 250;

    /// <summary>Time after which a running callback counts as delaying a stop.</summary>
    private const int HoldsUpMs = 500;

    private readonly NoticePaces _blockedNotices = new();
    private readonly HashSet<PoolSession> _poolSessions = [];

    /// <summary>Time when the loop last returned from waiting, until it waits again. Read by the watchdog.</summary>
    internal long BusySinceMs => Volatile.Read(ref _busySinceMs);

    internal bool IsBusy { get; private set; }

    /// <summary>The watchdog's measurement of the user code that runs in this turn.</summary>
    private readonly CallWatch _watch = new();

    /// <summary>Kernel id of the loop's thread; 0 if unknown.</summary>
    private int _threadId;

    /// <summary>
    /// Milliseconds that the loop's thread has been on a cpu; null if the system does not report it. Any thread; reads
    /// two files of /proc.
    /// </summary>
    internal long? CpuMs => Linux.ThreadTimes.TryRead(Volatile.Read(ref _threadId), out Linux.ThreadTimes times)
        ? times.CpuMs
        : null;

    /// <summary>
    /// Called before user code that is not a callback of a session or handler. <see cref="LeaveWork"/> follows.
    /// </summary>
    internal void EnterWork(string name, object? subject = null)
    {
        _workSubject = subject;
        _work = name;
    }

    internal void LeaveWork()
    {
        _work = null;
        _workSubject = null;
    }

    /// <summary>The user code that runs on this loop now, as in messages; null if there is none. Any thread.</summary>
    internal string? RunningText
    {
        get
        {
            // Each field is read once, because the loop continues meanwhile. A stale value names the wrong session,
            // without other effects.
            string? callback = ActiveCallback;
            if (callback is not null && Active is { } resident && resident.TextOf(callback) is { } text) return text;
            return _work is { } work ? UserCode.TextOf(work, _workSubject) : null;
        }
    }

    /// <summary>
    /// Measures how long the current call of user code has been running, and reports it while it lasts. Called by the
    /// watchdog's thread. A turn of many short callbacks is not reported.
    /// </summary>
    /// <returns>False if the loop waits for work.</returns>
    internal bool LookFromOutside(long nowMs)
    {
        bool isWakeQueued = Mailbox.WakeIfLate();
        if (!IsBusy) return isWakeQueued;
        long since = BusySinceMs;
        if (!_watch.SeesAgain(since, UserCalls, ActiveCallback ?? _work, nowMs)) return true;
        // Already reported within the last minute.
        if (_reportedSinceMs == since && nowMs - _reportedAtMs < 60_000) return true;
        if (nowMs - since < Engine.BlockedLoopMs || UsersText is not { } who) return true;
        long ownMs = _watch.MeasureOwn(_threadId, nowMs, Engine.BlockedLoopMs, Engine.StoodStillMs);
        // The turn may just have ended, and the next begun.
        if (ownMs < Engine.BlockedLoopMs || !IsBusy || BusySinceMs != since) return true;
        _watch.Accuse(since, who, ownMs);
        if (ownMs < StuckMs || !_blockedNotices.TryTake($"stuck: {KeyOf(who)}", nowMs, out _)) return true;
        _reportedAtMs = nowMs;
        _reportedSinceMs = since;
        Engine.Report(new DiagnosticEvent(
            DiagnosticEventKind.BlockedLoop,
            $"{who} has blocked loop {Index} for {_watch.TextOf(ownMs)} and has not returned. Nothing else runs "
            + $"on this loop. If it blocks on something that needs this loop (AsTask().Wait(), .Result), it never "
            + $"returns: await it instead.",
            "blocked-loop.md"));
        return true;
    }

    /// <summary>
    /// Returns blocks that are unused since a burst to the allocator. Called by the watchdog's thread, once a second.
    /// </summary>
    internal void LookForIdleBlocks()
    {
        int idle = Blocks.AskIdle();
        if (idle > 0) PostControl(static (loop, _, _, count) => loop.Blocks.FreeIdle((int)count), value: idle);
    }

    /// <summary>
    /// As <see cref="RunningText"/>, but null for work of the library itself, which the user cannot change.
    /// </summary>
    private string? UsersText =>
        ActiveCallback is null && _work is { } work && !UserCode.IsUsers(work, _workSubject) ? null : RunningText;

    /// <summary>Adds the turn of this loop that delays a stop. Any thread.</summary>
    internal void AddUnfinishedTurn(List<UnfinishedCall> found)
    {
        if (IsBusy && Engine.CoarseMs - BusySinceMs >= HoldsUpMs)
            found.Add(new UnfinishedCall(RunningText ?? "a turn", Index));
        else if (IsAdopted && !IsBusy)
            found.Add(new UnfinishedCall("no thread (the loop is adopted, and its thread does not run it),", Index));
    }

    /// <summary>Adds the callbacks of this loop's sessions that run on the pool. Any thread.</summary>
    /// <param name="found">List to add them to.</param>
    /// <param name="host">Server or client of the sessions; null for all.</param>
    internal void AddUnfinishedOnPool(List<UnfinishedCall> found, ConnectionHost? host)
    {
        // tidy: allowed because a stop has passed its deadline
        lock (_poolSessions)
        {
            foreach (PoolSession pool in _poolSessions)
            {
                if ((host is null || pool.IsOf(host)) && pool.RunningText is { } text)
                    found.Add(new UnfinishedCall(text, null));
            }
        }
    }

    private void CheckBusyTime()
    {
        IsBusy = false;
        long now = Engine.CoarseMs;
        if (now - _busySinceMs >= Engine.BlockedLoopMs && _busySinceMs != 0) CheckLongTurn(now);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void CheckLongTurn(long now)
    {
        // Nothing is reported if no single call of user code was seen to take that long.
        if (!_watch.IsAccused(_busySinceMs, out string who, out long ownMs)) return;
        long compiledMs = (Engine.CompiledTicks - _compiledAtStart) / TimeSpan.TicksPerMillisecond;
        ownMs -= compiledMs;
        if (ownMs < Engine.BlockedLoopMs) return;
        Counters.BlockedTurns++;
        long leftOut = 0;
        bool isReported = Volatile.Read(ref _reportedSinceMs) == _busySinceMs;
        if (!isReported
            && ((compiledMs > 0 && ownMs < FirstUseMs) || !_blockedNotices.TryTake(KeyOf(who), now, out leftOut)))
            return;
        Engine.Report(new DiagnosticEvent(
            DiagnosticEventKind.BlockedLoop,
            $"{who} blocked loop {Index} for {_watch.TextOf(ownMs)}. Other sessions on this loop waited. Move the work "
            + $"to Task.Run, or post it in smaller pieces.{NoticePaces.LeftOutText(leftOut)}",
            "blocked-loop.md"));
    }

    /// <summary>Returns the text without the part that identifies one session.</summary>
    private static string KeyOf(string who) =>
        who.IndexOf(" (session", StringComparison.Ordinal) is > 0 and var end ? who[..end] : who;
}
