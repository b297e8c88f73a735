namespace Whimbrel.Engines;

/// <summary>
/// Lookups of host names for an engine. The system's lookup blocks a thread and cannot be cancelled. Therefore connects
/// with the same name share a lookup, at most <see cref="MaxRunning"/> run at a time, and the others wait in order. A
/// cancelled connect leaves at once, even if its lookup continues. Results are not cached, because only the system
/// knows how long they are valid. Any thread.
/// </summary>
internal sealed class Resolver(Engine engine)
{
    internal const int MaxRunning = 32;

    private readonly Lock _gate = new();
    private readonly Dictionary<string, HostLookup> _lookups = new(StringComparer.OrdinalIgnoreCase);
    private readonly Queue<HostLookup> _queued = new();
    private int _running;

    /// <summary>Number of names that are being looked up or are queued.</summary>
    internal int Count
    {
        get
        {
            // tidy: allowed because it is for tests
            lock (_gate) return _lookups.Count;
        }
    }

    /// <summary>
    /// Looks the name up and calls <see cref="ILookupWaiter.LookupEnded"/> on the loop of the connect, unless it leaves
    /// before.
    /// </summary>
    internal HostLookup Ask(string host, ILookupWaiter waiter)
    {
        HostLookup? lookup;
        // tidy: allowed because it runs once for each name of a connect
        lock (_gate)
        {
            if (_lookups.TryGetValue(host, out lookup))
            {
                lookup.Waiting.Add(waiter);
                return lookup;
            }

            lookup = new HostLookup(this, host);
            lookup.Waiting.Add(waiter);
            _lookups.Add(host, lookup);
            if (_running == MaxRunning)
            {
                _queued.Enqueue(lookup);
                return lookup;
            }

            _running++;
        }

        engine.StartLookup(lookup);
        return lookup;
    }

    internal void Leave(HostLookup lookup, ILookupWaiter waiter)
    {
        // tidy: allowed because it runs once for each name of a connect
        lock (_gate) lookup.Waiting.Remove(waiter);
    }

    internal void Complete(HostLookup lookup)
    {
        ILookupWaiter[] waiting;
        HostLookup? next = null;
        // tidy: allowed because it runs once for each name that is looked up
        lock (_gate)
        {
            _lookups.Remove(lookup.Host);
            waiting = [.. lookup.Waiting];
            lookup.Waiting.Clear();
            // A queued lookup without waiters is skipped.
            while (next is null && _queued.TryDequeue(out HostLookup? queued))
            {
                if (queued.Waiting.Count > 0) next = queued;
                else _lookups.Remove(queued.Host);
            }

            if (next is null) _running--;
        }

        // A loop that has ended accepts no posts, and its connects have ended with it.
        foreach (ILookupWaiter waiter in waiting)
            waiter.Loop.PostControl(
                static (_, w, l, _) => ((ILookupWaiter)w!).LookupEnded((HostLookup)l!), waiter, lookup);
        if (next is not null) engine.StartLookup(next);
    }
}
