using System.IO.Pipelines;

namespace Whimbrel;

/// <summary>
/// Options of a <see cref="ConnectionPipe"/>. Plain data, may be shared by many pipes; checked where they are used.
/// </summary>
public sealed class ConnectionPipeOptions
{
    /// <summary>The default options.</summary>
    internal static ConnectionPipeOptions Default { get; } = new();

    /// <summary>
    /// Scheduler for code that waited for a read or a flush. Default null: code on the loop resumes on the loop, other
    /// code on the pool. <see cref="PipeScheduler.Inline"/>: on the connection's loop, in a turn of its own and never
    /// inside a callback; code that runs there must not block. <see cref="PipeScheduler.ThreadPool"/>: on the pool;
    /// flushes there wake a sleeping loop after the work that the pool has already queued, so that the answers of many
    /// connections leave together (<see cref="Session.BatchWakeUps"/>).
    /// </summary>
    public PipeScheduler? Scheduler { get; init; }

    /// <summary>
    /// Number of unexamined received bytes at which receiving pauses, until the reader has examined down to half of it.
    /// One receive may exceed it. 4 KiB to 1 GiB; default 64 KiB.
    /// </summary>
    public int HoldBytes { get; init; } = 64 * 1024;

    /// <summary>
    /// Function that creates the exception that reads throw if the connection has ended by anything but the peer's end
    /// of stream. Called once for such an end, on the loop; if it throws, reads throw its exception. Default null: a
    /// <see cref="NetworkException"/>.
    /// </summary>
    public Func<CloseReason, Exception>? ReadFailure { get; init; }

    /// <summary>
    /// Whether a pipe with both halves completed waits for the peer's FIN, within the limits of a close. Default true.
    /// False is for protocols in which the peer sends nothing more at that point:
    /// <see cref="Session.CloseWithoutLingering"/>.
    /// </summary>
    public bool AwaitsPeer { get; init; } = true;

    internal ConnectionPipeOptions Check()
    {
        if (HoldBytes is < 4096 or > 1 << 30)
            throw new ArgumentException(
                $"ConnectionPipeOptions.HoldBytes is {HoldBytes}: it must be between 4 KiB and 1 GiB.");
        return this;
    }
}
