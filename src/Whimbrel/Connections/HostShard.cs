namespace Whimbrel.Connections;

/// <summary>Members and counters of a host on one loop. Written by the loop's thread, read by any thread.</summary>
internal sealed class HostShard(ConnectionHost host, Loop loop)
{
    internal readonly ConnectionHost Host = host;
    internal readonly Loop Loop = loop;
    internal readonly ConnectionOptions Options = host.Options;
    internal readonly GroupShard Members = host.Everyone.ShardOf(loop);
    internal readonly bool CountsSends = host.Options.CountSends;

    internal readonly TimeSpan DrainLimit = host.Options.CommonTimeouts.DrainTotalOrDefault;

    /// <summary>True if the options have an idle, receive or send timeout.</summary>
    internal readonly bool HasTimeouts = host.Options.CommonTimeouts.Idle > TimeSpan.Zero
        || host.Options.CommonTimeouts.Receive > TimeSpan.Zero || host.Options.CommonTimeouts.Send > TimeSpan.Zero;
    internal long BytesReceived;
    internal long BytesSent;
    internal long MessagesReceived;
    internal long MessagesSent;

    /// <summary>Bytes and messages of strands on their own threads, in addition. Any thread, by Interlocked.</summary>
    internal long BytesSentOfStrands;
    internal long MessagesSentOfStrands;
    internal long BroadcastsDropped;
    internal long Handshakes;
    internal long HandshakesResumed;
    internal long HandshakesFailed;

    /// <summary>Connections with a TLS handshake in progress.</summary>
    internal readonly HashSet<Connection> Shaking = [];

    /// <summary>Number of those connections that have received a ClientHello.</summary>
    internal int Places;

    /// <summary>Accepted ones of those connections that have not received a ClientHello.</summary>
    internal readonly SilentConnections Silent = new();

    /// <summary>Number of silent connections that were closed because further ones arrived.</summary>
    internal long SilentClosed;
    internal long Opened; // read by a stop that passed its deadline
    internal long Closed;

    /// <summary>True if a stopping server has reset its remaining connections here at its deadline.</summary>
    internal volatile bool WasAborted;

    private Type? _lastType;
    private SessionHooks _lastHooks;

    /// <summary>
    /// Returns the hooks of the session's class, which is nearly always the same as in the last call.
    /// </summary>
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
