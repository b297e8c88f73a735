namespace Whimbrel.Tool.Bench;

/// <summary>Settings of <c>whimbrel bench</c>.</summary>
/// <param name="Protocol">Protocol of the load.</param>
/// <param name="Address">Target: <c>tcp://</c>, <c>tls://</c>, <c>unix:</c>, <c>ws(s)://</c>, <c>http(s)://</c> or
/// <c>udp://</c>.</param>
internal sealed record BenchSettings(BenchProtocol Protocol, string Address)
{
    internal const int DefaultRate = 1000;
    internal const int DefaultInFlight = 100;
    internal const int MostConnections = 20_000;
    internal const int MostInFlight = 65_536;
    internal const int MostInFlightOfAll = 1 << 24;
    internal const int MostCells = 64;
    internal const int MostBytes = 1024 * 1024;

    /// <summary>Least size of a datagram, which begins with its number.</summary>
    internal const int LeastDatagramBytes = 16;

    internal EngineKind Engine { get; init; }

    internal int Loops { get; init; } = 1;

    internal TlsArguments? Tls { get; init; }

    /// <summary>Numbers of connections, each of which is measured with each rate.</summary>
    internal IReadOnlyList<int> Connections { get; init; } = [1];

    /// <summary>Messages a second over all connections. Not used by a closed loop.</summary>
    internal IReadOnlyList<int> Rates { get; init; } = [DefaultRate];

    /// <summary>Whether each answer is followed at once by the next message, instead of messages at their moments.
    /// </summary>
    internal bool IsClosed { get; init; }

    /// <summary>Maximum number of messages of a connection that have no answer yet.</summary>
    internal int InFlight { get; init; } = DefaultInFlight;

    internal int SizeBytes { get; init; } = 32;

    internal TimeSpan WarmUp { get; init; } = TimeSpan.FromSeconds(2);

    internal TimeSpan Duration { get; init; } = TimeSpan.FromSeconds(10);

    /// <summary>Wait for answers after the measured window; for a datagram, the time after which it is lost.</summary>
    internal TimeSpan Patience { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>File for the JSON report; "-" for stdout; null for none.</summary>
    internal string? JsonFile { get; init; }

    /// <summary>Process of the server, for its CPU time; 0 for none.</summary>
    internal int ServerPid { get; init; }

    /// <summary>Whether cells in which the driver was the limit are reported too.</summary>
    internal bool ReportsLimited { get; init; }
}
