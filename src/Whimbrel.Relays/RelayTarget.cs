using System.Diagnostics;
using Whimbrel.Diagnostics;

namespace Whimbrel.Relays;

/// <summary>A place that a relay passes connections on to, and what has become of them. Any thread.</summary>
public sealed class RelayTarget
{
    private readonly Action<RelayTarget>? _onChanged;
    private readonly long _firstRest, _longestRest; // ticks of the stopwatch
    private readonly bool _isChecked;
    private bool _isDown;
    private long _failedAt; // the last failure; a connection that stood before it says nothing about now
    private long _dueAt; // while it is down: when one connection may try it
    private long _rest; // from one try to the next
    private string? _lastFailure;
    private int _open;
    private long _connections, _failures, _bytesIn, _bytesOut;

    internal RelayTarget(string address, Dialler dialler, RelayOptions options, Action<RelayTarget>? onChanged)
    {
        (Address, Dialler, _onChanged) = (address, dialler, onChanged);
        _isChecked = options.CheckEvery != Timeout.InfiniteTimeSpan;
        _firstRest = TicksOf(options.RetryAfter);
        _longestRest = Math.Max(_firstRest, TicksOf(options.RetryAtMost));
    }

    /// <summary>As it was given.</summary>
    public string Address { get; }

    /// <summary>
    /// False from a failure (<see cref="Failures"/>) or a failed check on, until a later connection of a client has brought a byte or has lasted for <see cref="RelayOptions.EarlyEnd"/>,
    /// or a check has passed. True before the first of them.
    /// </summary>
    public bool IsUp => !Volatile.Read(ref _isDown);

    /// <summary>Connections to it now, with those that are being dialled.</summary>
    public int OpenConnections => Volatile.Read(ref _open);

    /// <summary>Dials that reached it.</summary>
    public long Connections => Volatile.Read(ref _connections);

    /// <summary>Dials that did not reach it or were too slow, and connections that it ended within <see cref="RelayOptions.EarlyEnd"/> without a byte.</summary>
    public long Failures => Volatile.Read(ref _failures);

    /// <summary>Why the last dial, connection or check failed; null before the first that did.</summary>
    public string? LastFailure => Volatile.Read(ref _lastFailure);

    /// <summary>Bytes that it was sent for clients, of connections that have ended.</summary>
    public long BytesToTarget => Volatile.Read(ref _bytesOut);

    /// <summary>Bytes that clients were sent for it, of connections that have ended.</summary>
    public long BytesFromTarget => Volatile.Read(ref _bytesIn);

    internal Dialler Dialler { get; }

    /// <summary>Address, state and connections.</summary>
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
    /// It is down, its rest is over, and the caller is the one connection that tries it; the next one may after a rest of twice the length. Checks try it themselves: then false for clients.
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

    /// <summary>It serves, as a connection or check shows that stood at this time.</summary>
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
        if (!IsUp) return; // its rest has begun, and lasts as long as its tries said
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
            HookNet.Call(() => hook(this), static _ => { }); // as what it throws at once
        }
        catch (Exception)
        {
            // A log that fails is no reason to serve no clients.
        }
    }
}
