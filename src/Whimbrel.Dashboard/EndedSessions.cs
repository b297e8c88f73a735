namespace Whimbrel.Dashboard;

/// <summary>
/// The last connections that have ended while there was a viewer. The oldest one is replaced. Loops write without a
/// lock, the sampler reads.
/// </summary>
internal sealed class EndedSessions
{
    /// <summary>Maximum number of connections, a power of two.</summary>
    internal const int Most = 256;

    private readonly EndedSession?[] _ring = new EndedSession?[Most];
    private long _count;

    /// <summary>Number of ends so far.</summary>
    internal long Count => Volatile.Read(ref _count);

    /// <summary>
    /// Handler of <see cref="Engine.SessionHasEnded"/>: on the thread of the session's last callback.
    /// </summary>
    internal void Add(Session session, CloseReason reason)
    {
        EndedSession ended = new(session.Id, session.DisplayName, StatusSnapshot.TextOf(session.RemoteEndPoint),
            session.ConnectedAt, session.Loop.Engine.UtcNow, session.BytesReceived, session.BytesSent, reason);
        long number = Interlocked.Increment(ref _count) - 1;
        Volatile.Write(ref _ring[number & (Most - 1)], ended);
    }

    /// <summary>Returns them, the last one first.</summary>
    internal List<EndedSession> Read()
    {
        List<EndedSession> all = [];
        long count = Count;
        for (long number = count - 1; number >= Math.Max(0, count - Most); number--)
        {
            if (Volatile.Read(ref _ring[number & (Most - 1)]) is { } ended) all.Add(ended);
        }

        return all;
    }

    internal EndedSession? Find(long id) => Read().Find(ended => ended.Id == id);
}

/// <summary>A connection that has ended.</summary>
/// <param name="Id">Id of its session.</param>
/// <param name="Type">Class of its session.</param>
/// <param name="Peer">Address of the peer.</param>
/// <param name="ConnectedAt">Time of its connection; null if it was never connected.</param>
/// <param name="EndedAt">Time of its end.</param>
/// <param name="Received">Bytes received.</param>
/// <param name="Sent">Bytes passed to the kernel.</param>
/// <param name="Reason">Reason of its end.</param>
internal sealed record EndedSession(long Id, string Type, string Peer, DateTimeOffset? ConnectedAt,
    DateTimeOffset EndedAt, long Received, long Sent, CloseReason Reason);
