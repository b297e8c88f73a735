using System.Runtime.ExceptionServices;

namespace Whimbrel.Compat.Links;

/// <summary>
/// Runs callbacks of one server, from the threads of many sessions, one at a time and in order. So a user's counter
/// needs no lock. No lock is held around user code, so that it may stop the server. A thread that arrives during a
/// callback queues its own.
/// </summary>
internal sealed class OrderedCalls
{
    private readonly Queue<(Action Call, Action<Exception> Failed)> _waiting = new();
    private readonly object _gate = new();
    private int _thread; // thread that runs callbacks; 0: none

    /// <param name="call">User code to run.</param>
    /// <param name="failed">Receives its exception if another thread runs it.</param>
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

        // A callback caused by a callback on the same thread is nested, as in the original.
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

    /// <summary>Waits until all queued callbacks have run, unless the calling thread runs them.</summary>
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
