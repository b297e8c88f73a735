using System.Text;

namespace Whimbrel.Clusters;

/// <summary>
/// A group whose members may be on any node of a <see cref="Cluster"/>. It acts for its name, and may be kept. Any thread.
/// </summary>
public sealed class ClusterGroup
{
    private readonly Cluster _cluster;

    internal ClusterGroup(Cluster cluster, string name)
    {
        _cluster = cluster;
        Name = name;
    }

    /// <summary>Compared exactly, on all nodes.</summary>
    public string Name { get; }

    /// <summary>Members on this node. A moment old.</summary>
    public int LocalCount => _cluster.Find(Name)?.Count ?? 0;

    /// <summary>
    /// Members on all nodes: those here, and those elsewhere as they were last told. Others come late by some intervals, and those of a node that died go with its lease. Without
    /// <see cref="ClusterOptions.PresenceInterval"/> those here.
    /// </summary>
    public int Count => (int)Math.Min(ReadPresence().Sum(static n => (long)n.Count), int.MaxValue);

    /// <summary>The same by node: this one first, then the others that have members, in no order.</summary>
    public IReadOnlyList<NodePresence> ReadPresence() => _cluster.ReadPresence(Name, LocalCount);

    /// <summary>Adds a session of this node, as <see cref="SessionGroup.Join(Session)"/> does. Broadcasts of other nodes come once the broker has the subscription.</summary>
    /// <param name="session">A connected session.</param>
    /// <exception cref="ObjectDisposedException">The node has left the cluster (<see cref="Cluster.DisposeAsync"/>).</exception>
    public void Join(Session session) => _cluster.Join(Name, session);

    /// <summary>Removes a session. It leaves by itself when it ends.</summary>
    /// <param name="session">The session.</param>
    public void Leave(Session session) => _cluster.Find(Name)?.Leave(session);

    /// <summary>
    /// Sends the bytes to all members: to those on this node at once, whatever the broker does, then to the other nodes. Never waits. What one
    /// caller sends is in order for every member.
    /// </summary>
    /// <param name="data">At most <see cref="ClusterOptions.MaxPayloadBytes"/>. Free to be reused at once.</param>
    /// <param name="except">A session of this node that does not get it, or null.</param>
    /// <returns>
    /// As <see cref="SessionGroup.Broadcast(ReadOnlySpan{byte}, Session)"/>: with <see cref="SendResult.Full"/> nobody gets it on any node. What is lost
    /// later on the way to other nodes is told there and counted. With <see cref="SendResult.Closed"/> this node has left the cluster, and no member gets it.
    /// </returns>
    /// <exception cref="ArgumentException">Too large.</exception>
    public SendResult Broadcast(ReadOnlySpan<byte> data, Session? except = null) => _cluster.Broadcast(Name, data, except);

    /// <summary>Sends the text as UTF-8; in all else the same.</summary>
    /// <param name="text">What to send.</param>
    /// <param name="except">A session of this node that does not get it, or null.</param>
    public SendResult Broadcast(string text, Session? except = null) => Broadcast(Encoding.UTF8.GetBytes(text), except);

    /// <summary>The name.</summary>
    public override string ToString() => Name;
}
