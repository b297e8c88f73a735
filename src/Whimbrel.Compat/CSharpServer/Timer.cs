using Whimbrel;
using Whimbrel.Compat.Links;

namespace CSharpServer;

/// <summary>One-shot timer. Any thread may use it. Its callbacks run on the thread pool, one at a time.</summary>
public class Timer : IDisposable
{
    // The longest interval of the system's timer is 49 days, so longer waits are done in steps.
    private static readonly TimeSpan s_step = TimeSpan.FromDays(1);

    private readonly Lock _gate = new();
    private readonly OrderedCalls _calls = new();
    private readonly System.Threading.Timer _clock;
    private Expiry _expiry = new(DateTime.UnixEpoch, null);
    private int _waits;
    private bool _isDisposed;

    /// <summary>Creates a timer that has already expired, until <see cref="Setup(DateTime)"/> is called.</summary>
    /// <param name="service">Service of the timer. Callbacks run while it is started.</param>
    public Timer(Service service)
    {
        ArgumentNullException.ThrowIfNull(service);
        Service = service;
        _clock = new System.Threading.Timer(static state => ((Timer)state!).Look(), this, Timeout.Infinite,
            Timeout.Infinite);
    }

    /// <summary>Creates a timer for a point in time.</summary>
    /// <param name="service">Service of the timer. Callbacks run while it is started.</param>
    /// <param name="time">Time of expiry.</param>
    public Timer(Service service, DateTime time)
        : this(service) => _expiry = new(time.ToUniversalTime(), null);

    /// <summary>Creates a timer for a time from now.</summary>
    /// <param name="service">Service of the timer. Callbacks run while it is started.</param>
    /// <param name="timespan">Time until expiry.</param>
    public Timer(Service service, TimeSpan timespan)
        : this(service) => _expiry = After(timespan);

    /// <summary>Service of the timer.</summary>
    public Service Service { get; }

    /// <summary>Time of expiry, in UTC.</summary>
    public DateTime ExpireTime
    {
        get
        {
            lock (_gate) return _expiry.Time;
        }
    }

    /// <summary>Time until expiry; negative afterwards.</summary>
    public TimeSpan ExpireTimeSpan
    {
        get
        {
            lock (_gate) return _expiry.Left(Clock);
        }
    }

    /// <summary>Clock. Tests set another one.</summary>
    internal TimeProvider Clock { get; init; } = TimeProvider.System;

    /// <summary>Sets the time of expiry, and cancels pending waits.</summary>
    /// <param name="time">Time of expiry.</param>
    /// <returns>True.</returns>
    public bool Setup(DateTime time) => SetTime(new(time.ToUniversalTime(), null));

    /// <summary>Sets the time of expiry, and cancels pending waits.</summary>
    /// <param name="timespan">Time until expiry.</param>
    /// <returns>True.</returns>
    public bool Setup(TimeSpan timespan) => SetTime(After(timespan));

    private Expiry After(TimeSpan time)
    {
        DateTime now = Clock.GetUtcNow().UtcDateTime;
        DateTime then = time >= DateTime.MaxValue - now ? DateTime.SpecifyKind(DateTime.MaxValue, DateTimeKind.Utc)
            : time <= TimeSpan.Zero ? now : now + time;
        return new(then, Clock.GetTimestamp() + (long)Math.Clamp(time.TotalSeconds * Clock.TimestampFrequency, 0,
            long.MaxValue / 4));
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

    /// <summary>Waits without a thread. OnTimer(false) is called at expiry, once for each call; OnTimer(true) on
    /// cancellation.</summary>
    /// <returns>False if the timer is disposed, otherwise true.</returns>
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

    /// <summary>Blocks the calling thread until expiry. OnTimer is not called. Must not be called on a loop.</summary>
    /// <returns>True.</returns>
    public bool WaitSync()
    {
        if (Loop.Current is not null)
            throw new InvalidOperationException("WaitSync waits, and a loop must not: call WaitAsync.");
        Expiry expiry;
        lock (_gate) expiry = _expiry;
        for (TimeSpan left = expiry.Left(Clock); left > TimeSpan.Zero; left = expiry.Left(Clock))
            Thread.Sleep(Step(left));
        return true;
    }

    /// <summary>Cancels pending waits.</summary>
    /// <returns>True.</returns>
    public bool Cancel()
    {
        lock (_gate) CancelWaits();
        return true;
    }

    // Rounded up, so that a wait never ends early.
    private static TimeSpan Step(TimeSpan left) => left <= TimeSpan.Zero ? TimeSpan.Zero : left >= s_step ? s_step
        : TimeSpan.FromMilliseconds(Math.Ceiling(left.TotalMilliseconds));

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
        if (waits > 0)
            ThreadPool.QueueUserWorkItem(static t => t.Timer.Tell(t.Waits, isCanceled: true),
                (Timer: this, Waits: waits), preferLocal: false);
    }

    private void Tell(int waits, bool isCanceled)
    {
        for (int i = 0; i < waits; i++)
            Service.WhenStarted(() => ThreadPool.QueueUserWorkItem(static t => t.Timer.Run(t.IsCanceled),
                (Timer: this, IsCanceled: isCanceled), preferLocal: false));
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

    /// <summary>Called when a wait ends.</summary>
    /// <param name="canceled">False: the timer has expired. True: Cancel or Setup was called, or the timer was
    /// disposed.</param>
    protected virtual void OnTimer(bool canceled)
    {
    }

    /// <summary>Called when OnTimer threw.</summary>
    /// <param name="error">Error number within its category.</param>
    /// <param name="category">Category of the number.</param>
    /// <param name="message">Text of the error.</param>
    protected virtual void OnError(int error, string category, string message)
    {
    }

    /// <summary>Cancels pending waits and releases the timer.</summary>
    public void Dispose()
    {
        Dispose(true);
        GC.SuppressFinalize(this);
    }

    /// <summary>Cancels pending waits.</summary>
    /// <param name="disposing">True if called by Dispose.</param>
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

    /// <summary>Time of expiry. Without a stamp it follows changes of the system's clock; with a stamp it does
    /// not.</summary>
    private readonly record struct Expiry(DateTime Time, long? Stamp)
    {
        internal TimeSpan Left(TimeProvider clock) => Stamp is { } stamp
            ? clock.GetElapsedTime(clock.GetTimestamp(), stamp)
            : Time - clock.GetUtcNow().UtcDateTime;
    }
}
