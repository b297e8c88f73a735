using System;
using System.Threading;

namespace OldPrograms.Host;

/// Runs an action a given number of times per second, on its own thread, and sleeps for the rest of the second. A low
/// rate is spread over tenths of a second: otherwise a check of the last second might see none of them.
internal sealed class Ticker
{
    private readonly Thread _thread;
    private volatile bool _stopped;

    public Ticker(int rate, Action action)
    {
        int period = rate is >= 10 and < 100_000 ? 100 : 1000;
        int times = (int)((long)rate * period / 1000);
        _thread = new Thread(() =>
        {
            while (!_stopped)
            {
                long start = Environment.TickCount64;
                for (int i = 0; i < times && !_stopped; i++) action();
                long left = period - (Environment.TickCount64 - start);
                if (left > 0) Thread.Sleep((int)left);
                else Thread.Yield();
            }
        });
    }

    public bool Start()
    {
        _thread.Start();
        return true;
    }

    public bool Stop()
    {
        _stopped = true;
        _thread.Join();
        return true;
    }
}
