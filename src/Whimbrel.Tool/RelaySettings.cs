using Whimbrel.Relays;

namespace Whimbrel.Tool;

/// <summary>Settings of <c>whimbrel relay</c>.</summary>
/// <param name="Address">Where to listen.</param>
/// <param name="Targets">Where to pass on to.</param>
/// <param name="TargetTls">Of the targets, which are tls:// then, or null.</param>
/// <param name="CheckEvery">How often they are asked whether they can be reached; infinite for never.</param>
/// <param name="Header">What targets get in front of everything.</param>
/// <param name="Proxies">The networks of proxies in front, or null when clients come by themselves.</param>
/// <param name="Tls">Of the clients, or null.</param>
/// <param name="Engine">Which engine.</param>
/// <param name="Loops">How many loops; 0 is one for each core.</param>
/// <param name="Stats">A line a second.</param>
/// <param name="Duration">Ends by itself after this time, or null.</param>
internal sealed record RelaySettings(
    string Address, string[] Targets, TlsArguments? TargetTls, TimeSpan CheckEvery, ProxyHeaderForm Header, string[]? Proxies, TlsArguments? Tls, EngineKind Engine, int Loops, bool Stats, TimeSpan? Duration)
{
    /// <summary>Where <c>whimbrel top</c> may ask, or null.</summary>
    internal string? StatusPath { get; init; }
}
