namespace Whimbrel.Http.Tests;

/// <summary>
/// Measures the transfer of a large body: how far the producer is ahead of the consumer, and the memory in use. The
/// consumer continues only after the producer was blocked, so back-pressure is proven by state and not by time.
/// </summary>
/// <remarks>
/// Memory is measured after a full collection: live bytes of the managed heap and, when the total is large enough to
/// matter, the private memory of the process (RssAnon of /proc/self/status), which also includes the buffers of loops,
/// rings and TLS. RssAnon varies by some tens of MiB, so it proves nothing for 64 MiB of data but does for 1 GiB.
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

    /// <summary>Number of writes that did not complete synchronously.</summary>
    internal int Holds { get; private set; }

    /// <summary>Counts a write of `count` bytes and awaits it.</summary>
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

    /// <summary>Marks the end of the body: the producer writes nothing more.</summary>
    internal void End()
    {
        lock (_gate)
        {
            _isOver = true;
            _held.TrySetResult();
        }
    }

    /// <summary>Counts consumed bytes. Every 8 MiB, waits until the producer is blocked, then checks the
    /// memory.</summary>
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
        string line = File.ReadLines("/proc/self/status")
            .First(static l => l.StartsWith("RssAnon:", StringComparison.Ordinal));
        return long.Parse(line["RssAnon:".Length..^" kB".Length].Trim(),
            System.Globalization.CultureInfo.InvariantCulture) * 1024;
    }
}
