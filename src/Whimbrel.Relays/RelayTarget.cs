using System.Diagnostics;
using Whimbrel.Diagnostics;

namespace Whimbrel.Relays;

/// <summary>State and counters of a relay's target. Thread-safe.</summary>
public sealed class RelayTarget
{
    private readonly Action<RelayTarget>? _onChanged;
    private readonly long _firstRest, _longestRest; // ticks of the stopwatch
    private readonly bool _isChecked;
    private bool _isDown;
    private long _failedAt; // the last failure; an earlier connection does not show that the target serves now
    private long _dueAt; // time of the next retry while the target is down
    private long _rest; // from one retry to the next
    private string? _lastFailure;
    private int _open;
    private long _connections, _failures, _bytesIn, _bytesOut;

    internal RelayTarget(string address, Connector connector, RelayOptions options, Action<RelayTarget>? onChanged)
    {
        (Address, Connector, _onChanged) = (address, connector, onChanged);
        _isChecked = options.CheckEvery != Timeout.InfiniteTimeSpan;
        _firstRest = TicksOf(options.RetryAfter);
        _longestRest = Math.Max(_firstRest, TicksOf(options.RetryAtMost));
    }

    /// <summary>Address as given in <see cref="RelayOptions.Targets"/>.</summary>
    public string Address { get; }

    /// <summary>
    /// Whether the target serves. Initially true. False after a failure (<see cref="Failures"/>) or a failed check,
    /// until a later connection of a client has received a byte or has lasted for <see cref="RelayOptions.EarlyEnd"/>,
    /// or a check has succeeded.
    /// </summary>
    public bool IsUp => !Volatile.Read(ref _isDown);

    /// <summary>Number of open connections, including connects in progress, without checks.</summary>
    public int OpenConnections => Volatile.Read(ref _open);

    /// <summary>
    /// Number of connections that were used for a client. Checks, and connects slower than another target, are not
    /// counted.
    /// </summary>
    public long Connections => Volatile.Read(ref _connections);

    /// <summary>
    /// Number of connects that failed or were too slow, and of connections that the target ended within
    /// <see cref="RelayOptions.EarlyEnd"/> without a byte.
    /// </summary>
    public long Failures => Volatile.Read(ref _failures);

    /// <summary>Reason of the last failed connect, connection or check; null if there was none.</summary>
    public string? LastFailure => Volatile.Read(ref _lastFailure);

    /// <summary>Number of bytes forwarded to the target, of connections that have ended.</summary>
    public long BytesToTarget => Volatile.Read(ref _bytesOut);

    /// <summary>Number of bytes forwarded from the target, of connections that have ended.</summary>
    public long BytesFromTarget => Volatile.Read(ref _bytesIn);

    internal Connector Connector { get; }

    /// <summary>Returns address, state and number of open connections.</summary>
    public override string ToString() => $"{Address} ({(IsUp ? "up" : "down")}, {OpenConnections} open)";

    internal void Take() => Interlocked.Increment(ref _open);

    internal void GiveBack() => Interlocked.Decrement(ref _open);

    internal void CountConnection() => Interlocked.Increment(ref _connections);

    internal void CountFailure(string why)
    {
        Interlocked.Increment(ref _failures);
        NotPassed(why);
    }

    /// <summary>
    /// Returns true if the target is down, its retry is due, and the caller is the one connection that retries. The
    /// time until the next retry doubles. Always false with checks, which do the retries themselves.
    /// </summary>
    internal bool TryTurn(long now)
    {
        long due = Volatile.Read(ref _dueAt);
        if (IsUp || _isChecked || now < due) return false;
        long rest = Math.Min(Volatile.Read(ref _rest) * 2, _longestRest);
        if (Interlocked.CompareExchange(ref _dueAt, now + rest, due) != due) return false;
        Volatile.Write(ref _rest, rest);
        return true;
    }

    /// <summary>
    /// Sets the target up, unless it failed after this time, at which a connection or check was established.
    /// </summary>
    internal void Passed(long since)
    {
        if (IsUp || since < Volatile.Read(ref _failedAt)) return;
        if (Interlocked.Exchange(ref _isDown, false)) Tell();
    }

    internal void NotPassed(string why)
    {
        long now = Stopwatch.GetTimestamp();
        Volatile.Write(ref _lastFailure, why);
        Volatile.Write(ref _failedAt, now);
        if (!IsUp) return; // the next retry is already scheduled
        Volatile.Write(ref _rest, _firstRest);
        Volatile.Write(ref _dueAt, now + _firstRest);
        if (!Interlocked.Exchange(ref _isDown, true)) Tell();
    }

    internal void AddToTarget(long bytes) => Interlocked.Add(ref _bytesOut, bytes);

    internal void AddFromTarget(long bytes) => Interlocked.Add(ref _bytesIn, bytes);

    private static long TicksOf(TimeSpan time) => (long)(time.TotalSeconds * Stopwatch.Frequency);

    private void Tell()
    {
        try
        {
            if (_onChanged is not { } hook) return;
            // tidy: allowed because a target changes seldom
            HookNet.Call(() => hook(this), static _ => { }); // ignored, like a synchronous exception
        }
        catch (Exception)
        {
            // Because a failing log must not stop the relay.
        }
    }
}
