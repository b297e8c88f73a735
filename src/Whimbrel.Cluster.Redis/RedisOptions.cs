namespace Whimbrel.Clusters;

/// <summary>Options of a <see cref="RedisBus"/>.</summary>
public sealed class RedisOptions
{
    /// <summary>
    /// User name for <see cref="Password"/>. Null (the default): that of the address, or the server's default user.
    /// </summary>
    public string? User { get; init; }

    /// <summary>Password. Null (the default): that of the address, or none.</summary>
    public string? Password { get; init; }

    /// <summary>
    /// TLS options; the connection starts with the handshake. Null (the default): no TLS; with a <c>rediss://</c>
    /// address TLS with the system's roots.
    /// </summary>
    public TlsOptions? Tls { get; init; }

    /// <summary>
    /// Prefix of channel names, for shared servers. Up to 64 ASCII letters, digits and <c>- _ . : { }</c>; the same on
    /// each node. Default <c>whimbrel:</c>.
    /// </summary>
    public string Prefix { get; init; } = "whimbrel:";

    /// <summary>
    /// Time limit for each of connecting and the answer to the login. 1 ms up to an hour; default 5 s.
    /// </summary>
    public TimeSpan ConnectTimeout { get; init; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// Interval of pings. After three intervals without receiving a byte, or without sending a queued one, the
    /// connection counts as lost. 100 ms up to a day; default 2 s.
    /// </summary>
    public TimeSpan PingInterval { get; init; } = TimeSpan.FromSeconds(2);

    /// <summary>
    /// Reconnect policy. The default: unlimited attempts, with delays of up to 0.1 s at first and up to 1 s later. The
    /// first connect is not retried, so that a wrong address is reported at start.
    /// </summary>
    public ReconnectPolicy Reconnect { get; init; } = new()
    {
        InitialDelay = TimeSpan.FromSeconds(0.1),
        MaxDelay = TimeSpan.FromSeconds(1),
        RetryFirstConnect = false
    };

    /// <summary>
    /// Called on the bus's loop with the text of a rejected request (permissions) or the reason of a failed reconnect,
    /// whenever it is new. Must not block. Null (the default): rejected requests are logged as diagnostic events of the
    /// engine.
    /// </summary>
    public Action<string>? OnTrouble { get; init; }

    internal void Check()
    {
        if (User is not null && Password is null) Refuse(nameof(Password), "given where there is a User");
        if (Prefix is not { Length: <= 64 }
            || !Prefix.All(static c => char.IsAsciiLetterOrDigit(c) || c is '-' or '_' or '.' or ':' or '{' or '}'))
            Refuse(nameof(Prefix), "up to 64 ASCII letters, digits and - _ . : { }");
        BrokerSettings.Check(nameof(RedisOptions), PingInterval, ConnectTimeout, Reconnect);
    }

    private static void Refuse(string name, string allowed) =>
        BrokerSettings.Refuse(nameof(RedisOptions), name, allowed);
}
