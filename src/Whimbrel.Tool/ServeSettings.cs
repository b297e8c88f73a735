namespace Whimbrel.Tool;

/// <summary>What <c>whimbrel serve</c> was asked for.</summary>
/// <param name="Kind">What to do with peers.</param>
/// <param name="Address">Where to listen, in the one form of an address.</param>
/// <param name="Engine">Which engine.</param>
/// <param name="Loops">Number of loops; 0 for one per core.</param>
/// <param name="Accept">One listener for all loops, or one for each.</param>
/// <param name="Scheduling">Where callbacks run.</param>
/// <param name="Stats">Print a line a second.</param>
/// <param name="Duration">End by itself after this time, or null.</param>
/// <param name="Tls">What the command line says about TLS, or null for none.</param>
/// <param name="Push">What to push, for <see cref="ServeKind.Push"/>.</param>
/// <param name="Files">The folder to serve, for <see cref="ServeKind.Http"/>, or null.</param>
internal sealed record ServeSettings(ServeKind Kind, string Address, EngineKind Engine, int Loops, AcceptScheme Accept, Scheduling Scheduling, bool Stats, TimeSpan? Duration, TlsArguments? Tls, PushSettings Push, string? Files = null)
{
    /// <summary>Where <c>whimbrel top</c> may ask, or null.</summary>
    internal string? StatusPath { get; init; }

    /// <summary>Compress messages, for <see cref="ServeKind.Ws"/>.</summary>
    internal bool Deflates { get; init; }

    /// <summary>The broker of the cluster, for <see cref="ServeKind.Chat"/>, or null for a room of this process.</summary>
    internal string? Cluster { get; init; }

    /// <summary>Name of this node in the cluster, or null for one of chance.</summary>
    internal string? Node { get; init; }
}

/// <summary>What <c>whimbrel serve push</c> sends.</summary>
/// <param name="Rate">Messages a second, or 0 for as many as go.</param>
/// <param name="Size">Bytes of a message.</param>
/// <param name="Batch">Messages in one broadcast.</param>
internal readonly record struct PushSettings(long Rate, int Size, int Batch);
