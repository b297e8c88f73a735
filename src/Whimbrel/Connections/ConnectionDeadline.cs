using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// The timer of a connection: for its handshake, its time limits, or its end. One at a time, and one for all uses of
/// the object, because there are many short connections. Loop's thread.
/// </summary>
internal struct ConnectionDeadline
{
    private LoopTimer? _timer;
    private long _sentBefore; // bytes sent when it was started
    private long _drainEndsMs;

    /// <summary>Calls <see cref="Connection.DeadlinePassed"/> after this time. Replaces an earlier deadline.</summary>
    internal void Start(Connection connection, TimeSpan due)
    {
        _timer ??= new LoopTimer(connection.Loop,
            (Action<object?>)(static c => ((Connection)c!).DeadlinePassed()), connection);
        _sentBefore = connection.Outbound.BytesSent;
        _timer.Start(due);
    }

    /// <summary>The same for a drain, which may be prolonged.</summary>
    /// <param name="connection">The connection.</param>
    /// <param name="idle">Time without a sent byte.</param>
    /// <param name="most">Time for the whole drain.</param>
    internal void StartDrain(Connection connection, TimeSpan idle, TimeSpan most)
    {
        _drainEndsMs = connection.Loop.Engine.NowMs + Loop.WholeMs(most);
        Start(connection, idle);
    }

    /// <summary>
    /// Starts again if the peer has taken bytes since. It is slow but present, and may continue as long as it takes
    /// bytes. The time for the whole drain limits a peer that takes a byte now and then.
    /// </summary>
    internal bool TryProlong(Connection connection, TimeSpan idle)
    {
        long leftMs = _drainEndsMs - connection.Loop.Engine.NowMs;
        if (connection.Outbound.BytesSent <= _sentBefore || leftMs <= 0) return false;
        Start(connection, TimeSpan.FromMilliseconds(Math.Min(leftMs, Loop.WholeMs(idle))));
        return true;
    }

    internal readonly void Stop(Loop loop)
    {
        if (_timer is not null) loop.Timers.Remove(_timer);
    }

    /// <summary>Stops at the end of a use.</summary>
    internal void Recycle(Loop loop)
    {
        Stop(loop);
        (_sentBefore, _drainEndsMs) = (0, 0);
    }
}
