using RabbitMQ.Client;

namespace Whimbrel.Clusters;

/// <summary>Options of a <see cref="RabbitMqBus"/>.</summary>
public sealed class RabbitMqOptions
{
    /// <summary>
    /// User name for <see cref="Password"/>. Null (the default): that of the address, or <c>guest</c>, which servers
    /// accept from their own machine only.
    /// </summary>
    public string? User { get; init; }

    /// <summary>Password. Null (the default): that of the address, or <c>guest</c>.</summary>
    public string? Password { get; init; }

    /// <summary>
    /// TLS options of the official client; <c>ServerName</c> is optional. Null (the default): no TLS; with an
    /// <c>amqps://</c> address TLS with the system's roots.
    /// </summary>
    public SslOption? Tls { get; init; }

    /// <summary>
    /// Name of the exchange, and prefix of the queue names. Up to 64 ASCII letters, digits and <c>- _ . :</c>; the same
    /// on each node. Default <c>whimbrel</c>. A missing exchange is created: direct and not durable.
    /// </summary>
    public string Exchange { get; init; } = "whimbrel";

    /// <summary>Time limit for each of connecting and the server's answers. 1 ms up to an hour; default 5 s.</summary>
    public TimeSpan ConnectTimeout { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// Time of silence after which the server counts as lost, and likewise the node for the server. 1 s up to an hour,
    /// in whole seconds; default 6 s.
    /// </summary>
    public TimeSpan Heartbeat { get; init; } = TimeSpan.FromSeconds(6);

    /// <summary>
    /// Reconnect policy, of which only delays, factor and jitter are used. The default: unlimited attempts, with delays
    /// of up to 0.1 s at first and up to 1 s later. The first connect is not retried, so that a wrong address is
    /// reported at start.
    /// </summary>
    public ReconnectPolicy Reconnect { get; init; } = new()
    {
        InitialDelay = TimeSpan.FromSeconds(0.1),
        MaxDelay = TimeSpan.FromSeconds(1),
        RetryFirstConnect = false
    };

    /// <summary>
    /// Called on the thread pool with the reason of a failed reconnect, whenever it is new. Exceptions are logged as
    /// diagnostic events. Null (the default): not reported.
    /// </summary>
    public Action<string>? OnTrouble { get; init; }

    internal void Check()
    {
        if (User is null != Password is null) Refuse(nameof(Password), "given where there is a User, and only there");
        if (Exchange is not { Length: >= 1 and <= 64 }
            || !Exchange.All(static c => char.IsAsciiLetterOrDigit(c) || c is '-' or '_' or '.' or ':'))
            Refuse(nameof(Exchange), "1 to 64 ASCII letters, digits and - _ . :");
        if (Heartbeat < TimeSpan.FromSeconds(1) || Heartbeat > TimeSpan.FromHours(1))
            Refuse(nameof(Heartbeat), "1 s up to an hour");
        BrokerSettings.Check(nameof(RabbitMqOptions), Heartbeat, ConnectTimeout, Reconnect);
    }

    private static void Refuse(string name, string allowed) =>
        BrokerSettings.Refuse(nameof(RabbitMqOptions), name, allowed);
}
