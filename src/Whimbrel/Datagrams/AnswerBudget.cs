using System.Numerics;

namespace Whimbrel.Datagrams;

/// <summary>
/// What may be answered to peers that have not proved that they receive at their address: no more datagrams and no more bytes than
/// they sent, times a factor. So a forged sender cannot aim more at somebody than it spends itself. One for each socket and loop, on its
/// thread; pure, the time is an argument.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>Of a peer that is not verified, what was spent never exceeds what was received times the factor, in datagrams and in bytes.</item>
/// <item>A verified peer (<see cref="Verify"/>) is not limited; it is verified until nothing has come from it for <see cref="VerifiedMs"/>.</item>
/// <item>The table never grows. Who is pushed out loses a credit or a verification and gains nothing: first the unverified, each time the
/// one that has been quiet for longest.</item>
/// <item>Nothing allocates.</item>
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

    /// <summary>A datagram came.</summary>
    internal void Received(in DatagramPeer peer, int bytes, long nowMs)
    {
        ref Entry entry = ref FindOrTake(in peer, nowMs);
        if (entry.IsVerified && nowMs - entry.SeenMs >= VerifiedMs) entry.IsVerified = false;
        entry.SeenMs = nowMs;
        // What nobody could spend in a life is enough.
        entry.Bytes = Math.Min(entry.Bytes + ((long)bytes * _factor), long.MaxValue / 2);
        entry.Datagrams = Math.Min(entry.Datagrams + _factor, long.MaxValue / 2);
    }

    /// <summary>Answers of so many datagrams and bytes are to leave. False: not all of them may, and nothing was spent.</summary>
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

    /// <summary>They did not leave after all.</summary>
    internal void Refund(in DatagramPeer peer, int datagrams, int bytes)
    {
        ref Entry entry = ref Find(in peer, out bool isThere);
        // Of a verified peer nothing was taken.
        if (!isThere || entry.IsVerified) return;
        entry.Datagrams += datagrams;
        entry.Bytes += bytes;
    }

    /// <summary>The peer has proved that it receives at its address.</summary>
    internal void Verify(in DatagramPeer peer, long nowMs)
    {
        ref Entry entry = ref FindOrTake(in peer, nowMs);
        entry.IsVerified = true;
        entry.SeenMs = nowMs;
    }

    /// <summary>It has to prove it again.</summary>
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

    private Span<Entry> SetOf(in DatagramPeer peer) => _entries.AsSpan((int)(_hash.Of(in peer) & (ulong)(_entries.Length - 1)) & -Ways, Ways);

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
