using System.Diagnostics;

namespace Whimbrel.Relays;

/// <summary>A place that a relay passes connections on to, and what has become of them. Any thread.</summary>
public sealed class RelayTarget
{
    private readonly Action<RelayTarget>? _onChanged;
    private readonly long _retryTicks;
    private readonly bool _isChecked;
    private long _downAt;
    private bool _isDown;
    private int _open;
    private long _connections, _failures, _bytesIn, _bytesOut;

    internal RelayTarget(string address, Dialler dialler, RelayOptions options)
    {
        (Address, Dialler, _onChanged) = (address, dialler, options.OnTargetChanged);
        _isChecked = options.CheckEvery != Timeout.InfiniteTimeSpan;
        _retryTicks = (long)(options.RetryAfter.TotalSeconds * Stopwatch.Frequency);
    }

    /// <summary>As it was given.</summary>
    public string Address { get; }

    /// <summary>The last dial reached it, a client's or a check's; true before the first one.</summary>
    public bool IsUp => !Volatile.Read(ref _isDown);

    /// <summary>Connections to it now, with those that are being dialled.</summary>
    public int OpenConnections => Volatile.Read(ref _open);

    /// <summary>Dials that reached it.</summary>
    public long Connections => Volatile.Read(ref _connections);

    /// <summary>Dials that did not.</summary>
    public long Failures => Volatile.Read(ref _failures);

    /// <summary>Bytes that it was sent for clients, of connections that have ended.</summary>
    public long BytesToTarget => Volatile.Read(ref _bytesOut);

    /// <summary>Bytes that clients were sent for it, of connections that have ended.</summary>
    public long BytesFromTarget => Volatile.Read(ref _bytesIn);

    internal Dialler Dialler { get; }

    /// <summary>It failed, and not so long ago that it is to be asked like the others again. With checks it has to pass one first.</summary>
    internal bool IsResting => Volatile.Read(ref _isDown) && (_isChecked || Stopwatch.GetTimestamp() - Volatile.Read(ref _downAt) < _retryTicks);

    /// <summary>Address, state and connections.</summary>
    public override string ToString() => $"{Address} ({(IsUp ? "up" : "down")}, {OpenConnections} open)";

    internal void Take() => Interlocked.Increment(ref _open);

    internal void GiveBack() => Interlocked.Decrement(ref _open);

    internal void Reached()
    {
        Interlocked.Increment(ref _connections);
        Passed();
    }

    internal void Failed()
    {
        Interlocked.Increment(ref _failures);
        NotPassed();
    }

    internal void Passed()
    {
        if (Interlocked.Exchange(ref _isDown, false)) Tell();
    }

    internal void NotPassed()
    {
        Volatile.Write(ref _downAt, Stopwatch.GetTimestamp());
        if (!Interlocked.Exchange(ref _isDown, true)) Tell();
    }

    internal void AddToTarget(long bytes) => Interlocked.Add(ref _bytesOut, bytes);

    internal void AddFromTarget(long bytes) => Interlocked.Add(ref _bytesIn, bytes);

    private void Tell()
    {
        try
        {
            _onChanged?.Invoke(this);
        }
        catch (Exception)
        {
            // It is told, not asked: a log that fails is no reason to serve nobody.
        }
    }
}
