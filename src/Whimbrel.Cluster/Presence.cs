using System.Buffers.Binary;
using System.Text;
using System.Text.Unicode;

namespace Whimbrel.Clusters;

/// <summary>
/// Member counts by group and node, without I/O and clock. A node publishes changes as numbered revisions, or its
/// current revision if nothing has changed. A node that missed a revision detects it with the next report and requests
/// a snapshot. Published on the loop; read on any thread.
/// </summary>
/// <remarks>
/// Payload, little endian: part (1 byte), number of the snapshot part (2), then per group length of the name (2), name
/// in UTF-8, count (4). The envelope's sequence is the revision.
/// </remarks>
internal sealed class Presence(int mostBytes)
{
    internal const int HeadBytes = 3;
    internal const int MostNodes = 256;
    internal const int MostGroupsOfNode = 65_536;

    private readonly Lock _gate = new();
    private readonly Dictionary<ulong, PresenceOfNode> _nodes = [];
    private ulong _revision;
    private bool _isSnapshotDue = true;

    /// <summary>Makes the next report a snapshot, because a node requested it or may have missed a report.</summary>
    internal void SayAll() => _isSnapshotDue = true;

    /// <summary>Creates the payloads of the next report, in order.</summary>
    internal List<(ulong Revision, byte[] Payload)> Tell(IEnumerable<GroupState> groups)
    {
        bool isSnapshot = _isSnapshotDue;
        _isSnapshotDue = false;
        List<(ulong, byte[])> said = [];
        List<byte[]> parts = [];
        byte[] buffer = new byte[mostBytes];
        int at = HeadBytes;
        foreach (GroupState group in groups)
        {
            int count = group.Count;
            if (isSnapshot ? count == 0 : count == group.ToldCount)
            {
                group.ToldCount = count;
                continue;
            }

            group.ToldCount = count;
            if (at + 6 + group.NameBytes.Length > mostBytes)
            {
                parts.Add(buffer[..at]);
                at = HeadBytes;
            }

            BinaryPrimitives.WriteUInt16LittleEndian(buffer.AsSpan(at), (ushort)group.NameBytes.Length);
            group.NameBytes.CopyTo(buffer, at + 2);
            at += 2 + group.NameBytes.Length;
            BinaryPrimitives.WriteInt32LittleEndian(buffer.AsSpan(at), count);
            at += 4;
        }

        if (at > HeadBytes || parts.Count == 0) parts.Add(buffer[..at]);
        if (isSnapshot || parts[^1].Length > HeadBytes) _revision++;
        for (int i = 0; i < parts.Count; i++)
        {
            bool isLast = i == parts.Count - 1;
            if (!isSnapshot && i > 0) _revision++;
            PresencePart kind = isSnapshot ? isLast ? PresencePart.SnapshotEnd : PresencePart.Snapshot
                : parts[i].Length > HeadBytes ? PresencePart.Change : PresencePart.Beat;
            parts[i][0] = (byte)kind;
            BinaryPrimitives.WriteUInt16LittleEndian(parts[i].AsSpan(1), (ushort)i);
            said.Add((_revision, parts[i]));
        }

        return said;
    }

    /// <summary>Removes a node that leaves.</summary>
    internal void Forget(ulong instance)
    {
        lock (_gate) _nodes.Remove(instance);
    }

    /// <summary>Processes a report of another node.</summary>
    /// <param name="envelope">Envelope with the report.</param>
    /// <param name="nowMs">Time of the loop.</param>
    /// <param name="askAgainMs">Time after which an unanswered request is repeated.</param>
    internal PresenceHeard Hear(in Envelope envelope, long nowMs, long askAgainMs)
    {
        ReadOnlySpan<byte> payload = envelope.Payload;
        if (payload.Length < HeadBytes || payload[0] > (byte)PresencePart.SnapshotEnd) return PresenceHeard.Refused;
        PresencePart part = (PresencePart)payload[0];
        lock (_gate)
        {
            if (!_nodes.TryGetValue(envelope.Instance, out PresenceOfNode? node))
            {
                if (_nodes.Count >= MostNodes) _nodes.Remove(_nodes.MinBy(static n => n.Value.HeardAtMs).Key);
                node = new PresenceOfNode(Encoding.UTF8.GetString(envelope.Node));
                _nodes.Add(envelope.Instance, node);
            }

            node.HeardAtMs = nowMs;
            if (!Take(node, part, envelope.Sequence, payload))
            {
                node.Revision = 0;
                return PresenceHeard.Refused;
            }

            bool isComing = node.Coming is not null && node.ComingRevision == envelope.Sequence;
            if (node.Revision >= envelope.Sequence || isComing || nowMs - node.AskedAtMs < askAgainMs)
                return PresenceHeard.Known;
            node.AskedAtMs = nowMs;
            return PresenceHeard.Ask;
        }
    }

