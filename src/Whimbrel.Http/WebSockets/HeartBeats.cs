using System.Runtime.CompilerServices;

namespace Whimbrel.Http.WebSockets;

/// <summary>
/// The clock of all WebSockets of one loop that have the same heart-beat: one timer, and a list in the order in which they are due. All wait
/// equally long, so whoever joins is the last. A timer for each would take a quarter of what an idle WebSocket costs.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>A session joins for one beat, is told of it when it is due, and has left then; it joins again when it has done what a beat asks. So two beats of a session that was late are as far apart as ever.</item>
/// <item>A beat may come up to 16 ms early where one just before it is due: they share a turn of the loop then.</item>
/// <item>Everything on the loop's thread. The list holds what it knows of a session in the session itself (<see cref="Place"/>); a session stands in one list at most.</item>
/// <item>A session that ends leaves; one that never had a connection is told once and does not come back.</item>
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

    /// <summary>The one of a loop for an interval. The loop's thread.</summary>
    internal static HeartBeats Of(Loop loop, TimeSpan interval)
    {
        Dictionary<long, HeartBeats> known = s_ofLoops.GetValue(loop, static _ => []);
        if (!known.TryGetValue(interval.Ticks, out HeartBeats? beats)) known.Add(interval.Ticks, beats = new HeartBeats(loop, interval));
        return beats;
    }

    /// <summary>Tells it of the next beat, once. A session that has joined already keeps its time.</summary>
    internal void Join(WebSocketSession session)
    {
        ref Place place = ref session.HeartPlace;
        if (place.IsTaken) return;
        place = new Place { Previous = _last, DueMs = _loop.TimeMs + (long)_interval.TotalMilliseconds };
        if (_last is null) _first = session;
        else _last.HeartPlace.Next = session;
        _last = session;
        // Also where a stop of the engine has ended it.
        if (_timer is not { IsActive: true }) Start(_interval);
    }

    /// <summary>One that has joined is not told. The timer stays as it is, and finds less to do.</summary>
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

    // An interval that nobody uses any more leaves nothing behind.
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

    /// <summary>Where a session stands.</summary>
    internal struct Place
    {
        internal WebSocketSession? Previous;
        internal WebSocketSession? Next;
        internal long DueMs;

        internal readonly bool IsTaken => DueMs != 0;
    }
}
