namespace Whimbrel.Clusters;

/// <summary>
/// Table of the other nodes, without I/O: present nodes, nodes awaited after a reconnect, and missing nodes. A node is
/// added with its first envelope of any kind, because answers to a new node's question take up to 100 ms, and the
/// broker may be lost before. A node that has not announced itself is awaited but never missing, because its interval
/// is unknown. The caller's clock advances only while its loop runs, so that a suspended process does not report the
/// others as missing. On the node's loop.
/// </summary>
internal sealed class NodeTable
{
    /// <summary>Maximum number of nodes; further nodes are not watched.</summary>
    internal const int MostNodes = 1024;

    /// <summary>Number of intervals without an envelope after which a node is missing.</summary>
    internal const int SilentIntervals = 3;

    private const int MostNamed = 8;

    private readonly Dictionary<ulong, KnownNode> _nodes = [];
    private KnownNode? _last; // because consecutive envelopes are often of one node

    /// <summary>Whether a node that was present when the broker was lost is still awaited.</summary>
    internal bool IsAwaiting => _nodes.Values.Any(n => n.State == KnownNodeState.Awaited && !HasNamesake(n));

    /// <summary>Whether a node is missing.</summary>
    internal bool IsMissing => _nodes.Values.Any(static n => n.State == KnownNodeState.Missing);

    /// <summary>Records an envelope of any kind.</summary>
    /// <param name="instance">Instance of the node.</param>
    /// <param name="nowMs">Time on the clock of this table.</param>
    /// <param name="isNew">True if the node must be added by <see cref="Add"/>.</param>
    /// <returns>True if the node was awaited or missing.</returns>
    internal bool Hear(ulong instance, long nowMs, out bool isNew)
    {
        isNew = false;
        if (_last?.Instance != instance)
        {
            if (!_nodes.TryGetValue(instance, out KnownNode? node))
            {
                isNew = _nodes.Count < MostNodes;
                return false;
            }

            _last = node;
        }

        _last.HeardAtMs = nowMs;
        if (_last.State == KnownNodeState.Present) return false;
        _last.State = KnownNodeState.Present;
        return true;
    }

    /// <summary>Adds a node that has not announced itself yet.</summary>
    internal void Add(ulong instance, string name, long nowMs) =>
        _nodes.Add(instance, new KnownNode(instance, name) { HeardAtMs = nowMs });

    /// <summary>Records an announcement. The node replaces missing nodes of the same name.</summary>
    /// <returns>True if a missing node was replaced.</returns>
    internal bool Announce(ulong instance, string name, long intervalMs, long nowMs)
    {
        if (!_nodes.TryGetValue(instance, out KnownNode? node))
        {
            if (_nodes.Count >= MostNodes) return false;
            _nodes.Add(instance, node = new KnownNode(instance, name));
        }

        (node.HeardAtMs, node.IntervalMs) = (nowMs, intervalMs);
        return DropWhere(n => n.State == KnownNodeState.Missing && n.Name == name && n.Instance != instance);
    }

    /// <summary>Removes a node that said goodbye.</summary>
    /// <returns>True if it was awaited or missing.</returns>
    internal bool Forget(ulong instance)
    {
        if (_last?.Instance == instance) _last = null;
        return _nodes.Remove(instance, out KnownNode? node) && node.State != KnownNodeState.Present;
    }

    /// <summary>Sets all present nodes to awaited, after a reconnect.</summary>
    internal void Await()
    {
        foreach (KnownNode node in _nodes.Values)
        {
            if (node.State == KnownNodeState.Present) node.State = KnownNodeState.Awaited;
        }
    }

    /// <summary>Sets awaited nodes to missing.</summary>
    internal void EndAwaiting(long nowMs)
    {
        DropWhere(n => n.State == KnownNodeState.Awaited && (!n.HasAnnounced || HasNamesake(n)));
        foreach (KnownNode node in _nodes.Values)
        {
            if (node.State == KnownNodeState.Awaited) (node.State, node.HeardAtMs) = (KnownNodeState.Missing, nowMs);
        }
    }

    /// <summary>
    /// Detects nodes that were silent for too long, and removes nodes that were missing for longer than
    /// <paramref name="forgetAfterMs"/>.
    /// </summary>
    /// <returns>True if the set of missing nodes has changed.</returns>
    internal bool Judge(long nowMs, long intervalMs, long forgetAfterMs)
    {
        bool hasChanged = DropWhere(n => n.State == KnownNodeState.Missing && nowMs - n.HeardAtMs > forgetAfterMs);
        DropWhere(n => !n.HasAnnounced && nowMs - n.HeardAtMs > SilentIntervals * intervalMs);
        foreach (KnownNode node in _nodes.Values)
        {
            if (node.State != KnownNodeState.Present || !node.HasAnnounced
                || nowMs - node.HeardAtMs <= SilentIntervals * Math.Max(intervalMs, node.IntervalMs))
                continue;
            node.State = KnownNodeState.Missing;
            hasChanged = true;
        }

        // Otherwise a process that was killed and restarted with its name would count as missing.
        return DropWhere(n => n.State == KnownNodeState.Missing && HasNamesake(n)) || hasChanged;
    }

    /// <summary>Returns the names of the missing nodes as text.</summary>
    internal string NameMissing()
    {
        string[] names = [.. _nodes.Values.Where(static n => n.State == KnownNodeState.Missing)
            .Select(static n => $"'{n.Name}'").Order(StringComparer.Ordinal)];
        return names.Length <= MostNamed
            ? string.Join(", ", names)
            : $"{string.Join(", ", names.Take(MostNamed))} and {names.Length - MostNamed} more";
    }

    private bool HasNamesake(KnownNode of) =>
        _nodes.Values.Any(n => n.State == KnownNodeState.Present && n.Name == of.Name && n != of);

    private bool DropWhere(Predicate<KnownNode> isGone)
    {
        KnownNode[] gone = [.. _nodes.Values.Where(n => isGone(n))];
        foreach (KnownNode node in gone) Forget(node.Instance);
        return gone.Length > 0;
    }
}
