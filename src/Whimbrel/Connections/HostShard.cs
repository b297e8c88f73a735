namespace Whimbrel.Connections;

/// <summary>A host's members and counts on one loop. Loop's thread writes, anybody reads.</summary>
internal sealed class HostShard(ConnectionHost host, Loop loop)
{
    internal readonly ConnectionHost Host = host;
    internal readonly Loop Loop = loop;
    internal readonly ConnectionOptions Options = host.Options;
    internal readonly GroupShard Members = host.Everyone.ShardOf(loop);
    internal readonly bool CountsSends = host.Options.CountSends;

    internal readonly TimeSpan DrainLimit = host.Options.DrainLimitOrDefault;

    /// <summary>The options have a limit of silence.</summary>
    internal readonly bool HasTimeouts = host.Options.IdleTimeout > TimeSpan.Zero || host.Options.ReceiveTimeout > TimeSpan.Zero || host.Options.SendTimeout > TimeSpan.Zero;
    internal long BytesReceived;
    internal long BytesSent;
    internal long MessagesReceived;
    internal long MessagesSent;

    /// <summary>What strands have sent themselves, besides. Any thread, by Interlocked.</summary>
    internal long BytesSentOfStrands;
    internal long MessagesSentOfStrands;
    internal long BroadcastsDropped;
    internal long Handshakes;
    internal long HandshakesResumed;
    internal long HandshakesFailed;

    /// <summary>Connections whose TLS handshake runs.</summary>
    internal readonly HashSet<Connection> Shaking = [];

    /// <summary>Those of them whose ClientHello has come.</summary>
    internal int Places;

    /// <summary>Those of them, accepted ones, whose ClientHello has not come.</summary>
    internal readonly SilentConnections Silent = new();

    /// <summary>Closed because more came behind them.</summary>
    internal long SilentClosed;
    internal long Opened; // read by a stop that passed its deadline
    internal long Closed;

    /// <summary>What a server that stops has still open at its deadline was reset here.</summary>
    internal volatile bool WasAborted;

    private Type? _lastType;
    private SessionHooks _lastHooks;

    /// <summary>The hooks of the session's class. Nearly always the same class as the last time.</summary>
    internal SessionHooks HooksOf(Session session)
    {
        Type type = session.GetType();
        if (!ReferenceEquals(type, _lastType))
        {
            _lastHooks = session.FindHooks();
            _lastType = type;
        }

        return _lastHooks;
    }
}
