using System.Runtime.CompilerServices;
using Whimbrel.Connections;
using Whimbrel.Datagrams;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel;

/// <summary>
/// What the loop is busy with, for those who must know: the watchdog, which reports a turn that takes too long while it lasts,
/// and a stop that has to say what held it up. The loop's thread writes; others read, and may be a moment late.
/// </summary>
public abstract partial class Loop
{
    /// <summary>User code that takes so much longer is reported while it runs, and once more at the end of its turn.</summary>
    internal const int StuckMs = 1_000;

    /// <summary>In the turn in which the compiler came by, user code ran for the first time: loading and setting up what it needs takes its time once.</summary>
    private const int FirstUseMs = 250;

    /// <summary>A callback that has just begun holds no stop up.</summary>
    private const int HoldsUpMs = 500;

    private readonly NoticePaces _blockedNotices = new();
    private readonly HashSet<Strand> _liveStrands = [];

    /// <summary>When the loop last stopped blocking, while it has not blocked again. Read by the watchdog.</summary>
    internal long BusySinceMs => Volatile.Read(ref _busySinceMs);

    internal bool IsBusy { get; private set; }

    /// <summary>What the watchdog has measured of the user code that runs in this turn.</summary>
    private readonly CallWatch _watch = new();

    /// <summary>The kernel's number of the loop's thread; 0 where there is none to know.</summary>
    private int _threadId;

    /// <summary>User code begins that is no callback of a session or handler. <see cref="LeaveWork"/> follows.</summary>
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

    /// <summary>The user code that runs on this loop now, as in messages; null when none does. Any thread.</summary>
    internal string? RunningText
    {
        get
        {
            // Read once each: the loop goes on meanwhile. A wrong guess names the wrong session, no more.
            string? callback = ActiveCallback;
            Session? session = ActiveConnection?.Session;
            DatagramResident? socket = _activeSocket;
            if (callback is not null && session is not null) return session.TextOf(callback);
            if (callback is not null && socket is not null) return $"{callback} of {socket.HandlerName} (datagrams at {socket.EndPoint})";
            return _work is { } work ? UserCode.TextOf(work, _workSubject) : null;
        }
    }

    /// <summary>
    /// Measures how long one piece of user code has been running, and reports it while it does not end. The watchdog's thread. A turn of many
    /// short callbacks accuses none of them.
    /// </summary>
    /// <returns>False when the loop waits for work.</returns>
    internal bool LookFromOutside(long nowMs)
    {
        bool isWakeQueued = Mailbox.WakeIfLate();
        if (!IsBusy) return isWakeQueued;
        long since = BusySinceMs;
        if (!_watch.SeesAgain(since, UserCalls, ActiveCallback ?? _work, nowMs)) return true;
        // Reported already: not again within the minute.
        if (_reportedSinceMs == since && nowMs - _reportedAtMs < 60_000) return true;
        if (nowMs - since < Engine.BlockedLoopMs || UsersText is not { } who) return true;
        long ownMs = _watch.MeasureOwn(_threadId, nowMs, Engine.BlockedLoopMs, Engine.StoodStillMs);
        // It may have ended just now, and the next turn begun.
        if (ownMs < Engine.BlockedLoopMs || !IsBusy || BusySinceMs != since) return true;
        _watch.Accuse(since, who, ownMs);
        if (ownMs < StuckMs || !_blockedNotices.TryTake($"stuck: {KeyOf(who)}", nowMs, out _)) return true;
        _reportedAtMs = nowMs;
        _reportedSinceMs = since;
        Engine.Report(new DiagnosticEvent(
            DiagnosticEventKind.BlockedLoop,
            $"{who} has blocked loop {Index} for {_watch.TextOf(ownMs)} and does not end. Nothing else on this loop goes on. If it waits for something that needs this loop (AsTask().Wait(), .Result), it waits for ever: await it instead.",
            "blocked-loop.md"));
        return true;
    }

    /// <summary>Blocks that a burst has left free, and that nobody needs, go back to the allocator. The watchdog's thread, once a second.</summary>
    internal void LookForIdleBlocks()
    {
        int idle = Blocks.AskIdle();
        if (idle > 0) PostControl(static (loop, _, _, count) => loop.Blocks.FreeIdle((int)count), value: idle);
    }

    /// <summary>As <see cref="RunningText"/>, and null as well for work of the library's own: its user can do nothing about that.</summary>
    private string? UsersText => ActiveCallback is null && _work is { } work && !UserCode.IsUsers(work, _workSubject) ? null : RunningText;

    /// <summary>Adds what holds a stop up here: a turn that does not end. Any thread.</summary>
    internal void AddUnfinishedTurn(List<UnfinishedCall> found)
    {
        if (IsBusy && Engine.CoarseMs - BusySinceMs >= HoldsUpMs) found.Add(new UnfinishedCall(RunningText ?? "a turn", Index));
        else if (IsAdopted && !IsBusy) found.Add(new UnfinishedCall("nobody, who would have to go on running the adopted loop,", Index));
    }

    /// <summary>Adds the callbacks that its sessions have on the pool. Any thread.</summary>
    /// <param name="found">Gets them.</param>
    /// <param name="host">Whose sessions are meant; null for all.</param>
    internal void AddUnfinishedOnPool(List<UnfinishedCall> found, ConnectionHost? host)
    {
        // tidy: allowed because a stop has passed its deadline
        lock (_liveStrands)
        {
            foreach (Strand strand in _liveStrands)
            {
                if ((host is null || strand.IsOf(host)) && strand.RunningText is { } text) found.Add(new UnfinishedCall(text, null));
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
        // Nothing is accused when no piece of user code was seen to take that long by itself.
        if (!_watch.IsAccused(_busySinceMs, out string who, out long ownMs)) return;
        long compiledMs = (Engine.CompiledTicks - _compiledAtStart) / TimeSpan.TicksPerMillisecond;
        ownMs -= compiledMs;
        if (ownMs < Engine.BlockedLoopMs) return;
        Counters.BlockedTurns++;
        long leftOut = 0;
        bool isReported = Volatile.Read(ref _reportedSinceMs) == _busySinceMs;
        if (!isReported && ((compiledMs > 0 && ownMs < FirstUseMs) || !_blockedNotices.TryTake(KeyOf(who), now, out leftOut))) return;
        Engine.Report(new DiagnosticEvent(
            DiagnosticEventKind.BlockedLoop,
            $"{who} blocked loop {Index} for {_watch.TextOf(ownMs)}. Other sessions on this loop waited. Move the work to Task.Run, or post it in smaller pieces.{NoticePaces.LeftOutText(leftOut)}",
            "blocked-loop.md"));
    }

    /// <summary>Without what tells one session from another.</summary>
    private static string KeyOf(string who) => who.IndexOf(" (session", StringComparison.Ordinal) is > 0 and var end ? who[..end] : who;
}
