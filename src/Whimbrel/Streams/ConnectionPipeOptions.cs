using System.IO.Pipelines;

namespace Whimbrel;

/// <summary>How a <see cref="ConnectionPipe"/> behaves. Plain data, shared by many pipes; checked where it is given.</summary>
public sealed class ConnectionPipeOptions
{
    /// <summary>With all defaults.</summary>
    internal static ConnectionPipeOptions Default { get; } = new();

    /// <summary>
    /// Where a read or a flush that had to wait goes on. Null, the default: where it was awaited, which is the loop for code on the loop, and the pool for
    /// other code. <see cref="PipeScheduler.Inline"/>: on the connection's loop, in a turn of its own and never inside a callback; what runs there must not
    /// block. <see cref="PipeScheduler.ThreadPool"/>: on the pool, and what is flushed there wakes a sleeping loop behind what the pool has queued already, so
    /// that the answers of many connections leave together (<see cref="Session.BatchWakeUps"/>). Another one: as it says.
    /// </summary>
    public PipeScheduler? Scheduler { get; init; }

    /// <summary>
    /// Received bytes that the reader has not examined: from here on receiving pauses until it has examined down to the half, and the peer has to
    /// wait. What one receive brings may come on top. 4 KiB to 1 GiB; default 64 KiB.
    /// </summary>
    public int HoldBytes { get; init; } = 64 * 1024;

    /// <summary>
    /// Makes the exception that reads throw when the connection has ended by anything but the peer's finish. Null, the default: a
    /// <see cref="NetworkException"/>. Called once for such an end, on the loop; what it throws itself is thrown by the reads.
    /// </summary>
    public Func<CloseReason, Exception>? ReadFailure { get; init; }

    /// <summary>
    /// Whether a pipe with both halves completed waits for the peer's FIN, within the limits of a close; default true. False is for protocols in which the peer
    /// says nothing more by then: <see cref="Session.Close(bool)"/>.
    /// </summary>
    public bool AwaitsPeer { get; init; } = true;

    internal ConnectionPipeOptions Check()
    {
        if (HoldBytes is < 4096 or > 1 << 30) throw new ArgumentException($"ConnectionPipeOptions.HoldBytes is {HoldBytes}: it must be between 4 KiB and 1 GiB.");
        return this;
    }
}
