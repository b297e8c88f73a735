namespace Whimbrel.Hosting;

/// <summary>Whether a count has grown of late, asked from time to time, by several askers at once perhaps: one does not take the news from another. Any thread.</summary>
internal sealed class News(TimeProvider clock)
{
    internal static readonly TimeSpan Memory = TimeSpan.FromSeconds(10);

    private readonly Lock _gate = new();
    private long _seen;
    private long? _at;

    internal bool Look(long count)
    {
        lock (_gate)
        {
            long now = clock.GetTimestamp();
            // Counts begin anew with each start.
            if (count > _seen) _at = now;
            _seen = count;
            return _at is { } then && clock.GetElapsedTime(then, now) < Memory;
        }
    }
}
