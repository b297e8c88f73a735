namespace Whimbrel.Tool;

/// <summary>Settings of <c>whimbrel serve</c>.</summary>
/// <param name="Kind">Kind of the server.</param>
/// <param name="Address">Listening address, in the library's form.</param>
/// <param name="Engine">Kind of the engine.</param>
/// <param name="Loops">Number of loops; 0 for one per core.</param>
/// <param name="Accept">One listener for all loops, or one per loop.</param>
/// <param name="Scheduling">Thread of the callbacks.</param>
/// <param name="Stats">True to print a line per second.</param>
/// <param name="Duration">Time after which the command ends, or null.</param>
/// <param name="Tls">TLS arguments, or null.</param>
/// <param name="Push">Settings for <see cref="ServeKind.Push"/>.</param>
/// <param name="Files">Folder to serve for <see cref="ServeKind.Http"/>, or null.</param>
internal sealed record ServeSettings(ServeKind Kind, string Address, EngineKind Engine, int Loops, AcceptScheme Accept,
    Scheduling Scheduling, bool Stats, TimeSpan? Duration, TlsArguments? Tls, PushSettings Push, string? Files = null)
{
    /// <summary>Path of the status socket, or null.</summary>
    internal string? StatusPath { get; init; }

    /// <summary>Port of the dashboard on this machine, 0 for a free one, or null for none.</summary>
    internal int? DashboardPort { get; init; }

    /// <summary>Path of the upgrade, or null.</summary>
    internal string? UpgradePath { get; init; }

    /// <summary>Time over which a stop asks the sessions to end.</summary>
    internal TimeSpan DrainWindow { get; init; }

    /// <summary>True to compress messages, for <see cref="ServeKind.Ws"/>.</summary>
    internal bool Deflates { get; init; }

    /// <summary>Broker address for <see cref="ServeKind.Chat"/>, or null for a room of this process.</summary>
    internal string? Cluster { get; init; }

    /// <summary>Name of this node in the cluster, or null for a random one.</summary>
    internal string? Node { get; init; }
}

/// <summary>Settings of <c>whimbrel serve push</c>.</summary>
/// <param name="Rate">Messages a second, or 0 for as many as possible.</param>
/// <param name="Size">Bytes per message.</param>
/// <param name="Batch">Messages per broadcast.</param>
internal readonly record struct PushSettings(long Rate, int Size, int Batch);
