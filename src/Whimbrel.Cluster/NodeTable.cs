namespace Whimbrel.Clusters;

/// <summary>
/// The other nodes of the cluster, without I/O: those that are present, those that are awaited after a reconnect, and those that vanished without a goodbye. A node is known
/// from its first envelope of any kind on, because the answers to a new node's question take up to 100 ms, and the broker may be lost before. A node that has not announced itself is
/// awaited, but never missing: its interval is not known. The caller's clock advances only while its loop runs, so that a process that was
/// stopped does not find the others missing. On the node's loop.
/// </summary>
internal sealed class NodeTable
{
    /// <summary>Further nodes are not watched.</summary>
    internal const int MostNodes = 1024;

    /// <summary>So many intervals without an envelope make a node missing.</summary>
    internal const int SilentIntervals = 3;

    private const int MostNamed = 8;

    private readonly Dictionary<ulong, KnownNode> _nodes = [];
    private KnownNode? _last; // several envelopes of one node often come together

    /// <summary>Whether a node is awaited that was present when the broker was lost.</summary>
    internal bool IsAwaiting => _nodes.Values.Any(n => n.State == KnownNodeState.Awaited && !HasNamesake(n));

    /// <summary>Whether a node is missing.</summary>
    internal bool IsMissing => _nodes.Values.Any(static n => n.State == KnownNodeState.Missing);

    /// <summary>Notes an envelope of any kind.</summary>
    /// <param name="instance">The node.</param>
    /// <param name="nowMs">Time, by the clock of this table.</param>
    /// <param name="isNew">True when the node is to be added by <see cref="Add"/>.</param>
    /// <returns>True when the node was awaited or missing until now.</returns>
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
    internal void Add(ulong instance, string name, long nowMs) => _nodes.Add(instance, new KnownNode(instance, name) { HeardAtMs = nowMs });

    /// <summary>Notes an announcement. A process that takes the place of a missing one of the same name replaces it.</summary>
    /// <returns>True when a missing node was replaced.</returns>
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

    /// <summary>Forgets a node that says goodbye.</summary>
    /// <returns>True when it was awaited or missing.</returns>
    internal bool Forget(ulong instance)
    {
        if (_last?.Instance == instance) _last = null;
        return _nodes.Remove(instance, out KnownNode? node) && node.State != KnownNodeState.Present;
    }

    /// <summary>The broker is reached again: nodes that were present have to be heard anew.</summary>
    internal void Await()
    {
        foreach (KnownNode node in _nodes.Values)
        {
            if (node.State == KnownNodeState.Present) node.State = KnownNodeState.Awaited;
        }
    }

    /// <summary>Nodes that were awaited in vain are missing, from now on.</summary>
    internal void EndAwaiting(long nowMs)
    {
        DropWhere(n => n.State == KnownNodeState.Awaited && (!n.HasAnnounced || HasNamesake(n)));
        foreach (KnownNode node in _nodes.Values)
        {
            if (node.State == KnownNodeState.Awaited) (node.State, node.HeardAtMs) = (KnownNodeState.Missing, nowMs);
        }
    }

    /// <summary>Finds the nodes that have been silent for too long, and forgets those that have been missing for very long.</summary>
    /// <returns>True when the missing ones are others than before.</returns>
    internal bool Judge(long nowMs, long intervalMs, long forgetAfterMs)
    {
        bool hasChanged = DropWhere(n => n.State == KnownNodeState.Missing && nowMs - n.HeardAtMs > forgetAfterMs);
        DropWhere(n => !n.HasAnnounced && nowMs - n.HeardAtMs > SilentIntervals * intervalMs);
        foreach (KnownNode node in _nodes.Values)
        {
            if (node.State != KnownNodeState.Present || !node.HasAnnounced || nowMs - node.HeardAtMs <= SilentIntervals * Math.Max(intervalMs, node.IntervalMs)) continue;
            node.State = KnownNodeState.Missing;
            hasChanged = true;
        }

        // A process that was killed and started again under its name.
        return DropWhere(n => n.State == KnownNodeState.Missing && HasNamesake(n)) || hasChanged;
    }

    /// <summary>Names of the missing nodes, for people.</summary>
    internal string NameMissing()
    {
        string[] names = [.. _nodes.Values.Where(static n => n.State == KnownNodeState.Missing).Select(static n => $"'{n.Name}'").Order(StringComparer.Ordinal)];
        return names.Length <= MostNamed ? string.Join(", ", names) : $"{string.Join(", ", names.Take(MostNamed))} and {names.Length - MostNamed} more";
    }

    private bool HasNamesake(KnownNode of) => _nodes.Values.Any(n => n.State == KnownNodeState.Present && n.Name == of.Name && n != of);

    private bool DropWhere(Predicate<KnownNode> isGone)
    {
        KnownNode[] gone = [.. _nodes.Values.Where(n => isGone(n))];
        foreach (KnownNode node in gone) Forget(node.Instance);
        return gone.Length > 0;
    }
}
