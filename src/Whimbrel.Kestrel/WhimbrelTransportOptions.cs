namespace Whimbrel.Kestrel;

/// <summary>
/// Options of the transport of <see cref="WhimbrelWebHostExtensions.UseWhimbrel"/>. Read when the first end point is
/// bound.
/// </summary>
public sealed class WhimbrelTransportOptions
{
    /// <summary>
    /// Shared engine for all end points, not disposed by the transport. Null (the default): the transport creates one
    /// from <see cref="EngineOptions"/> and disposes it with the host.
    /// </summary>
    public Engine? Engine { get; set; }

    /// <summary>
    /// Options of the engine that the transport creates. Null (the default): the best available engine with one loop
    /// per CPU, with its diagnostic events in the log.
    /// </summary>
    public EngineOptions? EngineOptions { get; set; }

    /// <summary>
    /// Thread on which the application resumes after receiving bytes. <see cref="Whimbrel.Scheduling.ThreadPool"/> (the
    /// default): the thread pool, where it may block. <see cref="Whimbrel.Scheduling.Inline"/>: the connection's loop,
    /// which is faster. Application code up to its first await of something else must then not block, because it would
    /// block every connection of the loop.
    /// </summary>
    public Scheduling Scheduling { get; set; } = Scheduling.ThreadPool;

    /// <summary>
    /// Maximum number of connections per end point that the system completes before they are accepted. 1 to 65,535;
    /// default 4096; the system may allow less.
    /// </summary>
    public int Backlog { get; set; } = 4096;

    /// <summary>Whether small writes are sent at once (TCP_NODELAY). Default true.</summary>
    public bool NoDelay { get; set; } = true;

    /// <summary>
    /// Maximum number of open connections per end point; further ones are closed at once. 1 to 10,000,000; default
    /// 100,000. Kestrel's own limits apply in addition.
    /// </summary>
    public int MaxConnections { get; set; } = 100_000;

    /// <summary>
    /// Number of received, unread bytes at which a connection is no longer read. 4 KiB to 1 GiB; default 1 MiB.
    /// </summary>
    public int MaxReadBufferBytes { get; set; } = 1024 * 1024;

    /// <summary>Number of unsent bytes of a connection at which flushes wait. 4 KiB to 1 GiB; default 64 KiB.</summary>
    public int MaxWriteBufferBytes { get; set; } = 64 * 1024;

    /// <summary>Time limit for sending queued data after a close. 10 ms up to 1 h; default 5 s.</summary>
    public TimeSpan DrainTimeout { get; set; } = TimeSpan.FromSeconds(5);

    private const int LeastBuffer = 4 * 1024, MostBuffer = 1024 * 1024 * 1024, MostBacklog = 65_535,
        MostConnections = 10_000_000;

    private static readonly TimeSpan s_leastDrain = TimeSpan.FromMilliseconds(10);
    private static readonly TimeSpan s_mostDrain = TimeSpan.FromHours(1);

    /// <summary>
    /// Returns null or all mistakes, with the names of these options. The core would use its own names and report one
    /// at a time.
    /// </summary>
    internal string? FindMistakes()
    {
        List<string> mistakes = [];
        if (Engine is not null && EngineOptions is not null)
            mistakes.Add(
                "Engine and EngineOptions are both given: EngineOptions are for an engine that the transport makes");
        if (!Enum.IsDefined(Scheduling)) mistakes.Add($"Scheduling = {Scheduling}, allowed ThreadPool and Inline");
        Check(nameof(Backlog), Backlog, 1, MostBacklog);
        Check(nameof(MaxConnections), MaxConnections, 1, MostConnections);
        Check(nameof(MaxReadBufferBytes), MaxReadBufferBytes, LeastBuffer, MostBuffer);
        Check(nameof(MaxWriteBufferBytes), MaxWriteBufferBytes, LeastBuffer, MostBuffer);
        if (DrainTimeout < s_leastDrain || DrainTimeout > s_mostDrain)
            mistakes.Add($"DrainTimeout = {DrainTimeout}, allowed {s_leastDrain} to {s_mostDrain}");
        return mistakes.Count == 0 ? null : $"UseWhimbrel, WhimbrelTransportOptions: {string.Join("; ", mistakes)}.";

        void Check(string name, int value, int least, int most)
        {
            if (value < least || value > most) mistakes.Add($"{name} = {value}, allowed {least} to {most}");
        }
    }
}
