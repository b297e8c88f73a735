namespace Whimbrel.Engines;

/// <summary>
/// The host names that an engine is looking up. The system's look-up blocks a thread and cannot be stopped, so: dials that
/// ask for the same name share one, at most <see cref="MaxRunning"/> run at a time and the others wait in the order in
/// which they came, and a dial that gives up leaves at once, whatever its look-up does. Nothing is remembered: how
/// long an answer is good is for the system to know. Any thread.
/// </summary>
internal sealed class Resolver(Engine engine)
{
    internal const int MaxRunning = 32;

    private readonly Lock _gate = new();
    private readonly Dictionary<string, HostLookup> _lookups = new(StringComparer.OrdinalIgnoreCase);
    private readonly Queue<HostLookup> _queued = new();
    private int _running;

    /// <summary>Names that are being looked up, or wait for it.</summary>
    internal int Count
    {
        get
        {
            // tidy: allowed because it is for tests
            lock (_gate) return _lookups.Count;
        }
    }

    /// <summary>Looks the name up and calls <see cref="ILookupWaiter.LookupEnded"/> on the loop of the attempt, unless it leaves before.</summary>
    internal HostLookup Ask(string host, ILookupWaiter dial)
    {
        HostLookup? lookup;
        // tidy: allowed because it runs once for each name of a dial
        lock (_gate)
        {
            if (_lookups.TryGetValue(host, out lookup))
            {
                lookup.Waiting.Add(dial);
                return lookup;
            }

            lookup = new HostLookup(this, host);
            lookup.Waiting.Add(dial);
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

    internal void Leave(HostLookup lookup, ILookupWaiter dial)
    {
        // tidy: allowed because it runs once for each name of a dial
        lock (_gate) lookup.Waiting.Remove(dial);
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
            // One that everybody has left is not asked any more.
            while (next is null && _queued.TryDequeue(out HostLookup? queued))
            {
                if (queued.Waiting.Count > 0) next = queued;
                else _lookups.Remove(queued.Host);
            }

            if (next is null) _running--;
        }

        // A loop that has ended takes no mail, and its dials have ended with it.
        foreach (ILookupWaiter dial in waiting) dial.Loop.PostControl(static (_, d, l, _) => ((ILookupWaiter)d!).LookupEnded((HostLookup)l!), dial, lookup);
        if (next is not null) engine.StartLookup(next);
    }
}
