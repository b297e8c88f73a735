using System.Text;

namespace Whimbrel.Clusters;

/// <summary>
/// A group with members on any node of a <see cref="Cluster"/>. A handle for the name, which may be kept. Thread-safe.
/// </summary>
public sealed class ClusterGroup
{
    private readonly Cluster _cluster;

    internal ClusterGroup(Cluster cluster, string name)
    {
        _cluster = cluster;
        Name = name;
    }

    /// <summary>Name of the group, compared ordinally on all nodes.</summary>
    public string Name { get; }

    /// <summary>Number of members on this node; a snapshot.</summary>
    public int LocalCount => _cluster.Find(Name)?.Count ?? 0;

    /// <summary>
    /// The members on the current loop of this node, as <see cref="SessionGroup.MembersHere"/>. On a loop's thread
    /// only.
    /// </summary>
    /// <exception cref="InvalidOperationException">The current thread is not a loop's thread.</exception>
    public GroupMembers MembersHere => _cluster.Find(Name) is { } group ? group.MembersHere : default;

    /// <summary>
    /// Number of members on all nodes; remote ones as last reported, delayed by some intervals. Members of a crashed
    /// node are counted until its lease expires. Without <see cref="ClusterOptions.PresenceInterval"/> the number on
    /// this node.
    /// </summary>
    public int Count => (int)Math.Min(ReadPresence().Sum(static n => (long)n.Count), int.MaxValue);

    /// <summary>
    /// Reads the numbers of members per node: first this node, then the others with members in no particular order.
    /// </summary>
    public IReadOnlyList<NodePresence> ReadPresence() => _cluster.ReadPresence(Name, LocalCount);

    /// <summary>
    /// Adds a session of this node, as <see cref="SessionGroup.Join(Session)"/> does. Broadcasts of other nodes arrive
    /// once the broker has the subscription.
    /// </summary>
    /// <param name="session">Connected session.</param>
    /// <exception cref="ObjectDisposedException">The node has left the cluster
    /// (<see cref="Cluster.DisposeAsync"/>).</exception>
    public void Join(Session session) => _cluster.Join(Name, session);

    /// <summary>Removes a session. A session that ends is removed automatically.</summary>
    /// <param name="session">The session.</param>
    public void Leave(Session session) => _cluster.Find(Name)?.Leave(session);

    /// <summary>
    /// Sends the bytes to all members: first to local ones, independently of the broker, then to the other nodes. Never
    /// waits. Broadcasts of one caller arrive in call order.
    /// </summary>
    /// <param name="data">Message, at most <see cref="ClusterOptions.MaxPayloadBytes"/>. It is copied.</param>
    /// <param name="except">Session of this node to leave out, or null.</param>
    /// <returns>
    /// Result as of <see cref="SessionGroup.Broadcast(ReadOnlySpan{byte}, Session)"/>. With
    /// <see cref="SendResult.Full"/> no member on any node receives the message; likewise with
    /// <see cref="SendResult.Closed"/>, after this node has left. Later losses are reported and counted on the other
    /// nodes.
    /// </returns>
    /// <exception cref="ArgumentException">The message is too large.</exception>
    public SendResult Broadcast(ReadOnlySpan<byte> data, Session? except = null) =>
        _cluster.Broadcast(Name, data, except);

    /// <summary>Sends a text as UTF-8, as <see cref="Broadcast(ReadOnlySpan{byte}, Session)"/> does.</summary>
    /// <param name="text">Text to send.</param>
    /// <param name="except">Session of this node to leave out, or null.</param>
    public SendResult Broadcast(string text, Session? except = null) => Broadcast(Encoding.UTF8.GetBytes(text), except);

    /// <summary>Returns the name.</summary>
    public override string ToString() => Name;
}