    /// <summary>Removes the nodes without a report since that time.</summary>
    internal void Forget(long beforeMs)
    {
        lock (_gate)
        {
            foreach ((ulong instance, PresenceOfNode node) in _nodes)
            {
                if (node.HeardAtMs < beforeMs) _nodes.Remove(instance);
            }
        }
    }

    /// <summary>Adds the other nodes with members in the group to a list. Any thread.</summary>
    internal void Read(string group, List<NodePresence> target)
    {
        lock (_gate)
        {
            foreach (PresenceOfNode node in _nodes.Values)
            {
                if (node.Counts.TryGetValue(group, out int count)) target.Add(new NodePresence(node.Node, count));
            }
        }
    }

    /// <summary>Adds the numbers of members on the other nodes to those by group. Any thread.</summary>
    internal void AddTo(Dictionary<string, long> counts)
    {
        PresenceOfNode[] nodes;
        lock (_gate) nodes = [.. _nodes.Values];
        foreach (PresenceOfNode node in nodes)
        {
            // The lock is held for one node at a time, because the node's loop waits for it.
            lock (_gate)
            {
                foreach ((string group, int count) in node.Counts)
                    counts[group] = counts.GetValueOrDefault(group) + count;
            }
        }
    }

    /// <returns>False if the payload is invalid.</returns>
    private static bool Take(PresenceOfNode node, PresencePart part, ulong revision, ReadOnlySpan<byte> payload)
    {
        if (part is PresencePart.Beat or PresencePart.Change) node.Coming = null; // the other parts are lost
        if (part == PresencePart.Beat || revision <= node.Revision) return true;
        ReadOnlySpan<byte> groups = payload[HeadBytes..];
        if (part == PresencePart.Change)
        {
            if (node.Revision == 0 || revision != node.Revision + 1) return true; // a snapshot is requested
            node.Revision = revision;
            return TryAdd(groups, node.Counts);
        }

        int number = BinaryPrimitives.ReadUInt16LittleEndian(payload[1..]);
        if (number == 0)
            (node.Coming, node.ComingRevision, node.NextPart) = (new Dictionary<string, int>(StringComparer.Ordinal),
                revision, 0);
        // or twice
        if (node.Coming is not { } coming || node.ComingRevision != revision || number < node.NextPart) return true;
        if (number > node.NextPart)
        {
            node.Coming = null;
            return true;
        }

        node.NextPart++;
        if (!TryAdd(groups, coming)) return false;
        if (part == PresencePart.Snapshot) return true;
        (node.Revision, node.Counts, node.Coming, node.AskedAtMs) = (revision, coming, null, null);
        return true;
    }

    private static bool TryAdd(ReadOnlySpan<byte> groups, Dictionary<string, int> counts)
    {
        while (!groups.IsEmpty)
        {
            if (groups.Length < 6) return false;
            int length = BinaryPrimitives.ReadUInt16LittleEndian(groups);
            if (length > Envelope.MostGroupBytes || groups.Length < length + 6
                || !Utf8.IsValid(groups.Slice(2, length)))
                return false;
            int count = BinaryPrimitives.ReadInt32LittleEndian(groups[(2 + length)..]);
            if (count < 0) return false;
            string name = Encoding.UTF8.GetString(groups.Slice(2, length));
            if (count == 0) counts.Remove(name);
            else if (counts.Count < MostGroupsOfNode || counts.ContainsKey(name)) counts[name] = count;
            groups = groups[(6 + length)..];
        }

        return true;
    }
}
