using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using Whimbrel.Datagrams;

namespace Whimbrel;

/// <summary>
/// Source or destination of a datagram, as a value of 32 bytes: IP address, scope and port inline, a Unix path as an
/// interned reference. May be stored, compared and used as a key. Creating one for a received datagram allocates
/// nothing.
/// </summary>
/// <remarks>
/// An IPv4 address that arrived at a dual-stack socket is represented as IPv4, and may be sent to as such.
/// <c>default</c> is no peer: a Unix sender without a name, or the peer of a connected socket.
/// </remarks>
public readonly struct DatagramPeer : IEquatable<DatagramPeer>
{
    internal const int PackedBytes = 24;

    private readonly ulong _high;
    private readonly ulong _low;
    private readonly UnixName? _name;
    private readonly uint _scope;
    private readonly ushort _port;
    private readonly byte _family; // 0 none, 4, 6, 1 Unix

    private DatagramPeer(ulong high, ulong low, uint scope, ushort port, byte family, UnixName? name = null)
    {
        _high = high;
        _low = low;
        _scope = scope;
        _port = port;
        _family = family;
        _name = name;
    }

    /// <summary>Creates a peer with an IP address. The form ::ffff:a.b.c.d counts as IPv4.</summary>
    /// <param name="address">IPv4 or IPv6 address; the scope of a link-local address is kept.</param>
    /// <param name="port">Port, 0 to 65,535. No socket receives at port 0.</param>
    public DatagramPeer(IPAddress address, int port)
    {
        ArgumentNullException.ThrowIfNull(address);
        ArgumentOutOfRangeException.ThrowIfNegative(port);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(port, ushort.MaxValue);
        Span<byte> bytes = stackalloc byte[16];
        address.TryWriteBytes(bytes, out int count);
        this = count == 4
            ? V4(MemoryMarshal.Read<uint>(bytes), (ushort)port)
            : V6(MemoryMarshal.Read<ulong>(bytes), MemoryMarshal.Read<ulong>(bytes[8..]), (ushort)port,
                (uint)address.ScopeId);
    }

    /// <summary>
    /// Creates a peer from an end point: IP, Unix path or abstract name. Throws <see cref="ArgumentException"/> for any
    /// other kind.
    /// </summary>
    /// <param name="endPoint">The end point.</param>
    public DatagramPeer(EndPoint endPoint)
    {
        ArgumentNullException.ThrowIfNull(endPoint);
        this = endPoint switch
        {
            IPEndPoint ip => new DatagramPeer(ip.Address, ip.Port),
            UnixDomainSocketEndPoint unix => Unix(new UnixName(unix.ToString())),
            _ => throw new ArgumentException($"{endPoint} ({endPoint.GetType().Name}) is no address of datagrams: give "
                + $"an IPEndPoint or a UnixDomainSocketEndPoint.", nameof(endPoint)),
        };
    }

    /// <summary>True for <c>default</c>: a sender without a name, which cannot be answered.</summary>
    public bool IsNone => _family == 0;

    /// <summary>InterNetwork, InterNetworkV6, Unix, or Unspecified for <c>default</c>.</summary>
    public AddressFamily Family => _family switch
    {
        4 => AddressFamily.InterNetwork,
        6 => AddressFamily.InterNetworkV6,
        1 => AddressFamily.Unix,
        _ => AddressFamily.Unspecified,
    };

    /// <summary>Port; 0 for a Unix peer.</summary>
    public int Port => _port;

    /// <summary>Scope (interface) of an IPv6 address; 0 if there is none.</summary>
    public long ScopeId => _scope;

    /// <summary>Path of a Unix peer, with '@' before an abstract name; null for others.</summary>
    public string? Path => _name?.Text;

    /// <summary>True if the address is an IP multicast group.</summary>
    public bool IsMulticast => _family switch
    {
        4 => ((uint)_high & 0xF0) == 0xE0,
        6 => (_high & 0xFF) == 0xFF,
        _ => false,
    };

    internal bool IsLoopback => _family switch
    {
        4 => ((uint)_high & 0xFF) == 127,
        6 => _high == 0 && _low == 0x0100_0000_0000_0000,
        _ => false,
    };

    internal UnixName? Name => _name;

    internal bool IsV4 => _family == 4;

    internal bool IsV6 => _family == 6;

    internal uint V4Bytes => (uint)_high;

    internal ulong HighBytes => _high;

    internal ulong LowBytes => _low;

    internal static DatagramPeer V4(uint networkOrder, ushort port) => new(networkOrder, 0, 0, port, 4);

    internal static DatagramPeer V6(ulong high, ulong low, ushort port, uint scope)
    {
        // ::ffff:a.b.c.d, in the byte order in memory.
        if (high == 0 && (uint)low == 0xFFFF0000) return V4((uint)(low >> 32), port);
        return new DatagramPeer(high, low, scope, port, 6);
    }

    internal static DatagramPeer Unix(UnixName name) => new(0, 0, 0, 0, 1, name);

    /// <summary>Writes everything except the Unix name, for passing it through a mailbox.</summary>
    internal void Pack(Span<byte> target)
    {
        MemoryMarshal.Write(target, _high);
        MemoryMarshal.Write(target[8..], _low);
        MemoryMarshal.Write(target[16..], _scope);
        MemoryMarshal.Write(target[20..], _port);
        MemoryMarshal.Write(target[22..], (ushort)_family);
    }

    internal static DatagramPeer Unpack(ReadOnlySpan<byte> source, UnixName? name) => new(
        MemoryMarshal.Read<ulong>(source),
        MemoryMarshal.Read<ulong>(source[8..]),
        MemoryMarshal.Read<uint>(source[16..]),
        MemoryMarshal.Read<ushort>(source[20..]),
        (byte)MemoryMarshal.Read<ushort>(source[22..]),
        name);

    /// <summary>
    /// Returns the same address with another port; with port 0, a key for all datagrams of one address.
    /// </summary>
    /// <param name="port">Port, 0 to 65,535.</param>
    public DatagramPeer WithPort(int port)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(port);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(port, ushort.MaxValue);
        return new DatagramPeer(_high, _low, _scope, (ushort)port, _family, _name);
    }

    internal static DatagramPeer WithoutPortAndScope(in DatagramPeer peer) =>
        new(peer._high, peer._low, 0, 0, peer._family, peer._name);

    /// <summary>
    /// Writes the bytes of the IP address in network order: 4 or 16. Returns false if there is no address or not enough
    /// space.
    /// </summary>
    /// <param name="target">Buffer of 16 bytes.</param>
    /// <param name="count">Number of bytes written.</param>
    public bool TryWriteAddress(Span<byte> target, out int count)
    {
        count = 0;
        if (_family == 4 && target.Length >= 4)
        {
            MemoryMarshal.Write(target, (uint)_high);
            count = 4;
            return true;
        }

        if (_family != 6 || target.Length < 16) return false;
        MemoryMarshal.Write(target, _high);
        MemoryMarshal.Write(target[8..], _low);
        count = 16;
        return true;
    }

    /// <summary>Returns the address as an end point; null for <c>default</c>. Allocates.</summary>
    public EndPoint? ToEndPoint() => _family switch
    {
        0 => null,
        1 => new UnixDomainSocketEndPoint(_name!.EndPointText),
        _ => new IPEndPoint(ToAddress()!, _port),
    };

    /// <summary>Returns the IP address; null for a Unix peer and for <c>default</c>. Allocates.</summary>
    public IPAddress? ToAddress()
    {
        if (_family == 4) return new IPAddress((uint)_high);
        if (_family != 6) return null;
        Span<byte> bytes = stackalloc byte[16];
        TryWriteAddress(bytes, out _);
        return new IPAddress(bytes, _scope);
    }

    /// <inheritdoc/>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public bool Equals(DatagramPeer other) =>
        _high == other._high && _low == other._low && _scope == other._scope && _port == other._port
        && _family == other._family
        && (ReferenceEquals(_name, other._name) || (_name is not null && _name.Equals(other._name)));

    /// <inheritdoc/>
    public override bool Equals(object? obj) => obj is DatagramPeer other && Equals(other);

    /// <inheritdoc/>
    public override int GetHashCode() => HashCode.Combine(_high, _low, _scope, _port, _name);

    /// <summary>
    /// Returns the text of an <see cref="IPEndPoint"/>, or the Unix path; "no peer" for <c>default</c>.
    /// </summary>
    public override string ToString() => _family switch
    {
        0 => "no peer",
        1 => _name!.Text,
        _ => new IPEndPoint(ToAddress()!, _port).ToString(),
    };

    /// <summary>Compares address and port.</summary>
    /// <param name="left">First peer.</param>
    /// <param name="right">Second peer.</param>
    public static bool operator ==(DatagramPeer left, DatagramPeer right) => left.Equals(right);

    /// <summary>Compares address and port.</summary>
    /// <param name="left">First peer.</param>
    /// <param name="right">Second peer.</param>
    public static bool operator !=(DatagramPeer left, DatagramPeer right) => !left.Equals(right);
}
