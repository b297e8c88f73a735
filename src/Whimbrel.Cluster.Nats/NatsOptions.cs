namespace Whimbrel.Clusters;

/// <summary>Options of a <see cref="NatsBus"/>.</summary>
public sealed class NatsOptions
{
    /// <summary>User name for <see cref="Password"/>. Null (the default): that of the address, or none.</summary>
    public string? User { get; init; }

    /// <summary>Password of <see cref="User"/>.</summary>
    public string? Password { get; init; }

    /// <summary>Token instead of a user. Null (the default): that of the address, or none.</summary>
    public string? Token { get; init; }

    /// <summary>
    /// TLS options. If set, a server without TLS is rejected before a password is sent. Null (the default): TLS if the
    /// server requires it, with the system's roots; always with a <c>tls://</c> address.
    /// </summary>
    public TlsOptions? Tls { get; init; }

    /// <summary>
    /// Time limit for each of connecting, the server's greeting, and an answer of JetStream. 1 ms up to an hour;
    /// default 5 s.
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
        if (Token is not null && User is not null) Refuse(nameof(Token), "left out where there is a User");
        if (Password is not null && User is null) Refuse(nameof(User), "given where there is a Password");
        BrokerSettings.Check(nameof(NatsOptions), PingInterval, ConnectTimeout, Reconnect);
    }

    private static void Refuse(string name, string allowed) =>
        BrokerSettings.Refuse(nameof(NatsOptions), name, allowed);
}
