namespace Whimbrel.Kestrel;

/// <summary>How the transport of <see cref="WhimbrelWebHostExtensions.UseWhimbrel"/> accepts and serves connections. Read when the first end point is bound.</summary>
public sealed class WhimbrelTransportOptions
{
    /// <summary>The engine that serves all end points, shared with others and not disposed here. Null, the default: the transport makes one of <see cref="EngineOptions"/> and disposes it with the host.</summary>
    public Engine? Engine { get; set; }

    /// <summary>Of the engine that the transport makes: kind, loops, and so on. Null, the default: the best engine there is with a loop for each cpu, and its notices go to the log.</summary>
    public EngineOptions? EngineOptions { get; set; }

    /// <summary>
    /// Where the application goes on when bytes have come. <see cref="Whimbrel.Scheduling.ThreadPool"/>, the default: on the pool, where it may block.
    /// <see cref="Whimbrel.Scheduling.Inline"/>: on the connection's loop. That is quicker, and all code of the application that runs before its first await on something
    /// else must not block, or every connection of the loop stands still.
    /// </summary>
    public Scheduling Scheduling { get; set; } = Scheduling.ThreadPool;

    /// <summary>Connections that the system completes before they are accepted, for each end point. Default 4096; the system may allow less.</summary>
    public int Backlog { get; set; } = 4096;

    /// <summary>Small writes leave at once instead of waiting for more (TCP_NODELAY). Default true.</summary>
    public bool NoDelay { get; set; } = true;

    /// <summary>Most open connections of one end point: above it accepted ones are closed at once. From 1; default 100,000. Kestrel's own limits come on top.</summary>
    public int MaxConnections { get; set; } = 100_000;

    /// <summary>Received bytes of one connection that the application has not looked at: from here on its peer has to wait. 4 KiB to 1 GiB; default 1 MiB.</summary>
    public int MaxReadBufferBytes { get; set; } = 1024 * 1024;

    /// <summary>Sent bytes of one connection that its peer has not taken: from here on flushes wait. 4 KiB to 1 GiB; default 64 KiB.</summary>
    public int MaxWriteBufferBytes { get; set; } = 64 * 1024;

    /// <summary>How long a connection that was closed may take to send what is queued. 10 ms up to 1 h; default 5 s.</summary>
    public TimeSpan DrainTimeout { get; set; } = TimeSpan.FromSeconds(5);

    private const int LeastBuffer = 4 * 1024, MostBuffer = 1024 * 1024 * 1024, MostBacklog = 65_535, MostConnections = 10_000_000;

    private static readonly TimeSpan s_leastDrain = TimeSpan.FromMilliseconds(10);
    private static readonly TimeSpan s_mostDrain = TimeSpan.FromHours(1);

    /// <summary>Null, or all mistakes by the names that they have here: the core would name its own options, and one at a time.</summary>
    internal string? FindMistakes()
    {
        List<string> mistakes = [];
        if (Engine is not null && EngineOptions is not null) mistakes.Add("Engine and EngineOptions are both given: EngineOptions are for an engine that the transport makes");
        if (!Enum.IsDefined(Scheduling)) mistakes.Add($"Scheduling = {Scheduling}, allowed ThreadPool and Inline");
        Check(nameof(Backlog), Backlog, 1, MostBacklog);
        Check(nameof(MaxConnections), MaxConnections, 1, MostConnections);
        Check(nameof(MaxReadBufferBytes), MaxReadBufferBytes, LeastBuffer, MostBuffer);
        Check(nameof(MaxWriteBufferBytes), MaxWriteBufferBytes, LeastBuffer, MostBuffer);
        if (DrainTimeout < s_leastDrain || DrainTimeout > s_mostDrain) mistakes.Add($"DrainTimeout = {DrainTimeout}, allowed {s_leastDrain} to {s_mostDrain}");
        return mistakes.Count == 0 ? null : $"UseWhimbrel, WhimbrelTransportOptions: {string.Join("; ", mistakes)}.";

        void Check(string name, int value, int least, int most)
        {
            if (value < least || value > most) mistakes.Add($"{name} = {value}, allowed {least} to {most}");
        }
    }
}
