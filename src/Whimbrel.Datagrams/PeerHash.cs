using System.Security.Cryptography;

namespace Whimbrel.Datagrams;

/// <summary>
/// A keyed hash of addresses for tables of bounded size: without the key an attacker cannot choose addresses that
/// collide in the table. Immutable; any thread.
/// </summary>
internal readonly struct PeerHash
{
    private readonly ulong _first;
    private readonly ulong _second;

    /// <summary>
    /// Creates a hash with a random key for null; the same seed gives the same hashes in every process.
    /// </summary>
    internal PeerHash(int? seed)
    {
        Span<ulong> key = stackalloc ulong[2];
        if (seed is { } given)
        {
            Random random = new(given);
            key[0] = (ulong)random.NextInt64(long.MinValue, long.MaxValue);
            key[1] = (ulong)random.NextInt64(long.MinValue, long.MaxValue);
        }
        else
        {
            RandomNumberGenerator.Fill(System.Runtime.InteropServices.MemoryMarshal.AsBytes(key));
        }

        // Odd, so that a multiplication loses no bits.
        (_first, _second) = (key[0] | 1, key[1] | 1);
    }

    internal ulong Of(ulong value, ulong other) => Mix(Mix(value ^ _first, _second) ^ other, _first);

    internal ulong Of(in DatagramPeer peer)
    {
        ulong tail = ((ulong)peer.ScopeId << 24) | ((ulong)peer.Port << 8) | (ulong)peer.Family;
        ulong name = peer.Name is { } unix ? (uint)unix.GetHashCode() : 0u;
        return Of(Of(peer.HighBytes, peer.LowBytes), tail ^ (name << 32));
    }

    private static ulong Mix(ulong a, ulong b)
    {
        ulong high = Math.BigMul(a, b, out ulong low);
        return high ^ low;
    }
}
