using Whimbrel.Diagnostics;

namespace Whimbrel.Engines;

/// <summary>
/// What sends of other threads may have on their way to all loops of an engine (<see cref="EngineOptions.MailboxLimitBytes"/>). One count
/// for all loops: each send adds to it, and the loop takes off what it has moved to a send queue. Any thread.
/// </summary>
internal sealed class MailboxBudget
{
    /// <summary>The default is an eighth of the memory that the process may use, within these.</summary>
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
        Limit = limit > 0 ? limit : Math.Clamp(GC.GetGCMemoryInfo().TotalAvailableMemoryBytes / 8, DefaultLeast, DefaultMost);
    }

    internal long Limit { get; }

    /// <summary>Granted now.</summary>
    internal long Used => Volatile.Read(ref _used);

    internal long Refused => Volatile.Read(ref _refused);

    internal bool IsUsedUp => Used >= Limit;

    /// <summary>Takes so much. What is larger than the limit is granted when nothing else is.</summary>
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

    /// <summary>For what cannot be refused any more, and has a limit of its own.</summary>
    internal void Overdraw(long bytes) => Interlocked.Add(ref _used, bytes);

    /// <summary>
    /// Somebody is about to be refused, and his mailbox has noted whom to tell. From here on whoever gives bytes back tells; what was given
    /// back before is seen by another <see cref="TryTake"/>, which must follow.
    /// </summary>
    internal void OweRoom() => Interlocked.Exchange(ref _owesRoom, 1);

    /// <summary>A mailbox was drained. Whoever was refused is told when half of the limit is free again.</summary>
    internal void GiveBack(long bytes)
    {
        if (Interlocked.Add(ref _used, -bytes) > Limit / 2) return;
        if (Volatile.Read(ref _owesRoom) == 0 || Interlocked.Exchange(ref _owesRoom, 0) == 0) return;
        foreach (Loop loop in _engine.Loops) loop.Mailbox.TellOfRoom();
    }

    /// <summary>A send was refused. Outside of every gate: the notice is the user's code.</summary>
    internal void NoteRefusal()
    {
        Interlocked.Increment(ref _refused);
        if (!_notices.TryTake(_engine.NowMs)) return;
        _engine.Report(new DiagnosticEvent(
            DiagnosticEventKind.MailboxFull,
            $"A send of another thread was refused with Full, though its session had room: {Used / 1024} KiB are on their way to the loops, and the limit is {Limit / 1024} KiB (EngineOptions.MailboxLimitBytes). "
            + "A loop is blocked, or gets more than it can take. Further refusals of the next minute are only counted (Engine.ReadCounters).",
            "mailbox-full.md"));
    }
}
