namespace Whimbrel.Tool.Bench;

/// <summary>
/// Messages of one connection without an answer: when each was due and when it was sent. Numbers count up; a message
/// may be taken out of order. Never holds more than its limit.
/// </summary>
internal sealed class InFlight(int limit)
{
    private const int FirstPlaces = 4;

    // Sent == 0 marks a free place. Moments of a monotonic clock are above 0.
    private (long Due, long Sent)[] _places = new (long, long)[FirstPlaces];

    /// <summary>Number of the oldest message that was not taken.</summary>
    internal long Oldest { get; private set; }

    /// <summary>Number of the next message.</summary>
    internal long Next { get; private set; }

    internal bool IsEmpty => Oldest == Next;

    internal bool IsFull => Next - Oldest == limit;

    internal void Add(long dueNs, long sentNs)
    {
        if (Next - Oldest == _places.Length) Grow();
        PlaceOf(Next) = (dueNs, sentNs);
        Next++;
    }

    /// <summary>Takes a message out. Returns false if it was taken before, or never added.</summary>
    internal bool TryTake(long number, out long dueNs, out long sentNs)
    {
        (dueNs, sentNs) = (0, 0);
        if (number < Oldest || number >= Next) return false;
        (dueNs, sentNs) = PlaceOf(number);
        if (sentNs == 0) return false;
        PlaceOf(number) = default;
        while (Oldest < Next && PlaceOf(Oldest).Sent == 0) Oldest++;
        return true;
    }

    /// <summary>Whether the oldest message was sent at this moment or before.</summary>
    internal bool IsOldestFrom(long sentNs) => !IsEmpty && PlaceOf(Oldest).Sent <= sentNs;

    private void Grow()
    {
        (long, long)[] larger = new (long, long)[_places.Length * 2];
        for (long number = Oldest; number < Next; number++) larger[number & (larger.Length - 1)] = PlaceOf(number);
        _places = larger;
    }

    private ref (long Due, long Sent) PlaceOf(long number) => ref _places[number & (_places.Length - 1)];
}
