using Whimbrel.Relays;

namespace Whimbrel.Tool;

/// <summary>Settings of <c>whimbrel relay</c>.</summary>
/// <param name="Address">Listening address.</param>
/// <param name="Targets">Target addresses.</param>
/// <param name="TargetTls">TLS options for tls:// targets, or null.</param>
/// <param name="CheckEvery">Interval of health checks; infinite for none.</param>
/// <param name="Header">PROXY header for targets, or none.</param>
/// <param name="Proxies">Networks of trusted proxies, or null if clients connect directly.</param>
/// <param name="Tls">TLS options for clients, or null.</param>
/// <param name="Engine">Kind of the engine.</param>
/// <param name="Loops">Number of loops; 0 for one per core.</param>
/// <param name="Stats">True to print a line per second.</param>
/// <param name="Duration">Time after which the command ends, or null.</param>
internal sealed record RelaySettings(
    string Address, string[] Targets, TlsArguments? TargetTls, TimeSpan CheckEvery, ProxyHeaderForm Header,
    string[]? Proxies, TlsArguments? Tls, EngineKind Engine, int Loops, bool Stats, TimeSpan? Duration)
{
    /// <summary>Path of the status socket, or null.</summary>
    internal string? StatusPath { get; init; }
}
