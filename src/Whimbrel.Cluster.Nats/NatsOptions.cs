namespace Whimbrel.Clusters;

/// <summary>How a bus speaks to NATS servers.</summary>
public sealed class NatsOptions
{
    /// <summary>User name, with <see cref="Password"/>. Null (the default): as in the address, or none.</summary>
    public string? User { get; init; }

    /// <summary>Password of <see cref="User"/>.</summary>
    public string? Password { get; init; }

    /// <summary>Token, instead of a user. Null (the default): as in the address, or none.</summary>
    public string? Token { get; init; }

    /// <summary>
    /// How to speak TLS. With it a server that offers none is refused before it has heard a password. Null (the default): what the server wants, by the system's roots; with a
    /// <c>tls://</c> address TLS in any case.
    /// </summary>
    public TlsOptions? Tls { get; init; }

    /// <summary>Longest time for reaching the server, again for its greeting, and for an answer of JetStream. 1 ms up to an hour; default 5 s.</summary>
    public TimeSpan ConnectTimeout { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>How often the server is asked whether it is there. After three times that without a byte, or without taking one of what waits for it, it counts as lost. 100 ms up to a day; default 2 s.</summary>
    public TimeSpan PingInterval { get; init; } = TimeSpan.FromSeconds(2);

    /// <summary>
    /// When a lost server is dialled again. The default: without end, after up to 0.1 s at first and up to 1 s later; and the first time not
    /// at all, so that who starts with a wrong address hears of it.
    /// </summary>
    public ReconnectPolicy Reconnect { get; init; } = new() { InitialDelay = TimeSpan.FromSeconds(0.1), MaxDelay = TimeSpan.FromSeconds(1), RetryFirstConnect = false };

    /// <summary>
    /// Called on the bus's loop with what the server refuses (permissions), and with why it cannot be reached again, whenever that is something new. Must not block. Null (the
    /// default): what is refused is a notice of the engine.
    /// </summary>
    public Action<string>? OnTrouble { get; init; }

    internal void Check()
    {
        if (Token is not null && User is not null) Refuse(nameof(Token), "left out where there is a User");
        if (Password is not null && User is null) Refuse(nameof(User), "given where there is a Password");
        BrokerSettings.Check(nameof(NatsOptions), PingInterval, ConnectTimeout, Reconnect);
    }

    private static void Refuse(string name, string allowed) => BrokerSettings.Refuse(nameof(NatsOptions), name, allowed);
}
