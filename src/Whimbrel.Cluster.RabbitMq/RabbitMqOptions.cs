using RabbitMQ.Client;

namespace Whimbrel.Clusters;

/// <summary>How a bus speaks to RabbitMQ servers.</summary>
public sealed class RabbitMqOptions
{
    /// <summary>User name, with <see cref="Password"/>. Null (the default): as in the address, or <c>guest</c>, which servers take from their own machine only.</summary>
    public string? User { get; init; }

    /// <summary>Password. Null (the default): as in the address, or <c>guest</c>.</summary>
    public string? Password { get; init; }

    /// <summary>How to speak TLS, as the official client has it; its <c>ServerName</c> may be left out. Null (the default): none; with an <c>amqps://</c> address TLS by the system's roots.</summary>
    public SslOption? Tls { get; init; }

    /// <summary>
    /// The exchange over which nodes speak, and what the names of their queues begin with. Up to 64 ASCII letters, digits and <c>- _ . :</c>; the same on each node. Default <c>whimbrel</c>. It is made
    /// where it is not there: direct, and gone with the server.
    /// </summary>
    public string Exchange { get; init; } = "whimbrel";

    /// <summary>Longest time for reaching the server, and again for each of its answers. 1 ms up to an hour; default 5 s.</summary>
    public TimeSpan ConnectTimeout { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>A server that says nothing for so long counts as lost; the server thinks the same of the node. 1 s up to an hour, in whole seconds; default 6 s.</summary>
    public TimeSpan Heartbeat { get; init; } = TimeSpan.FromSeconds(6);

    /// <summary>
    /// When a lost server is dialled again: delays, factor and jitter of it hold, all else does not. The default: without end, after up to 0.1 s at first and up to 1 s later; and the first time not at
    /// all, so that who starts with a wrong address hears of it.
    /// </summary>
    public ReconnectPolicy Reconnect { get; init; } = new() { InitialDelay = TimeSpan.FromSeconds(0.1), MaxDelay = TimeSpan.FromSeconds(1), RetryFirstConnect = false };

    /// <summary>Called with why a lost server cannot be reached again, whenever that is something new. On a thread of the pool. What it throws is reported by a notice. Null: not reported.</summary>
    public Action<string>? OnTrouble { get; init; }

    internal void Check()
    {
        if (User is null != Password is null) Refuse(nameof(Password), "given where there is a User, and only there");
        if (Exchange is not { Length: >= 1 and <= 64 } || !Exchange.All(static c => char.IsAsciiLetterOrDigit(c) || c is '-' or '_' or '.' or ':')) Refuse(nameof(Exchange), "1 to 64 ASCII letters, digits and - _ . :");
        if (Heartbeat < TimeSpan.FromSeconds(1) || Heartbeat > TimeSpan.FromHours(1)) Refuse(nameof(Heartbeat), "1 s up to an hour");
        BrokerSettings.Check(nameof(RabbitMqOptions), Heartbeat, ConnectTimeout, Reconnect);
    }

    private static void Refuse(string name, string allowed) => BrokerSettings.Refuse(nameof(RabbitMqOptions), name, allowed);
}
