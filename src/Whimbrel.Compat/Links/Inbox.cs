namespace Whimbrel.Compat.Links;

/// <summary>Bounded queue of bytes for calls of Receive. Above its mark the connection is not read.</summary>
internal sealed class Inbox
{
    private const int Mark = 64 * 1024;

    private readonly object _gate = new();
    private readonly NetCoreServer.Buffer _bytes = new();
    private volatile bool _isManual;
    private bool _hasEnded;
    private bool _isPaused;
    private int _waiting;

    internal bool IsManual => _isManual;

    /// <summary>Starts for a new connection. After a synchronous Connect, data is requested by Receive or
    /// ReceiveAsync.</summary>
    internal void Begin(bool isManual)
    {
        lock (_gate)
        {
            _bytes.Clear();
            _isManual = isManual;
            _hasEnded = _isPaused = false;
        }
    }

    /// <summary>Stores received data if it is to be requested by calls.</summary>
    internal bool Take(Session session, ReadOnlySpan<byte> data)
    {
        if (!_isManual) return false;
        lock (_gate)
        {
            if (!_isManual) return false;
            _bytes.Append(data);
            if (_bytes.Size >= Mark && !_isPaused)
            {
                _isPaused = true;
                session.PauseReceiving();
            }

            Monitor.PulseAll(_gate);
            return true;
        }
    }

    internal int Receive(Session session, Span<byte> target, TimeSpan timeout)
    {
        long deadline = timeout == Timeout.InfiniteTimeSpan
            ? long.MaxValue
            : Environment.TickCount64 + (long)timeout.TotalMilliseconds;
        lock (_gate)
        {
            // A caller of Receive gets the next data, also while data is delivered by callbacks.
            bool wasManual = _isManual;
            _isManual = true;
            _waiting++;
            while (_bytes.IsEmpty && !_hasEnded)
            {
                long left = deadline - Environment.TickCount64;
                if (left <= 0) break;
                Monitor.Wait(_gate, (int)Math.Min(left, int.MaxValue));
            }

            _waiting--;
            int count = (int)Math.Min(target.Length, _bytes.Size);
            _bytes.AsSpan()[..count].CopyTo(target);
            _bytes.Remove(0, count);
            if (!wasManual && _waiting == 0 && _bytes.IsEmpty) _isManual = false;
            if (_isPaused && _bytes.Size < Mark / 2)
            {
                _isPaused = false;
                session.ResumeReceiving();
            }

            return count;
        }
    }

    /// <summary>Switches to delivery by callbacks.</summary>
    internal byte[] Stop()
    {
        lock (_gate)
        {
            byte[] rest = _bytes.AsSpan().ToArray();
            _bytes.Clear();
            _isManual = false;
            return rest;
        }
    }

    internal void End()
    {
        lock (_gate)
        {
            _hasEnded = true;
            Monitor.PulseAll(_gate);
        }
    }
}
