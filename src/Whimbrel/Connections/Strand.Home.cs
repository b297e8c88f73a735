namespace Whimbrel.Connections;

/// <summary>
/// A strand whose connection was handed to a session that stays on the loop: a stream or a pipe. From there on it runs on the loop, with all that it
/// holds in its order, and when nothing is left the connection calls its session itself. What the session before it awaits goes on on the
/// pool, in the order that it had.
/// </summary>
internal sealed partial class Strand
{
    private volatile bool _isHome; // set under the gate, by the last step on the pool
    private (bool WasConnected, Exception? Thrown)? _arrival; // where the first step on the loop goes on

    // ---- guarded by _gate
    private Queue<StrandEvent>? _late; // continuations of the session before
    private bool _isLateScheduled;
    private bool _hasLeft;

    /// <summary>The session before has had its last callback. The pool's last step.</summary>
    private void GoHome(bool wasConnected, Exception? thrown)
    {
        _arrival = (wasConnected, thrown);
        bool start = false;
        // tidy: allowed because it runs once for each connection that a stream takes over
        lock (_gate)
        {
            for (int i = _eventCount; i > 0; i--)
            {
                StrandEvent item = TakeEvent();
                if (item.Kind == StrandEventKind.Continuation) start |= AddLate(item);
                else AddEvent(item);
            }

            _isHome = true;
        }

        if (start) StartOnPool();
    }

    /// <summary>Under the gate. True when its runs are to be started.</summary>
    private bool AddLate(StrandEvent item)
    {
        (_late ??= new Queue<StrandEvent>()).Enqueue(item);
        if (_isLateScheduled) return false;
        return _isLateScheduled = true;
    }

    /// <summary>What was awaited in callbacks of the session before. On the pool.</summary>
    private void RunLate()
    {
        while (true)
        {
            StrandEvent item;
            // tidy: allowed because this is where a loop and the pool meet; a few instructions, never nested
            lock (_gate)
            {
                if (!_late!.TryDequeue(out item))
                {
                    _isLateScheduled = false;
                    return;
                }
            }

            RunContinuation(item);
        }
    }

    // ------------------------------------------------------------------ on the loop

    private void StartAtHome() => _loop.PostControl(static (_, s, _, _) => ((Strand)s!).RunAtHome(), this);

    private void RunAtHome()
    {
        if (_arrival is { } arrival)
        {
            _arrival = null;
            BeginNext(arrival.WasConnected, arrival.Thrown);
        }

        for (int i = 0; i < StepsPerRun; i++)
        {
            if (RunNext()) continue;
            TryLeave();
            return;
        }

        StartAtHome();
    }

    /// <summary>With nothing left, and nothing that the connection does not know itself, it is not needed any more.</summary>
    private void TryLeave()
    {
        // tidy: allowed because it runs only until the connection calls its session itself
        lock (_gate)
        {
            bool isEmpty = _eventCount == 0 && _firstBlock is null && _driver.UnreadCount == 0 && !_finishPending
                && !_lastPending;
            if (!isEmpty || _isScheduled || _hasLeft || _isGone || _isEnded || (_driver.Gate & ~ReceiveGate.User) != 0
                || !_connection.TryLeaveStrand(_generation))
                return;
            _taker = null;
            _hasLeft = true;
        }

        _loop.StrandEnded(this);
    }
}
