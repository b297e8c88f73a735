using System.Net;

namespace Whimbrel.Clusters;

/// <summary>Settings of a bus for its connections to a broker.</summary>
internal sealed record BrokerSettings
{
    /// <summary>Name of the broker for messages, without passwords.</summary>
    internal required string Description { get; init; }

    /// <summary>Class name of the bus's options, for messages.</summary>
    internal required string OptionsName { get; init; }

    /// <summary>Servers in the order of the connection attempts.</summary>
    internal required IReadOnlyList<EndPoint> Servers { get; init; }

    /// <summary>Options for TLS from the first byte, or null.</summary>
    internal TlsOptions? Tls { get; init; }

    internal required TimeSpan ConnectTimeout { get; init; }

    internal required TimeSpan PingInterval { get; init; }

    internal required ReconnectPolicy Reconnect { get; init; }

    internal required Action<string>? OnTrouble { get; init; }

    /// <summary>Maximum number of protocol bytes around a received envelope.</summary>
    internal required int MostAroundEnvelope { get; init; }

    /// <summary>Checks the ranges of the common options.</summary>
    internal static void Check(string optionsName, TimeSpan pingInterval, TimeSpan connectTimeout,
        ReconnectPolicy reconnect)
    {
        if (pingInterval < TimeSpan.FromMilliseconds(100) || pingInterval > TimeSpan.FromDays(1))
            Refuse(optionsName, "PingInterval", "100 ms up to a day");
        if (connectTimeout < TimeSpan.FromMilliseconds(1) || connectTimeout > TimeSpan.FromHours(1))
            Refuse(optionsName, "ConnectTimeout", "1 ms up to an hour");
        ArgumentNullException.ThrowIfNull(reconnect);
    }

    internal static void Refuse(string optionsName, string name, string allowed) =>
        throw new ArgumentException($"{optionsName}.{name} has to be {allowed}.", name);

    /// <summary>Returns host and port of an address.</summary>
    internal static (EndPoint Server, string Text) PlaceOf(Uri uri, int defaultPort)
    {
        string text = $"{(uri.HostNameType == UriHostNameType.IPv6 ? $"[{uri.IdnHost}]" : uri.IdnHost)}:"
            + $"{(uri.Port < 0 ? defaultPort : uri.Port)}";
        if (!NetworkAddress.TryParse($"tcp://{text}", out NetworkAddress? server, out string? mistake))
            throw Wrong(mistake);
        return (server.ToEndPoint(), text);
    }

    internal static ArgumentException Wrong(string why, string parameter = "address") =>
        new($"The address of the broker is wrong: {why}.", parameter);
}
