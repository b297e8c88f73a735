using System.Diagnostics;

namespace Whimbrel.Dashboard;

/// <summary>
/// Measures how long a loop takes to begin posted work (its lag), and runs questions of the sampler there. One probe is
/// out at a time: a blocked loop has one, however long it is blocked.
/// </summary>
internal sealed class LoopProbe(Loop loop)
{
    private readonly Lock _gate = new();
    private Action<Loop>[] _questions = [];
    private TaskCompletionSource _answered = new();
    private long _sentAt;
    private long _lagTicks;
    private bool _isOut;

    internal Engine Engine => loop.Engine;

    /// <summary>Lag of the last probe, or the age of the one that is out. Any thread.</summary>
    internal double LagMs
    {
        get
        {
            // tidy: allowed because the sampler alone competes with the loop, once in each sample
            lock (_gate)
            {
                long ticks = _isOut ? Math.Max(_lagTicks, Stopwatch.GetTimestamp() - _sentAt) : _lagTicks;
                return ticks * 1000.0 / Stopwatch.Frequency;
            }
        }
    }

    /// <summary>
    /// Sends a probe, unless one is out. The task completes when the loop has answered it, or has ended.
    /// </summary>
    internal Task Send(Action<Loop>[] questions)
    {
        Task answered;
        // tidy: allowed because the sampler alone competes with the loop, once in each sample
        lock (_gate)
        {
            if (_isOut) return _answered.Task;
            _isOut = true;
            _sentAt = Stopwatch.GetTimestamp();
            _questions = questions;
            _answered = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
            answered = _answered.Task;
        }

        if (!loop.Post(static probe => ((LoopProbe)probe!).Arrive(), this)) Arrive();
        return answered;
    }

    /// <summary>On the loop; or on the sampler's thread if the engine has stopped.</summary>
    private void Arrive()
    {
        Action<Loop>[] questions;
        // tidy: allowed because the sampler alone competes with the loop, once in each sample
        lock (_gate)
        {
            _lagTicks = Stopwatch.GetTimestamp() - _sentAt;
            questions = _questions;
        }

        try
        {
            if (loop.IsCurrent) Array.ForEach(questions, question => question(loop));
        }
        finally
        {
            lock (_gate) // tidy: allowed because the sampler alone competes with the loop, once in each sample
            {
                _isOut = false;
                _questions = [];
            }

            _answered.TrySetResult();
        }
    }
}
