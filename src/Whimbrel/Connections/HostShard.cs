namespace Whimbrel.Connections;

/// <summary>A host's members and counts on one loop. Loop's thread writes, anybody reads.</summary>
internal sealed class HostShard(ConnectionHost host, Loop loop)
{
    internal readonly ConnectionHost Host = host;
    internal readonly Loop Loop = loop;
    internal readonly ConnectionOptions Options = host.Options;
    internal readonly GroupShard Members = host.Everyone.ShardOf(loop);
    internal long BytesReceived;
    internal long BytesSent;
    internal long Opened;
    internal long Closed;

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
