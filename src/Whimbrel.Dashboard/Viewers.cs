using System.Diagnostics;

namespace Whimbrel.Dashboard;

/// <summary>
/// The open pages of a dashboard. The first one starts the sampler, and the sampler ends after the last one has left:
/// no timer runs and nothing is sampled without a viewer.
/// </summary>
internal sealed class Viewers(DashboardOptions options)
{
    /// <summary>Shortest time between two samples, however often pages change their views.</summary>
    private const int LeastBetweenMs = 100;

    /// <summary>A pause is at least this many times as long as the sample before it.</summary>
    private const int PauseFactor = 50;

    private readonly Lock _gate = new();
    private readonly List<Viewer> _viewers = [];
    private TaskCompletionSource _wake = new();
    private bool _isRunning;
    private long _samples;

    /// <summary>Maximum number of pages.</summary>
    internal int Most => options.MaxViewers;

    /// <summary>Number of samples so far. For tests.</summary>
    internal long Samples => Volatile.Read(ref _samples);

    /// <summary>True while the sampler runs. For tests.</summary>
    internal bool IsRunning
    {
        get
        {
            lock (_gate) return _isRunning; // tidy: allowed because only tests come here
        }
    }

    /// <summary>Adds a page. False: there are too many.</summary>
    internal bool TryAdd(Viewer viewer)
    {
        lock (_gate) // tidy: allowed because pages are opened by people
        {
            if (_viewers.Count >= Most) return false;
            _viewers.Add(viewer);
            if (_isRunning) return true;
            _isRunning = true;
        }

        Engine engine = viewer.Socket.Loop.Engine;
        Sampler sampler = new([engine, .. options.Engines.Where(other => !ReferenceEquals(other, engine))], options);
        _ = Task.Run(() => RunAsync(sampler));
        return true;
    }

    /// <summary>Removes a page, if it is there.</summary>
    internal void Remove(Viewer viewer)
    {
        lock (_gate) _viewers.Remove(viewer); // tidy: allowed because pages are closed by people
        Wake();
    }

    /// <summary>Ends the current pause, because a page wants another view. Any thread.</summary>
    internal void Wake() => Volatile.Read(ref _wake).TrySetResult();

    private async Task RunAsync(Sampler sampler)
    {
        using (sampler)
        {
            while (Copy() is { Length: > 0 } viewers)
            {
                long begin = Stopwatch.GetTimestamp();
                // Before the views are read: a later change ends the next pause.
                TaskCompletionSource wake = new(TaskCreationOptions.RunContinuationsAsynchronously);
                Volatile.Write(ref _wake, wake);
                TimeSpan used = await sampler.UpdateAsync(viewers).ConfigureAwait(false);
                Interlocked.Increment(ref _samples);
                TimeSpan pause = options.Interval > used * PauseFactor ? options.Interval : used * PauseFactor;
                using (CancellationTokenSource end = new())
                {
                    await Task.WhenAny(wake.Task, Task.Delay(pause, end.Token)).ConfigureAwait(false);
                    await end.CancelAsync().ConfigureAwait(false);
                }

                int leftMs = LeastBetweenMs - (int)Stopwatch.GetElapsedTime(begin).TotalMilliseconds;
                if (leftMs > 0) await Task.Delay(leftMs).ConfigureAwait(false);
            }
        }
    }

    /// <summary>Returns the open pages. Without any, the sampler counts as ended.</summary>
    private Viewer[] Copy()
    {
        lock (_gate)
        {
            if (_viewers.Count == 0) _isRunning = false;
            return [.. _viewers];
        }
    }
}
