namespace Whimbrel.Tool.Top;

/// <summary>A server in a snapshot.</summary>
internal sealed record TopServer
{
    public string?[] Addresses { get; init; } = [];

    public bool Tls { get; init; }

    public bool Accepting { get; init; }

    public DateTimeOffset StartedAt { get; init; }

    public int Sessions { get; init; }

    public long Accepted { get; init; }

    public long Rejected { get; init; }

    public long Refused { get; init; }

    public long Shed { get; init; }

    public long SlowConsumers { get; init; }

    public long BroadcastsDropped { get; init; }

    public long BytesReceived { get; init; }

    public long BytesSent { get; init; }

    public long MessagesReceived { get; init; }

    public long BytesPending { get; init; }

    public long TlsHandshakes { get; init; }

    public long TlsFailed { get; init; }

    public TopSlow[] Slowest { get; init; } = [];

    public int GroupCount { get; init; }

    /// <summary>The groups with the most members; null from an older server.</summary>
    public TopGroup?[]? Groups { get; init; }

    /// <summary>Number of connections that were closed at once.</summary>
    internal long TurnedAway => Rejected + Refused + Shed;

    /// <summary>True for the same start of the same server; only then a difference is meaningful.</summary>
    internal bool IsSame(TopServer other) =>
        StartedAt == other.StartedAt && Addresses.AsSpan().SequenceEqual(other.Addresses);
}

/// <summary>A session that reads slowly.</summary>
internal sealed record TopSlow
{
    public long Id { get; init; }

    public string? Peer { get; init; }

    public int Loop { get; init; }

    public long BytesPending { get; init; }

    public long LimitBytes { get; init; }
}

/// <summary>A group of a server.</summary>
internal sealed record TopGroup
{
    public string? Name { get; init; }

    public int Members { get; init; }
}
