using System.Runtime.CompilerServices;

namespace Whimbrel.Http;

/// <summary>
/// Timer that is reused by sessions. A loop keeps those of ended connections, so that a connection with one request
/// allocates none. Only the loop's thread takes and returns them; a session on the pool has its own.
/// </summary>
internal sealed class HttpTimer
{
    private const int MostKept = 1024; // 160 KB per loop

    private static readonly ConditionalWeakTable<Loop, Stack<HttpTimer>> s_free = [];

    private readonly Loop _loop;
    private HttpSession? _session;
    private LoopTimer? _timer;

    private HttpTimer(Loop loop) => _loop = loop;

    /// <summary>Takes a timer for a connected session. Any thread.</summary>
    internal static HttpTimer Take(HttpSession session)
    {
        Loop loop = session.Loop;
        HttpTimer timer = loop.IsCurrent && s_free.TryGetValue(loop, out Stack<HttpTimer>? free) && free.Count > 0
            ? free.Pop()
            : new HttpTimer(loop);
        timer._session = session;
        return timer;
    }

    /// <summary>Starts or moves it. Any thread, one at a time.</summary>
    internal void Start(TimeSpan due)
    {
        if (_timer is { } timer) timer.Start(due);
        else _timer = _loop.StartTimer(due, static t => ((HttpTimer)t!).Fire(), this);
    }

    /// <summary>Returns the timer when its session has ended. Called from another thread than the loop, it may fire
    /// once more without effect.</summary>
    internal void Return()
    {
        _session = null;
        _timer?.Cancel();
        if (!_loop.IsCurrent) return;
        Stack<HttpTimer> free = s_free.GetValue(_loop, static _ => new Stack<HttpTimer>());
        if (free.Count < MostKept) free.Push(this);
    }

    private void Fire() => _session?.TimeHasCome();
}
