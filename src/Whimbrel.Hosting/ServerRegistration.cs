using Whimbrel.Http;

namespace Whimbrel.Hosting;

/// <summary>What the program said about one server.</summary>
/// <param name="Name">Of the server, and of its section.</param>
/// <param name="Options">What the program gives; null for the defaults.</param>
/// <param name="Make">Makes the server, with options that have no mistakes.</param>
/// <param name="LimitsSessions">Its sessions are made here, so that they can be given the time limits of a reload.</param>
/// <param name="HttpOptions">For a server of HTTP: what the program gives, over which the section Http is read. Null for all others.</param>
internal sealed record ServerRegistration(string Name, Func<IServiceProvider, ServerOptions>? Options, Func<HostedServer, ServerOptions, Server> Make, bool LimitsSessions, Func<IServiceProvider, HttpOptions>? HttpOptions = null)
{
    /// <summary>What the program's types lack, beside the options; null for servers that make their sessions themselves.</summary>
    internal Func<IServiceProvider, IEnumerable<string>>? FindMistakes { get; init; }

    /// <summary>Whether a change of this option counts while the server runs.</summary>
    internal bool IsLive(string key) =>
        key.Equals(nameof(ServerOptions.MaxConnections), StringComparison.OrdinalIgnoreCase)
        || (LimitsSessions && (key.Equals(nameof(ServerOptions.IdleTimeout), StringComparison.OrdinalIgnoreCase)
            || key.Equals(nameof(ServerOptions.ReceiveTimeout), StringComparison.OrdinalIgnoreCase)
            || key.Equals(nameof(ServerOptions.SendTimeout), StringComparison.OrdinalIgnoreCase)));
}
