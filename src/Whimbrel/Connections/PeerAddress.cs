using System.Net;
using System.Runtime.InteropServices;

namespace Whimbrel.Connections;

/// <summary>
/// IP address and port of a peer as a value, so that accepting a connection allocates no end point. Empty for a Unix
/// peer without a name. Converted to an <see cref="IPEndPoint"/> on demand.
/// </summary>
internal readonly struct PeerAddress
{
    private readonly ulong _high;
    private readonly ulong _low;
    private readonly uint _scope;
    private readonly ushort _port;
    private readonly byte _family; // 0 none, 4, 6

    private PeerAddress(ulong high, ulong low, uint scope, ushort port, byte family)
    {
        _high = high;
        _low = low;
        _scope = scope;
        _port = port;
        _family = family;
    }

    internal bool IsEmpty => _family == 0;

    internal static PeerAddress V4(uint networkOrder, ushort port) => new(networkOrder, 0, 0, port, 4);

    internal static PeerAddress V6(ulong high, ulong low, ushort port, uint scope) => new(high, low, scope, port, 6);

    internal static PeerAddress Of(EndPoint? endPoint)
    {
        if (endPoint is not IPEndPoint ip) return default;
        Span<byte> bytes = stackalloc byte[16];
        ip.Address.TryWriteBytes(bytes, out int count);
        return count == 4
            ? V4(MemoryMarshal.Read<uint>(bytes), (ushort)ip.Port)
            : V6(MemoryMarshal.Read<ulong>(bytes), MemoryMarshal.Read<ulong>(bytes[8..]), (ushort)ip.Port,
                (uint)ip.Address.ScopeId);
    }

    /// <summary>
    /// Returns an end point, which allocates. An IPv4 address of a dual-stack listener is returned as IPv4.
    /// </summary>
    internal EndPoint? ToEndPoint()
    {
        if (_family == 0) return null;
        if (_family == 4) return new IPEndPoint(new IPAddress((uint)_high), _port);
        Span<byte> bytes = stackalloc byte[16];
        MemoryMarshal.Write(bytes, _high);
        MemoryMarshal.Write(bytes[8..], _low);
        IPAddress address = new(bytes, _scope);
        return new IPEndPoint(address.IsIPv4MappedToIPv6 ? address.MapToIPv4() : address, _port);
    }
}
