using Whimbrel.Http;

namespace Whimbrel.Hosting;

/// <summary>Registration of a server.</summary>
/// <param name="Name">Name of the server and of its section.</param>
/// <param name="Options">Options in code; null for the defaults.</param>
/// <param name="Make">Factory of the server, called with valid options.</param>
/// <param name="LimitsSessions">
/// Whether the sessions are created here, so that time limits of a reload can be set on them.
/// </param>
/// <param name="HttpOptions">HTTP options in code, which the section Http overrides. Null for other servers.</param>
internal sealed record ServerRegistration(string Name, Func<IServiceProvider, ServerOptions>? Options,
    Func<HostedServer, ServerOptions, Server> Make, bool LimitsSessions,
    Func<IServiceProvider, HttpOptions>? HttpOptions = null)
{
    /// <summary>
    /// Returns mistakes of the session type's constructor; null for servers that create their sessions themselves.
    /// </summary>
    internal Func<IServiceProvider, IEnumerable<string>>? FindMistakes { get; init; }

    /// <summary>Returns whether a change of this option applies while the server runs.</summary>
    internal bool IsLive(string key) => key.Equals("Limits:Connections", StringComparison.OrdinalIgnoreCase)
        || (LimitsSessions && (key.Equals("Timeouts:Idle", StringComparison.OrdinalIgnoreCase)
            || key.Equals("Timeouts:Receive", StringComparison.OrdinalIgnoreCase)
            || key.Equals("Timeouts:Send", StringComparison.OrdinalIgnoreCase)));
}
