namespace Whimbrel.Schedules;

/// <summary>A session that calls its scenario.</summary>
internal sealed class ScheduledSession(Action<ScheduledSession> received) : Session
{
    internal bool HasBegun { get; private set; }

    /// <summary>Number of calls of OnDisconnected.</summary>
    internal int Ends { get; private set; }

    internal CloseReason Reason { get; private set; }

    protected override void OnConnected() => HasBegun = true;

    protected override void OnReceived(ReadOnlySpan<byte> data) => received(this);

    protected override void OnDisconnected(CloseReason reason)
    {
        Ends++;
        Reason = reason;
    }

    /// <summary>The first exception of a callback.</summary>
    internal Exception? Failure { get; private set; }

    protected override void OnError(Exception exception) => Failure ??= exception;
}
