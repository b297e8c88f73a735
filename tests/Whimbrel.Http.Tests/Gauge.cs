namespace Whimbrel.Http.Tests;

/// <summary>
/// A large body on its way: how far who gives it is ahead of who takes it, and what memory that costs. Who takes goes on only when who gives
/// was held back, so that the peer is slow by what it does and not by the clock.
/// </summary>
/// <remarks>
/// Memory is measured with everything collected that nobody holds: what is alive in the collector's heap, and, when more passes than that
/// could hide, all private memory of the process (RssAnon of /proc/self/status), which has the blocks of loops, rings and TLS as well. That
/// goes up and down by some tens of MiB by itself, so 64 MiB say nothing there and 1 GiB does.
/// </remarks>
internal sealed class Gauge(long aheadBytes)
{
    private const int Step = 8 * 1024 * 1024;
    private const long MostLive = 16 * 1024 * 1024;
    private const long MostPrivate = 256 * 1024 * 1024;

    private readonly Lock _gate = new();
    private TaskCompletionSource _held = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private long _given;
    private long _taken;
    private long _next = Step;
    private (long Live, long Private)? _before;
    private bool _isHeld;
    private bool _isOver;

    /// <summary>How often who gives had to wait.</summary>
    internal int Holds { get; private set; }

    /// <summary>A write of so many bytes, which may have to wait.</summary>
    internal async ValueTask GiveAsync(ValueTask writing, int count)
    {
        if (!writing.IsCompleted)
        {
            lock (_gate)
            {
                _isHeld = true;
                Holds++;
                _held.TrySetResult();
            }
        }

        await writing;
        lock (_gate)
        {
            _given += count;
            if (!_isHeld) return;
            _isHeld = false;
            if (!_isOver) _held = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        }
    }

    /// <summary>Everything was given.</summary>
    internal void End()
    {
        lock (_gate)
        {
            _isOver = true;
            _held.TrySetResult();
        }
    }

    /// <summary>So many bytes were taken. Now and then waits until who gives is held back, and looks at the memory.</summary>
    internal async ValueTask TakeAsync(int count)
    {
        _taken += count;
        if (_taken < _next) return;
        _next += Step;
        Task held;
        lock (_gate) held = _isHeld || _isOver ? Task.CompletedTask : _held.Task;
        await held.WaitAsync(TimeSpan.FromSeconds(60));
        lock (_gate) Assert.InRange(_given - _taken, long.MinValue, aheadBytes);
        Look();
    }

    private void Look()
    {
        GC.Collect(2, GCCollectionMode.Aggressive, blocking: true, compacting: true);
        (long Live, long Private) now = (GC.GetTotalMemory(false), PrivateBytes());
        _before ??= now;
        Assert.InRange(now.Live - _before.Value.Live, long.MinValue, MostLive);
        Assert.InRange(now.Private - _before.Value.Private, long.MinValue, MostPrivate);
    }

    private static long PrivateBytes()
    {
        if (!OperatingSystem.IsLinux()) return 0;
        string line = File.ReadLines("/proc/self/status").First(static l => l.StartsWith("RssAnon:", StringComparison.Ordinal));
        return long.Parse(line["RssAnon:".Length..^" kB".Length].Trim(), System.Globalization.CultureInfo.InvariantCulture) * 1024;
    }
}
