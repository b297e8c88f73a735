using System.Runtime.ExceptionServices;

namespace Whimbrel.Compat.Links;

/// <summary>
/// Callbacks of one server, from the threads of many sessions: one at a time and in order, so that a user's counter needs no lock, and without a lock
/// around the user's code, so that it may stop the server. Who comes while another thread is at it leaves the callback there.
/// </summary>
internal sealed class OrderedCalls
{
    private readonly Queue<(Action Call, Action<Exception> Failed)> _waiting = new();
    private readonly object _gate = new();
    private int _thread; // whose turn it is; 0: nobody's

    /// <param name="call">The user's code.</param>
    /// <param name="failed">Where its exception goes when another thread runs it.</param>
    internal void Run(Action call, Action<Exception> failed)
    {
        int self = Environment.CurrentManagedThreadId;
        bool isInside;
        lock (_gate)
        {
            isInside = _thread == self;
            if (_thread != 0 && !isInside)
            {
                _waiting.Enqueue((call, failed));
                return;
            }

            _thread = self;
        }

        // What a callback brings about on its own thread happens inside of it, as it did in the old ones.
        if (isInside)
        {
            call();
            return;
        }

        ExceptionDispatchInfo? own = null;
        try
        {
            call();
        }
        catch (Exception e)
        {
            own = ExceptionDispatchInfo.Capture(e);
        }

        Drain();
        own?.Throw();
    }

    private void Drain()
    {
        while (true)
        {
            (Action Call, Action<Exception> Failed) next;
            lock (_gate)
            {
                if (!_waiting.TryDequeue(out next))
                {
                    _thread = 0;
                    Monitor.PulseAll(_gate);
                    return;
                }
            }

            try
            {
                next.Call();
            }
            catch (Exception e)
            {
                next.Failed(e);
            }
        }
    }

    /// <summary>Until all that was left here has run, unless this thread runs it.</summary>
    internal void AwaitIdle(TimeSpan timeout)
    {
        long deadline = Environment.TickCount64 + (long)timeout.TotalMilliseconds;
        lock (_gate)
        {
            while (_thread != 0 && _thread != Environment.CurrentManagedThreadId)
            {
                long left = deadline - Environment.TickCount64;
                if (left <= 0 || !Monitor.Wait(_gate, TimeSpan.FromMilliseconds(left))) return;
            }
        }
    }
}
