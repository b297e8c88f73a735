using Whimbrel.Diagnostics;

namespace Whimbrel.Engines;

/// <summary>
/// Limit of the bytes that other threads have sent and loops have not moved yet, for a whole engine
/// (<see cref="EngineOptions.MailboxLimitBytes"/>). Each send adds to one count; a loop subtracts what it has moved to
/// a send queue. Any thread.
/// </summary>
internal sealed class MailboxBudget
{
    /// <summary>Range of the default, which is an eighth of the memory available to the process.</summary>
    private const long DefaultLeast = 64L * 1024 * 1024;
    private const long DefaultMost = 1024L * 1024 * 1024;

    private readonly Engine _engine;
    private long _used;
    private long _refused;
    private int _owesRoom;
    private NoticePace _notices;

    internal MailboxBudget(Engine engine, long limit)
    {
        _engine = engine;
        Limit = limit > 0
            ? limit
            : Math.Clamp(GC.GetGCMemoryInfo().TotalAvailableMemoryBytes / 8, DefaultLeast, DefaultMost);
    }

    internal long Limit { get; }

    /// <summary>Bytes granted and not given back.</summary>
    internal long Used => Volatile.Read(ref _used);

    internal long Refused => Volatile.Read(ref _refused);

    internal bool IsUsedUp => Used >= Limit;

    /// <summary>Takes bytes. More than the limit is granted only while nothing else is.</summary>
    internal bool TryTake(long bytes)
    {
        long used = Used;
        while (used <= 0 || used + bytes <= Limit)
        {
            long seen = Interlocked.CompareExchange(ref _used, used + bytes, used);
            if (seen == used) return true;
            used = seen;
        }

        return false;
    }

    /// <summary>Takes bytes that cannot be rejected any more and that another limit bounds.</summary>
    internal void Overdraw(long bytes) => Interlocked.Add(ref _used, bytes);

    /// <summary>
    /// Announces a rejection, after the mailbox has recorded the connection to notify. Bytes given back from now on
    /// notify it; the caller must call <see cref="TryTake"/> again, which sees the bytes given back before.
    /// </summary>
    internal void OweRoom() => Interlocked.Exchange(ref _owesRoom, 1);

    /// <summary>Gives bytes back. Rejected connections are notified when half of the limit is free again.</summary>
    internal void GiveBack(long bytes)
    {
        if (Interlocked.Add(ref _used, -bytes) > Limit / 2) return;
        if (Volatile.Read(ref _owesRoom) == 0 || Interlocked.Exchange(ref _owesRoom, 0) == 0) return;
        foreach (Loop loop in _engine.Loops) loop.Mailbox.TellOfRoom();
    }

    /// <summary>Counts and reports a rejected send. Not under a lock, because the report calls user code.</summary>
    internal void NoteRefusal()
    {
        Interlocked.Increment(ref _refused);
        if (!_notices.TryTake(_engine.NowMs)) return;
        _engine.Report(new DiagnosticEvent(
            DiagnosticEventKind.MailboxFull,
            $"A send of another thread was refused with Full, though its session had room: {Used / 1024} KiB are on "
            + $"their way to the loops, and the limit is {Limit / 1024} KiB (EngineOptions.MailboxLimitBytes). "
            + "A loop is blocked, or gets more than it can take. Further refusals of the next minute are only counted "
            + "(Engine.ReadCounters).",
            "mailbox-full.md"));
    }
}
