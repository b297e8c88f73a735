namespace Whimbrel.Connections;

/// <summary>
/// The strands of one loop whose running callbacks have sent something that waits for their return. A broadcast of another thread asks for it first: the flow of control that makes
/// it may come from one of those callbacks (contract 7, docs/design/0066). Any thread; nobody waits.
/// </summary>
internal sealed class GatheringStrands
{
    private const int Places = 32;
    private const int Tries = 4;

    private readonly Strand?[] _places = new Strand?[Places];
    private bool _wasEverUsed;

    /// <summary>How many are noted now. Zero when no callback runs.</summary>
    internal int Count => Places - _places.AsSpan().Count((Strand?)null);

    /// <summary>Where it is noted, for <see cref="Leave"/>. Negative: so many callbacks run that there is no place, and what it sends leaves at once.</summary>
    internal int Enter(Strand strand)
    {
        if (!_wasEverUsed) Volatile.Write(ref _wasEverUsed, true);
        int first = Environment.CurrentManagedThreadId;
        for (int i = 0; i < Tries; i++)
        {
            int place = (first + i) % Places;
            if (_places[place] is null && Interlocked.CompareExchange(ref _places[place], strand, null) is null) return place;
        }

        return -1;
    }

    /// <summary>What it had gathered has left.</summary>
    internal void Leave(int place) => Volatile.Write(ref _places[place], null);

    /// <summary>What was sent before goes to the loop now.</summary>
    internal void Post()
    {
        if (!Volatile.Read(ref _wasEverUsed)) return;
        for (int i = 0; i < Places; i++) Volatile.Read(ref _places[i])?.PostGathered();
    }
}
