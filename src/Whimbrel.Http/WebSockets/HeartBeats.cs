using System.Runtime.CompilerServices;

namespace Whimbrel.Http.WebSockets;

/// <summary>
/// Heart-beat clock of all WebSockets of one loop with the same interval: one timer, and a list in the order of due
/// times. All intervals are equal, so a new session is appended. A timer for each would need a quarter of the memory of
/// an idle WebSocket.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>A session joins for one beat, and is removed before its callback. It joins again after its work for the beat.
/// So the beats of a late session keep their distance.</item>
/// <item>A beat may come up to 16 ms early, together with one due just before it, in the same turn of the loop.</item>
/// <item>Everything runs on the loop's thread. The list is stored in the sessions (<see cref="Place"/>); a session is
/// in at most one list.</item>
/// <item>A session that ends leaves. One without a connection gets one callback and does not join again.</item>
/// </list>
/// </remarks>
internal sealed class HeartBeats
{
    private const long ShareMs = 16;

    private static readonly ConditionalWeakTable<Loop, Dictionary<long, HeartBeats>> s_ofLoops = [];

    private readonly Loop _loop;
    private readonly TimeSpan _interval;
    private WebSocketSession? _first;
    private WebSocketSession? _last;
    private LoopTimer? _timer;

    private HeartBeats(Loop loop, TimeSpan interval)
    {
        _loop = loop;
        _interval = interval;
    }

    /// <summary>Returns the clock of a loop for an interval. The loop's thread.</summary>
    internal static HeartBeats Of(Loop loop, TimeSpan interval)
    {
        Dictionary<long, HeartBeats> known = s_ofLoops.GetValue(loop, static _ => []);
        if (!known.TryGetValue(interval.Ticks, out HeartBeats? beats))
            known.Add(interval.Ticks, beats = new HeartBeats(loop, interval));
        return beats;
    }

    /// <summary>Adds a session for the next beat, once. A session that is in the list keeps its due time.</summary>
    internal void Join(WebSocketSession session)
    {
        ref Place place = ref session.HeartPlace;
        if (place.IsTaken) return;
        place = new Place { Previous = _last, DueMs = _loop.TimeMs + (long)_interval.TotalMilliseconds };
        if (_last is null) _first = session;
        else _last.HeartPlace.Next = session;
        _last = session;
        // Also after a stop of the engine has ended the timer.
        if (_timer is not { IsActive: true }) Start(_interval);
    }

    /// <summary>Removes a session before its beat. The timer is not changed.</summary>
    internal void Leave(WebSocketSession session)
    {
        Remove(ref session.HeartPlace);
        if (_first is null) End();
    }

    private void Remove(ref Place place)
    {
        if (place.Previous is { } previous) previous.HeartPlace.Next = place.Next;
        else _first = place.Next;
        if (place.Next is { } next) next.HeartPlace.Previous = place.Previous;
        else _last = place.Previous;
        place = default;
    }

    // An unused interval is removed.
    private void End()
    {
        _timer?.Cancel();
        if (s_ofLoops.TryGetValue(_loop, out Dictionary<long, HeartBeats>? known)) known.Remove(_interval.Ticks);
    }

    private void Start(TimeSpan due)
    {
        if (_timer is { } timer) timer.Start(due);
        else _timer = _loop.StartTimer(due, static b => ((HeartBeats)b!).Tell(), this);
    }

    private void Tell()
    {
        while (_first is { } session)
        {
            long leftMs = session.HeartPlace.DueMs - _loop.TimeMs;
            if (leftMs > ShareMs)
            {
                Start(TimeSpan.FromMilliseconds(leftMs));
                return;
            }

            Remove(ref session.HeartPlace);
            session.BeatIsDue();
        }
    }

    /// <summary>Position of a session in the list.</summary>
    internal struct Place
    {
        internal WebSocketSession? Previous;
        internal WebSocketSession? Next;
        internal long DueMs;

        internal readonly bool IsTaken => DueMs != 0;
    }
}
