namespace Whimbrel.Tool.Bench;

/// <summary>Moments at which the messages of one loop are due, at equal distances. A value.</summary>
/// <param name="BeginNs">Moment of message 0.</param>
/// <param name="IntervalNs">Distance of two messages.</param>
internal readonly record struct Schedule(long BeginNs, double IntervalNs)
{
    internal long DueOf(long number) => BeginNs + (long)(number * IntervalNs);

    /// <summary>Returns the moment of the first message that is due after <paramref name="now"/>.</summary>
    internal long NextAfter(long now)
    {
        if (now < BeginNs) return BeginNs;
        long number = (long)((now - BeginNs) / IntervalNs);
        // The division may be one off in either direction, because it rounds.
        while (DueOf(number) <= now) number++;
        return DueOf(number);
    }
}
