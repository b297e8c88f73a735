using Whimbrel.Http.Parsing;

namespace Whimbrel.Http;

// Timeouts of the peer. One timer, which moves only when an earlier deadline appears. So a request that arrives whole
// and is answered at once costs two reads of the loop's clock.
public partial class HttpSession
{
    private const int SendTickMs = 1000;

    private HttpTimer? _timer;
    private SlowSend? _slowSend;
    private long _timerDueMs;
    private long _connectedMs;
    private long _quietSinceMs;

    private static long Milliseconds(TimeSpan time) => (long)time.TotalMilliseconds;

    private void Watch(long dueMs)
    {
        if (_timerDueMs != 0 && _timerDueMs <= dueMs) return;
        _timerDueMs = dueMs;
        _timer ??= HttpTimer.Take(this);
        _timer.Start(TimeSpan.FromMilliseconds(Math.Max(1, dueMs - Loop.TimeMs)));
    }

    /// <summary>Called on the loop's thread, outside of the session's callbacks.</summary>
    internal void TimeHasCome() => Post(static s => ((HttpSession)s!).Tick(), this);

    private void WatchQuiet() => Watch(_quietSinceMs + Milliseconds(_options.KeepAliveTimeout));

    /// <summary>Starts the timeout for bytes of a body.</summary>
    private void WatchBody() => Watch(BodyDueMs());

    /// <summary>Starts the timeout for sending a response, because the peer may not read it. On the session's
    /// thread.</summary>
    internal void WatchSending()
    {
        if (Volatile.Read(ref _timerDueMs) is > 0 and long dueMs && dueMs <= Loop.TimeMs + SendTickMs) return;
        if (Loop.IsCurrent) Watch(Loop.TimeMs + SendTickMs);
        else Post(static s => ((HttpSession)s!).Watch(((HttpSession)s!).Loop.TimeMs + SendTickMs), this);
    }

    private long BodyDueMs()
    {
        long owed = Milliseconds(_options.RateGrace) + (_options.MinBytesPerSecond == 0
            ? long.MaxValue / 4 : Exchange.Body.Total * 1000 / _options.MinBytesPerSecond);
        return Exchange.BodySinceMs + Exchange.BodyWaitedMs + Math.Min(owed, Milliseconds(_options.BodyTimeout));
    }

    private void Tick()
    {
        if (_phase == Phase.Over && !IsConnected) return;
        long nowMs = Loop.TimeMs;
        _timerDueMs = 0;
        if (!CheckSending(nowMs)) return;
        switch (_phase)
        {
            case Phase.Head when _exchange is not null:
                if (!IsDue(Exchange.HeadSinceMs + Milliseconds(_options.HeadTimeout), nowMs)) return;
                Count(HttpCount.HeadTimeouts);
                Answer(408, "The head of the request took too long");
                return;
            case Phase.Head:
                // responses are pending, and sending has its own timeouts
                if (IsAboveHighWaterMark) _quietSinceMs = nowMs;
                if (!IsDue(_quietSinceMs + Milliseconds(_options.KeepAliveTimeout), nowMs)) return;
                Count(HttpCount.IdleClosed);
                End();
                return;
            case Phase.Body or Phase.Skip:
                if (!IsDue(BodyDueMs(), nowMs)) return;
                Count(HttpCount.BodyTimeouts);
                if (_phase == Phase.Body) Answer(408, "The body of the request was too slow");
                else End();
                return;
            case Phase.Answer when Exchange.Stream is { IsWaiting: true } stream:
                if (!IsDue(BodyDueMs(), nowMs)) return;
                Count(HttpCount.BodyTimeouts);
                FailBody(stream, new HttpProtocolException(408, "The body of the request was too slow."));
                return;
        }
    }

    private bool IsDue(long dueMs, long nowMs)
    {
        if (nowMs >= dueMs) return true;
        Watch(dueMs);
        return false;
    }

    private bool CheckSending(long nowMs)
    {
        if (BytesPending == 0)
        {
            if (_slowSend is not null) _slowSend.SinceMs = 0;
            return true;
        }

        long sent = BytesSent;
        SlowSend slow = _slowSend ??= new SlowSend();
        if (slow.SinceMs == 0)
        {
            slow.SinceMs = slow.SentLastMs = nowMs;
            slow.SentThen = slow.SentLast = sent;
        }

        if (sent != slow.SentLast)
        {
            slow.SentLast = sent;
            slow.SentLastMs = nowMs;
        }

        long graceMs = Milliseconds(_options.RateGrace), elapsedMs = nowMs - slow.SinceMs;
        bool isStuck = nowMs - slow.SentLastMs >= Milliseconds(_options.SendTimeout);
        bool isSlow = elapsedMs > graceMs
            && (sent - slow.SentThen) < (elapsedMs - graceMs) * _options.MinBytesPerSecond / 1000;
        if (!isStuck && !isSlow)
        {
            Watch(nowMs + SendTickMs);
            return true;
        }

        Count(HttpCount.SendTimeouts);
        if (_phase == Phase.Answer)
        {
            NoteAnswer(wentAway: true, nameof(CloseCause.SendTimeout));
            Exchange.IsLeft = true;
        }
        else ReleaseExchange();
        _phase = Phase.Over;
        Abort();
        return false;
    }
}
