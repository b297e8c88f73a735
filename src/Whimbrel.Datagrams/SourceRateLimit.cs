using System.Buffers.Binary;
using System.Numerics;
using Whimbrel.Datagrams;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>
/// Rate limit per source: a burst, then a rate per second, in a table that never grows. A source is an IPv4 address, or
/// the first 64 bits of an IPv6 address, because one customer has at least that many; the port is ignored. Pure: no I/O
/// and no clock, the time is an argument. Not thread-safe: create one for each handler and use it on its loop, which
/// receives all datagrams of one peer (<see cref="DatagramSteering.ByPeer"/>).
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>A source gets at most <c>burst + perSecond × t</c> in any <c>t</c> seconds; a rejected request costs it
/// nothing.</item>
/// <item>A source that has been idle until its whole burst was available again is forgotten when its slot is needed; it
/// loses nothing.</item>
/// <item>If more sources than <c>maxSources</c> are busy, a new source takes over the slot with the most remaining
/// credit, and only that credit. So evicting other sources gives no fresh burst, and all sources together get at most
/// <c>places × (burst + perSecond × t)</c>, whatever addresses are forged.</item>
/// <item>A call is O(1) and allocates nothing.</item>
/// </list>
/// </remarks>
public sealed class SourceRateLimit
{
    /// <summary>Maximum of the rate per second and of the burst.</summary>
    public const int MaxRate = 1_000_000_000;

    // Number of slots per source: enough that two busy sources rarely compete in a table that is not full.
    private const int Ways = 8;
    private const int MinSources = 64;
    private const int MaxSources = 1 << 24;

    private readonly Place[] _places;
    private readonly PeerHash _hash;
    private readonly ulong _prefixMask;
    private readonly long _perSecond;
    private readonly long _burst; // in thousandths, like all credit

    /// <summary>Creates an empty table.</summary>
    /// <param name="perSecond">Rate of each source per second, in the unit of <see cref="TryTake"/>: datagrams or
    /// bytes. 1 to <see cref="MaxRate"/>.</param>
    /// <param name="burst">Burst of each source. 1 to <see cref="MaxRate"/>.</param>
    /// <param name="maxSources">Number of sources that are tracked at the same time, rounded up to a power of two; each
    /// takes 32 bytes. 64 to 16,777,216; default 65,536.</param>
    /// <param name="ipv6PrefixBits">Number of bits of an IPv6 address that identify a source. 16 to 64; default
    /// 64.</param>
    /// <param name="seed">Seed of the hash. Default null: random, so that attackers cannot choose slots; a number is
    /// for tests.</param>
    public SourceRateLimit(int perSecond, int burst, int maxSources = 65_536, int ipv6PrefixBits = 64, int? seed = null)
    {
        if (perSecond is < 1 or > MaxRate) Throw.OutOfRange(nameof(perSecond), perSecond, $"1 to {MaxRate}");
        if (burst is < 1 or > MaxRate) Throw.OutOfRange(nameof(burst), burst, $"1 to {MaxRate}");
        if (maxSources is < MinSources or > MaxSources)
            Throw.OutOfRange(nameof(maxSources), maxSources, $"{MinSources} to {MaxSources}");
        if (ipv6PrefixBits is < 16 or > 64) Throw.OutOfRange(nameof(ipv6PrefixBits), ipv6PrefixBits, "16 to 64");
        _perSecond = perSecond;
        _burst = burst * 1000L;
        _places = new Place[BitOperations.RoundUpToPowerOf2((uint)maxSources)];
        _prefixMask = ulong.MaxValue << (64 - ipv6PrefixBits);
        _hash = new PeerHash(seed);
    }

    /// <summary>Number of slots of the table: <c>maxSources</c>, rounded up.</summary>
    public int Places => _places.Length;

    /// <summary>Number of allowed calls.</summary>
    public long Allowed { get; private set; }

    /// <summary>Number of rejected calls.</summary>
    public long Refused { get; private set; }

    /// <summary>
    /// Number of sources evicted before they had their whole burst again. Above zero, <c>maxSources</c> is too small,
    /// or addresses are forged.
    /// </summary>
    public long Displaced { get; private set; }

    /// <summary>
    /// Takes from the credit of a datagram's source. Returns false, and takes nothing, if there is not enough.
    /// </summary>
    /// <param name="peer">Sender of the datagram. Unix peers are distinguished by name; all without a name are one
    /// source.</param>
    /// <param name="nowMs">Milliseconds of a clock that never goes back, for example <see cref="Loop.TimeMs"/>. An
    /// earlier time than before counts as the same.</param>
    /// <param name="cost">Cost: 1 for a datagram, or its bytes. More than the burst is always rejected. 0 or
    /// more.</param>
    public bool TryTake(in DatagramPeer peer, long nowMs, int cost = 1)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(cost);
        (ulong address, uint kind) = SourceOf(in peer);
        ref Place place = ref Find(address, kind, nowMs);
        Refill(ref place, nowMs);
        long price = cost * 1000L;
        if (place.Left < price)
        {
            Refused++;
            return false;
        }

        place.Left -= price;
        Allowed++;
        return true;
    }

    private (ulong Address, uint Kind) SourceOf(in DatagramPeer peer)
    {
        if (peer.IsV4) return (peer.V4Bytes, 4);
        // In the order of the bits of the address, independent of the machine's byte order.
        if (peer.IsV6) return (BinaryPrimitives.ReverseEndianness(peer.HighBytes) & _prefixMask, 6);
        return peer.Name is { } name ? ((uint)name.GetHashCode(), 1u) : (0ul, 2u);
    }

    private ref Place Find(ulong address, uint kind, long nowMs)
    {
        int start = (int)(_hash.Of(address, kind) & (ulong)(_places.Length - 1)) & -Ways;
        Span<Place> set = _places.AsSpan(start, Ways);
        int richest = 0;
        long most = -1;
        for (int i = 0; i < set.Length; i++)
        {
            ref Place place = ref set[i];
            if (place.Kind == kind && place.Address == address) return ref place;
            long left = place.Kind == 0 ? long.MaxValue : LeftAt(in place, nowMs);
            if (left <= most) continue;
            richest = i;
            most = left;
        }

        ref Place taken = ref set[richest];
        if (most < _burst) Displaced++;
        taken = new Place { Address = address, Kind = kind, Left = Math.Min(most, _burst), AtMs = nowMs };
        return ref taken;
    }

    private void Refill(ref Place place, long nowMs)
    {
        if (nowMs <= place.AtMs) return;
        place.Left = LeftAt(in place, nowMs);
        place.AtMs = nowMs;
    }

    /// <summary>
    /// Returns the credit at a time. One thousandth of the rate is added each millisecond, so there is no rounding,
    /// however often it is called.
    /// </summary>
    private long LeftAt(in Place place, long nowMs)
    {
        long elapsedMs = nowMs - place.AtMs;
        if (elapsedMs <= 0) return place.Left;
        // Divided instead of multiplied, because the product of a long time would overflow.
        return elapsedMs >= ((_burst - place.Left) / _perSecond) + 1
            ? _burst
            : Math.Min(_burst, place.Left + (elapsedMs * _perSecond));
    }

    private struct Place
    {
        internal ulong Address;
        internal long Left;
        internal long AtMs;
        internal uint Kind; // 0: free
    }
}
