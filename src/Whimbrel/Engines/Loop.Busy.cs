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
    /// <summary>A turn that is so much longer is reported while it lasts, and once more at its end.</summary>
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

    /// <summary>What the watchdog saw running when the turn was already too long.</summary>
    internal string? Suspect { get; set; }

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
            if (callback is not null && session is not null) return UserCode.TextOf(callback, session);
            if (callback is not null && socket is not null) return $"{callback} of {socket.HandlerName} (datagrams at {socket.EndPoint})";
            return _work is { } work ? UserCode.TextOf(work, _workSubject) : null;
        }
    }

    /// <summary>Looks how long the turn lasts, and reports one that does not end. The watchdog's thread.</summary>
    /// <returns>False when the loop waits for work.</returns>
    internal bool LookFromOutside(long nowMs)
    {
        bool isWakeQueued = Mailbox.WakeIfLate();
        if (!IsBusy) return isWakeQueued;
        long since = BusySinceMs;
        if (nowMs - since < Engine.BlockedLoopMs / 2) return true;
        // Told of already: not again within the minute.
        if (_reportedSinceMs == since && nowMs - _reportedAtMs < 60_000) return true;
        Suspect = RunningText ?? Suspect;
        long busyMs = nowMs - since - Engine.StoodStillMs(since, nowMs);
        if (busyMs < Math.Max(StuckMs, Engine.BlockedLoopMs)) return true;
        string who = Suspect ?? "A callback";
        // It may have ended just now, and the next turn begun.
        if (!IsBusy || BusySinceMs != since || !_blockedNotices.TryTake($"stuck: {KeyOf(who)}", nowMs, out _)) return true;
        _reportedAtMs = nowMs;
        _reportedSinceMs = since;
        Volatile.Write(ref _reported, who);
        Engine.Note(new Notice(
            NoticeKind.BlockedLoop,
            $"{who} has blocked loop {Index} for {busyMs} ms and does not end. Nothing else on this loop goes on. If it waits for something that needs this loop (AsTask().Wait(), .Result), it waits for ever: await it instead.",
            "blocked-loop.md"));
        return true;
    }

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
        if (now - _busySinceMs > Engine.BlockedLoopMs && _busySinceMs != 0) CheckLongTurn(now);
        Suspect = null;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void CheckLongTurn(long now)
    {
        string? reported = Volatile.Read(ref _reported) is { } told && _reportedSinceMs == _busySinceMs ? told : null;
        long compiledMs = (Engine.CompiledTicks - _compiledAtStart) / TimeSpan.TicksPerMillisecond;
        long busyMs = now - _busySinceMs - Engine.StoodStillMs(_busySinceMs, now) - compiledMs;
        if (busyMs <= Engine.BlockedLoopMs) return;
        Counters.BlockedTurns++;
        string who = reported ?? Suspect ?? "A callback";
        long leftOut = 0;
        if (reported is null && ((compiledMs > 0 && busyMs < FirstUseMs) || !_blockedNotices.TryTake(KeyOf(who), now, out leftOut))) return;
        Engine.Note(new Notice(
            NoticeKind.BlockedLoop,
            $"{who} blocked loop {Index} for {busyMs} ms. Other sessions on this loop waited. Move the work to Task.Run, or post it in smaller pieces.{NoticePaces.LeftOutText(leftOut)}",
            "blocked-loop.md"));
    }

    /// <summary>Without what tells one session from another.</summary>
    private static string KeyOf(string who) => who.IndexOf(" (session", StringComparison.Ordinal) is > 0 and var end ? who[..end] : who;
}
