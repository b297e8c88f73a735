using System;
using System.Threading;

namespace OldPrograms.Host;

/// Does something so many times a second, on a thread of its own; what is left of the second it sleeps.
internal sealed class Ticker
{
    private readonly Thread _thread;
    private volatile bool _stopped;

    public Ticker(int rate, Action action)
    {
        _thread = new Thread(() =>
        {
            while (!_stopped)
            {
                long start = Environment.TickCount64;
                for (int i = 0; i < rate && !_stopped; i++) action();
                long left = 1000 - (Environment.TickCount64 - start);
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
