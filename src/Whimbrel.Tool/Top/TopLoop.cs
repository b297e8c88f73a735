namespace Whimbrel.Tool.Top;

/// <summary>A loop in a snapshot.</summary>
internal sealed record TopLoop
{
    public int Index { get; init; }

    public int Connections { get; init; }

    public long Turns { get; init; }

    public long EmptyTurns { get; init; }

    public long BlockedTurns { get; init; }

    public long Completions { get; init; }

    public long Wakes { get; init; }

    public long Receives { get; init; }

    public long BytesReceived { get; init; }

    public long Sends { get; init; }

    public long BytesSent { get; init; }

    public long BytesPending { get; init; }

    public int Timers { get; init; }

    public long BlockBytes { get; init; }

    public long EngineBytes { get; init; }

    /// <summary>Connections with TLS state in native memory.</summary>
    public int TlsConnections { get; init; }

    /// <summary>Time of the loop's thread on a cpu; null if the server's system does not report it.</summary>
    public long? CpuMs { get; init; }

    /// <summary>Callback that blocks the loop, or null.</summary>
    public string? Running { get; init; }
}
