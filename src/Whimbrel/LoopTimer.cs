using Whimbrel.Connections;

namespace Whimbrel;

/// <summary>
/// A one-shot or periodic timer of a <see cref="Loop"/> or a <see cref="Session"/>. Monotonic 64-bit milliseconds, so
/// neither clock changes nor long up-times move it. Fires on its loop's thread, never early, late by at most the turn
/// that is running. A periodic timer that was held up fires once and goes on from there: it does not catch up.
/// </summary>
public sealed class LoopTimer
{
    internal const int NotQueued = -1;

    private readonly Action<object?>? _callback;
    private readonly object? _state;
    private readonly Connection? _connection;

    internal LoopTimer(Loop loop, Action<object?> callback, object? state, long periodMs)
    {
        Loop = loop;
        _callback = callback;
        _state = state;
        PeriodMs = periodMs;
    }

    /// <summary>A timer of the session on this connection.</summary>
    internal LoopTimer(Loop loop, Connection connection, long periodMs)
    {
        Loop = loop;
        _connection = connection;
        PeriodMs = periodMs;
    }

    /// <summary>The loop whose thread runs the callback.</summary>
    public Loop Loop { get; }

    /// <summary>The distance between two firings; zero for a one-shot timer.</summary>
    public TimeSpan Period => TimeSpan.FromMilliseconds(PeriodMs);

    /// <summary>True until it was cancelled or, for a one-shot timer, has fired. Exact on the loop's thread.</summary>
    public bool IsActive => QueueIndex != NotQueued || IsStarting || IsHeld;

    internal long PeriodMs { get; set; }

    internal long DueMs { get; set; }

    internal int QueueIndex { get; set; } = NotQueued;

    internal bool IsStarting { get; set; }

    internal bool IsCancelled { get; private set; }

    /// <summary>Fired, and its session on the pool was not told yet. Written on both sides, at times that exclude each other.</summary>
    internal bool IsQueued { get; set; }

    /// <summary>The tenancy of the connection that it was started in.</summary>
    internal uint TenancyGeneration { get; init; }

    /// <summary>Was due before its session was connected.</summary>
    internal bool IsHeld { get; set; }

    /// <summary>The other timers of the same session.</summary>
    internal LoopTimer? NextOfSession { get; set; }

    /// <summary>Stops it. Any thread. On the loop's thread no callback follows; from elsewhere one that is running may still end.</summary>
    public void Cancel()
    {
        IsCancelled = true;
        if (Loop.IsCurrent) Leave();
        else Loop.PostControl(static (_, timer, _, _) => ((LoopTimer)timer!).Leave(), this);
    }

    private void Leave()
    {
        IsHeld = false;
        Loop.Timers.Remove(this);
        _connection?.ForgetSessionTimer(this);
    }

    internal void Run()
    {
        if (_connection is not null) _connection.FireSessionTimer(this);
        else _callback!(_state);
    }
}
