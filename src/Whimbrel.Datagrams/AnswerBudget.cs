using System.Numerics;

namespace Whimbrel.Datagrams;

/// <summary>
/// Limits answers to peers that have not proved their address: no more datagrams and bytes than the peer sent, times a
/// factor. So a forged source address cannot direct more traffic at a victim than the attacker sends. One for each
/// socket and loop, on the loop's thread; pure, the time is an argument.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>For an unverified peer, the amount sent never exceeds the amount received times the factor, in datagrams and
/// in bytes.</item>
/// <item>A verified peer (<see cref="Verify"/>) is not limited; it stays verified until nothing has arrived from it for
/// <see cref="VerifiedMs"/>.</item>
/// <item>The table never grows. An evicted peer loses its credit or verification and gains nothing: unverified peers
/// are evicted first, each time the one that was silent for longest.</item>
/// <item>No allocations.</item>
/// </list>
/// </remarks>
internal sealed class AnswerBudget
{
    internal const int MaxFactor = 100;
    internal const long VerifiedMs = 10 * 60 * 1000;

    private const int Ways = 8;

    private readonly Entry[] _entries;
    private readonly PeerHash _hash;
    private readonly int _factor;

    internal AnswerBudget(int factor, int maxPeers = 16_384, int? seed = null)
    {
        _factor = factor;
        _entries = new Entry[BitOperations.RoundUpToPowerOf2((uint)Math.Max(Ways, maxPeers))];
        _hash = new PeerHash(seed);
    }

    internal int Places => _entries.Length;

    /// <summary>Records a received datagram.</summary>
    internal void Received(in DatagramPeer peer, int bytes, long nowMs)
    {
        ref Entry entry = ref FindOrTake(in peer, nowMs);
        if (entry.IsVerified && nowMs - entry.SeenMs >= VerifiedMs) entry.IsVerified = false;
        entry.SeenMs = nowMs;
        // Capped at a credit that can never be spent.
        entry.Bytes = Math.Min(entry.Bytes + ((long)bytes * _factor), long.MaxValue / 2);
        entry.Datagrams = Math.Min(entry.Datagrams + _factor, long.MaxValue / 2);
    }

    /// <summary>Spends credit for answers. Returns false, and spends nothing, if not all of them are allowed.</summary>
    internal bool TrySpend(in DatagramPeer peer, int datagrams, int bytes, long nowMs)
    {
        ref Entry entry = ref Find(in peer, out bool isThere);
        if (!isThere) return false;
        if (entry.IsVerified && nowMs - entry.SeenMs < VerifiedMs) return true;
        if (entry.Datagrams < datagrams || entry.Bytes < bytes) return false;
        entry.Datagrams -= datagrams;
        entry.Bytes -= bytes;
        return true;
    }

    /// <summary>Returns the credit of answers that were not sent.</summary>
    internal void Refund(in DatagramPeer peer, int datagrams, int bytes)
    {
        ref Entry entry = ref Find(in peer, out bool isThere);
        // A verified peer spends no credit.
        if (!isThere || entry.IsVerified) return;
        entry.Datagrams += datagrams;
        entry.Bytes += bytes;
    }

    /// <summary>Marks the peer as verified.</summary>
    internal void Verify(in DatagramPeer peer, long nowMs)
    {
        ref Entry entry = ref FindOrTake(in peer, nowMs);
        entry.IsVerified = true;
        entry.SeenMs = nowMs;
    }

    /// <summary>Removes the peer, so that it must prove its address again.</summary>
    internal void Forget(in DatagramPeer peer)
    {
        ref Entry entry = ref Find(in peer, out bool isThere);
        if (isThere) entry = default;
    }

    internal bool IsVerified(in DatagramPeer peer, long nowMs)
    {
        ref Entry entry = ref Find(in peer, out bool isThere);
        return isThere && entry.IsVerified && nowMs - entry.SeenMs < VerifiedMs;
    }

    private Span<Entry> SetOf(in DatagramPeer peer) =>
        _entries.AsSpan((int)(_hash.Of(in peer) & (ulong)(_entries.Length - 1)) & -Ways, Ways);

    private ref Entry Find(in DatagramPeer peer, out bool isThere)
    {
        Span<Entry> set = SetOf(in peer);
        for (int i = 0; i < set.Length; i++)
        {
            if (!set[i].IsTaken || !set[i].Peer.Equals(peer)) continue;
            isThere = true;
            return ref set[i];
        }

        isThere = false;
        return ref set[0];
    }

    private ref Entry FindOrTake(in DatagramPeer peer, long nowMs)
    {
        ref Entry found = ref Find(in peer, out bool isThere);
        if (isThere) return ref found;
        Span<Entry> set = SetOf(in peer);
        int worst = 0;
        for (int i = 1; i < set.Length; i++)
        {
            if (IsWorse(in set[i], in set[worst])) worst = i;
        }

        set[worst] = new Entry { Peer = peer, IsTaken = true, SeenMs = nowMs };
        return ref set[worst];
    }

    private static bool IsWorse(in Entry one, in Entry other)
    {
        if (one.IsTaken != other.IsTaken) return !one.IsTaken;
        if (one.IsVerified != other.IsVerified) return !one.IsVerified;
        return one.SeenMs < other.SeenMs;
    }

    private struct Entry
    {
        internal DatagramPeer Peer;
        internal long Bytes;
        internal long Datagrams;
        internal long SeenMs;
        internal bool IsTaken;
        internal bool IsVerified;
    }
}
