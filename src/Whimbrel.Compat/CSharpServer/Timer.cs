using Whimbrel;
using Whimbrel.Compat.Links;

namespace CSharpServer;

/// <summary>Tells once that a time has come. Any thread; its callbacks come one at a time, on the thread pool.</summary>
public class Timer : IDisposable
{
    // The longest that the system's timer takes is 49 days: a longer time is waited for in steps.
    private static readonly TimeSpan s_step = TimeSpan.FromDays(1);

    private readonly Lock _gate = new();
    private readonly OrderedCalls _calls = new();
    private readonly System.Threading.Timer _clock;
    private Expiry _expiry = new(DateTime.UnixEpoch, null);
    private int _waits;
    private bool _isDisposed;

    /// <summary>Whose time has come, until it is set up.</summary>
    /// <param name="service">Its callbacks come while this is started.</param>
    public Timer(Service service)
    {
        ArgumentNullException.ThrowIfNull(service);
        Service = service;
        _clock = new System.Threading.Timer(static state => ((Timer)state!).Look(), this, Timeout.Infinite, Timeout.Infinite);
    }

    /// <summary>With a point of time.</summary>
    /// <param name="service">Its callbacks come while this is started.</param>
    /// <param name="time">When.</param>
    public Timer(Service service, DateTime time)
        : this(service) => _expiry = new(time.ToUniversalTime(), null);

    /// <summary>With a time from now.</summary>
    /// <param name="service">Its callbacks come while this is started.</param>
    /// <param name="timespan">After how long.</param>
    public Timer(Service service, TimeSpan timespan)
        : this(service) => _expiry = After(timespan);

    /// <summary>Whose timer this is.</summary>
    public Service Service { get; }

    /// <summary>When it expires, in UTC.</summary>
    public DateTime ExpireTime
    {
        get
        {
            lock (_gate) return _expiry.Time;
        }
    }

    /// <summary>How long until then; negative behind it.</summary>
    public TimeSpan ExpireTimeSpan
    {
        get
        {
            lock (_gate) return _expiry.Left(Clock);
        }
    }

    /// <summary>Another one in tests.</summary>
    internal TimeProvider Clock { get; init; } = TimeProvider.System;

    /// <summary>Sets the time, and ends waits for the last one as cancelled.</summary>
    /// <param name="time">When.</param>
    /// <returns>True.</returns>
    public bool Setup(DateTime time) => SetTime(new(time.ToUniversalTime(), null));

    /// <summary>Sets the time, and ends waits for the last one as cancelled.</summary>
    /// <param name="timespan">After how long.</param>
    /// <returns>True.</returns>
    public bool Setup(TimeSpan timespan) => SetTime(After(timespan));

    private Expiry After(TimeSpan time)
    {
        DateTime now = Clock.GetUtcNow().UtcDateTime;
        DateTime then = time >= DateTime.MaxValue - now ? DateTime.SpecifyKind(DateTime.MaxValue, DateTimeKind.Utc) : time <= TimeSpan.Zero ? now : now + time;
        return new(then, Clock.GetTimestamp() + (long)Math.Clamp(time.TotalSeconds * Clock.TimestampFrequency, 0, long.MaxValue / 4));
    }

    private bool SetTime(Expiry expiry)
    {
        lock (_gate)
        {
            CancelWaits();
            _expiry = expiry;
        }

        return true;
    }

    /// <summary>Waits without a thread: OnTimer(false) is called when the time has come, once for each call, OnTimer(true) when it is cancelled.</summary>
    /// <returns>True.</returns>
    public bool WaitAsync()
    {
        lock (_gate)
        {
            if (_isDisposed) return false;
            _waits++;
            Arm();
        }

        return true;
    }

    /// <summary>Waits on the calling thread until the time has come. OnTimer is not called. Not on a loop.</summary>
    /// <returns>True.</returns>
    public bool WaitSync()
    {
        if (Loop.Current is not null) throw new InvalidOperationException("WaitSync waits, and a loop must not: call WaitAsync.");
        Expiry expiry;
        lock (_gate) expiry = _expiry;
        for (TimeSpan left = expiry.Left(Clock); left > TimeSpan.Zero; left = expiry.Left(Clock)) Thread.Sleep(Step(left));
        return true;
    }

    /// <summary>Ends waits as cancelled.</summary>
    /// <returns>True.</returns>
    public bool Cancel()
    {
        lock (_gate) CancelWaits();
        return true;
    }

    // Rounded up, so that nobody wakes before the time.
    private static TimeSpan Step(TimeSpan left) => left <= TimeSpan.Zero ? TimeSpan.Zero : left >= s_step ? s_step : TimeSpan.FromMilliseconds(Math.Ceiling(left.TotalMilliseconds));

    private void Arm() => _clock.Change(Step(_expiry.Left(Clock)), Timeout.InfiniteTimeSpan);

    private void Look()
    {
        int waits;
        lock (_gate)
        {
            if (_waits == 0) return;
            if (_expiry.Left(Clock) > TimeSpan.Zero)
            {
                Arm();
                return;
            }

            (waits, _waits) = (_waits, 0);
        }

        Tell(waits, isCanceled: false);
    }

    private void CancelWaits()
    {
        _clock.Change(Timeout.Infinite, Timeout.Infinite);
        (int waits, _waits) = (_waits, 0);
        if (waits > 0) ThreadPool.QueueUserWorkItem(static t => t.Timer.Tell(t.Waits, isCanceled: true), (Timer: this, Waits: waits), preferLocal: false);
    }

    private void Tell(int waits, bool isCanceled)
    {
        for (int i = 0; i < waits; i++) Service.WhenStarted(() => ThreadPool.QueueUserWorkItem(static t => t.Timer.Run(t.IsCanceled), (Timer: this, IsCanceled: isCanceled), preferLocal: false));
    }

    private void Run(bool isCanceled)
    {
        try
        {
            _calls.Run(() => OnTimer(isCanceled), Threw);
        }
        catch (Exception e)
        {
            Threw(e);
        }
    }

    private void Threw(Exception thrown)
    {
        AsioError error = AsioError.Thrown(thrown.Message);
        OnError(error.Code, error.Category, error.Message);
    }

    /// <summary>A wait is over.</summary>
    /// <param name="canceled">False: the time has come. True: Cancel or Setup was called.</param>
    protected virtual void OnTimer(bool canceled)
    {
    }

    /// <summary>OnTimer threw.</summary>
    /// <param name="error">The number, of its category.</param>
    /// <param name="category">Whose numbers.</param>
    /// <param name="message">In words.</param>
    protected virtual void OnError(int error, string category, string message)
    {
    }

    /// <summary>Ends waits as cancelled, and is done with it.</summary>
    public void Dispose()
    {
        Dispose(true);
        GC.SuppressFinalize(this);
    }

    /// <summary>Ends waits as cancelled.</summary>
    /// <param name="disposing">True: by Dispose.</param>
    protected virtual void Dispose(bool disposing)
    {
        lock (_gate)
        {
            if (_isDisposed) return;
            _isDisposed = true;
            if (!disposing) return;
            CancelWaits();
            _clock.Dispose();
        }
    }

    /// <summary>A point of time, which comes earlier or later when somebody sets the system's clock; or a time from now, which has a time stamp and does not.</summary>
    private readonly record struct Expiry(DateTime Time, long? Stamp)
    {
        internal TimeSpan Left(TimeProvider clock) => Stamp is { } stamp ? clock.GetElapsedTime(clock.GetTimestamp(), stamp) : Time - clock.GetUtcNow().UtcDateTime;
    }
}
