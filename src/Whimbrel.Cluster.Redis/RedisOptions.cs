namespace Whimbrel.Clusters;

/// <summary>How a bus speaks to Redis servers.</summary>
public sealed class RedisOptions
{
    /// <summary>User name, with <see cref="Password"/>. Null (the default): as in the address, or the server's default user.</summary>
    public string? User { get; init; }

    /// <summary>Password. Null (the default): as in the address, or none.</summary>
    public string? Password { get; init; }

    /// <summary>How to speak TLS, which then comes first. Null (the default): none; with a <c>rediss://</c> address TLS by the system's roots.</summary>
    public TlsOptions? Tls { get; init; }

    /// <summary>Before the name of each channel, for servers that others use too. Up to 64 ASCII letters, digits and <c>- _ . : { }</c>; the same on each node. Default <c>whimbrel:</c>.</summary>
    public string Prefix { get; init; } = "whimbrel:";

    /// <summary>Longest time for reaching the server, and again for its answer to the login. 1 ms up to an hour; default 5 s.</summary>
    public TimeSpan ConnectTimeout { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>How often the server is asked whether it is there. After three times that without a byte, or without taking one of what waits for it, it counts as lost. 100 ms up to a day; default 2 s.</summary>
    public TimeSpan PingInterval { get; init; } = TimeSpan.FromSeconds(2);

    /// <summary>When a lost server is dialled again. The default: without end, after up to 0.1 s at first and up to 1 s later; and the first time not at all, so that who starts with a wrong address hears of it.</summary>
    public ReconnectPolicy Reconnect { get; init; } = new() { InitialDelay = TimeSpan.FromSeconds(0.1), MaxDelay = TimeSpan.FromSeconds(1), RetryFirstConnect = false };

    /// <summary>
    /// Called on the bus's loop with what the server refuses (permissions), and with why it cannot be reached again, whenever that is something new. Must not block. Null (the
    /// default): what is refused is a notice of the engine.
    /// </summary>
    public Action<string>? OnTrouble { get; init; }

    internal void Check()
    {
        if (User is not null && Password is null) Refuse(nameof(Password), "given where there is a User");
        if (Prefix is not { Length: <= 64 } || !Prefix.All(static c => char.IsAsciiLetterOrDigit(c) || c is '-' or '_' or '.' or ':' or '{' or '}')) Refuse(nameof(Prefix), "up to 64 ASCII letters, digits and - _ . : { }");
        BrokerSettings.Check(nameof(RedisOptions), PingInterval, ConnectTimeout, Reconnect);
    }

    private static void Refuse(string name, string allowed) => BrokerSettings.Refuse(nameof(RedisOptions), name, allowed);
}
