namespace Whimbrel.Hosting;

/// <summary>
/// Detects whether a counter has grown in the last 10 s. Several callers may ask independently. Thread-safe.
/// </summary>
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
            // Counters restart with each start of the server.
            if (count > _seen) _at = now;
            _seen = count;
            return _at is { } then && clock.GetElapsedTime(then, now) < Memory;
        }
    }
}
