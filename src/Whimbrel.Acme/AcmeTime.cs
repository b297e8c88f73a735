namespace Whimbrel.Acme;

/// <summary>
/// Times of renewals and retries. Pure: the current time and the random share are arguments. Wall-clock time, because
/// certificates have calendar dates.
/// </summary>
internal static class AcmeTime
{
    /// <summary>Width of the renewal window without advice of the authority, as a part of the lifetime.</summary>
    private const double Jitter = 0.04;

    internal static DateTimeOffset Now => TimeProvider.System.GetUtcNow();

    /// <summary>
    /// Returns the time of the renewal: two thirds of the lifetime, earlier or later by up to 2 % of it.
    /// </summary>
    /// <param name="from">Start of the validity.</param>
    /// <param name="to">End of the validity.</param>
    /// <param name="share">Random number from 0 to 1, kept for one certificate.</param>
    internal static DateTimeOffset RenewalOf(DateTimeOffset from, DateTimeOffset to, double share) =>
        from + (to - from) * (2.0 / 3 + (share - 0.5) * Jitter);

    /// <summary>Returns the random time in a window that the authority suggests (RFC 9773, 4.2).</summary>
    /// <param name="start">Start of the window.</param>
    /// <param name="end">End of the window; after its start.</param>
    /// <param name="share">Random number from 0 to 1, kept for one certificate.</param>
    internal static DateTimeOffset InWindow(DateTimeOffset start, DateTimeOffset end, double share) =>
        start + (end - start) * share;

    /// <summary>
    /// Returns the pause after so many failures in a row: doubled with each, and up to a quarter longer.
    /// </summary>
    /// <param name="failures">Number of failures, from 1.</param>
    /// <param name="least">Pause after the first.</param>
    /// <param name="most">Maximum, before the random part.</param>
    /// <param name="asked">Pause that the authority asked for, or null.</param>
    /// <param name="share">Random number from 0 to 1.</param>
    internal static TimeSpan PauseAfter(int failures, TimeSpan least, TimeSpan most, TimeSpan? asked, double share)
    {
        TimeSpan pause = least * Math.Pow(2, Math.Min(failures - 1, 30));
        pause = (pause > most ? most : pause) * (1 + share / 4);
        return asked > pause ? Less(asked.Value, MostPause(most)) : pause;
    }

    /// <summary>Returns the longest pause that is possible: an authority may ask for two days.</summary>
    internal static TimeSpan MostPause(TimeSpan most) =>
        most * 1.25 > TimeSpan.FromDays(2) ? most * 1.25 : TimeSpan.FromDays(2);

    internal static TimeSpan Less(TimeSpan one, TimeSpan other) => one < other ? one : other;

    /// <summary>Returns a time within limits: for values of the authority.</summary>
    internal static TimeSpan Within(TimeSpan time, TimeSpan least, TimeSpan most) =>
        time < least ? least : time > most ? most : time;
}
