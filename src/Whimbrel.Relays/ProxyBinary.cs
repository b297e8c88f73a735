using System.Buffers;
using System.Buffers.Binary;
using System.Net;
using System.Net.Sockets;
using System.Numerics;
using System.Text;

namespace Whimbrel.Relays;

// Version 2: a signature, command, family and length, then addresses and extensions.
internal static class ProxyBinary
{
    internal const int HeadLength = 16;

    private const int PathLength = 108, PortsLength = 4, FamilyLength = 2;
    private const int LocalCommand = 0x20, ProxyCommand = 0x21;
    private const int Unspecified = 0, OverV4 = 1, OverV6 = 2, OverUnix = 3;
    private const int Stream = 1, Datagram = 2;

    internal static ReadOnlySpan<byte> Signature => [0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49,
        0x54, 0x0A];

    internal static OperationStatus Read(ReadOnlySpan<byte> bytes, int limit, out ProxyHeader? header, out int length,
        out ProxyFault fault)
    {
        (header, length) = (null, 0);
        fault = CheckHead(bytes, limit, out int total);
        if (fault != ProxyFault.None) return OperationStatus.InvalidData;
        if (total == 0 || bytes.Length < total) return OperationStatus.NeedMoreData;
        fault = ReadBody(bytes[..total], out header);
        if (fault != ProxyFault.None) return OperationStatus.InvalidData;
        length = total;
        return OperationStatus.Done;
    }

    internal static void Write(ProxyHeader header, IBufferWriter<byte> output, bool hasChecksum)
    {
        int family = FamilyOf(header);
        int addresses = AddressLength(family);
        int total = checked(HeadLength + addresses + header.Extensions.Sum(static e => Extensions.HeadLength
            + e.Value.Length) + (hasChecksum ? Extensions.HeadLength + sizeof(uint) : 0));
        if (total > ProxyHeader.MaxLength)
            throw new InvalidOperationException(
                $"A PROXY header has {ProxyHeader.MaxLength} bytes at most, this one would have {total}.");
        if (header.Extensions.Any(static e => e.Type == ProxyExtension.Checksum))
            throw new InvalidOperationException("A checksum is not given but asked for.");
        Span<byte> all = output.GetSpan(total)[..total];
        Signature.CopyTo(all);
        all[12] = (byte)(header.IsLocal ? LocalCommand : ProxyCommand);
        all[13] = (byte)(family == Unspecified ? 0 : (family << 4) | Stream);
        BinaryPrimitives.WriteUInt16BigEndian(all[14..], (ushort)(total - HeadLength));
        WriteAddresses(header, family, all.Slice(HeadLength, addresses));
        Span<byte> rest = all[(HeadLength + addresses)..];
        foreach (ProxyExtension extension in header.Extensions)
        {
            rest[0] = extension.Type;
            BinaryPrimitives.WriteUInt16BigEndian(rest[1..], checked((ushort)extension.Value.Length));
            extension.Value.Span.CopyTo(rest[Extensions.HeadLength..]);
            rest = rest[(Extensions.HeadLength + extension.Value.Length)..];
        }

        if (hasChecksum)
        {
            rest[0] = ProxyExtension.Checksum;
            BinaryPrimitives.WriteUInt16BigEndian(rest[1..], sizeof(uint));
            rest[Extensions.HeadLength..].Clear();
            BinaryPrimitives.WriteUInt32BigEndian(rest[Extensions.HeadLength..], ChecksumOf(all, total));
        }

        output.Advance(total);
    }

    /// <summary>Returns both addresses unchanged if they have one family, otherwise both as IPv6.</summary>
    internal static (IPAddress From, IPAddress To) SameFamily(IPAddress from, IPAddress to) =>
        from.AddressFamily == to.AddressFamily ? (from, to) : (from.MapToIPv6(), to.MapToIPv6());

    // Each byte is checked as soon as it is there, so that the result does not depend on how the bytes were split.
    private static ProxyFault CheckHead(ReadOnlySpan<byte> bytes, int limit, out int total)
    {
        total = 0;
        if (bytes.Length <= 12) return ProxyFault.None;
        if (bytes[12] >> 4 != 2) return ProxyFault.Version;
        if (bytes[12] is not (LocalCommand or ProxyCommand)) return ProxyFault.Command;
        if (bytes.Length <= 13) return ProxyFault.None;
        int family = bytes[12] == LocalCommand ? Unspecified : bytes[13] >> 4;
        int transport = bytes[13] & 15;
        // AF_UNSPEC means unspecified addresses with any transport.
        if (bytes[12] == ProxyCommand
            && (family > OverUnix || transport > Datagram || (transport == Unspecified && family != Unspecified)))
            return ProxyFault.Family;
        if (bytes.Length < HeadLength) return ProxyFault.None;
        int length = BinaryPrimitives.ReadUInt16BigEndian(bytes[14..]);
        if (length < AddressLength(family)) return ProxyFault.TooShort;
        if (HeadLength + length > limit) return ProxyFault.TooLong;
        total = HeadLength + length;
        return ProxyFault.None;
    }

    private static ProxyFault ReadBody(ReadOnlySpan<byte> all, out ProxyHeader? header)
    {
        header = null;
        if (all[12] == LocalCommand)
        {
            // The specification: the addresses of LOCAL are ignored.
            header = ProxyHeader.Local;
            return ProxyFault.None;
        }

        int family = all[13] >> 4;
        int at = HeadLength + AddressLength(family);
        ReadOnlySpan<byte> rest = all[at..];
        if (!Extensions.AreValid(rest, out int checksumAt))
        {
            if (family != Unspecified) return ProxyFault.Extension;
            // With AF_UNSPEC the receiver skips the addresses. Their length is unknown, so the start of the extensions
            // is too.
            rest = default;
            checksumAt = 0;
        }

        if (checksumAt > 0 && BinaryPrimitives.ReadUInt32BigEndian(rest[checksumAt..]) != ChecksumOf(all,
            at + checksumAt + sizeof(uint)))
            return ProxyFault.Checksum;
        (EndPoint? source, EndPoint? destination) = ReadAddresses(family, all[HeadLength..at]);
        List<ProxyExtension> extensions = [];
        while (Extensions.Next(ref rest, out byte type, out ReadOnlySpan<byte> value))
            extensions.Add(new ProxyExtension(type, value.ToArray()));
        header = new ProxyHeader(2, false, source, destination, extensions);
        return ProxyFault.None;
    }

    private static int AddressLength(int family) =>
        family switch { OverV4 => 8 + PortsLength, OverV6 => 32 + PortsLength, OverUnix => 2 * PathLength, _ => 0 };

    private static (EndPoint? Source, EndPoint? Destination) ReadAddresses(int family, ReadOnlySpan<byte> bytes)
    {
        if (family == Unspecified) return (null, null);
        if (family == OverUnix) return (ReadPath(bytes[..PathLength]), ReadPath(bytes[PathLength..]));
        int size = (bytes.Length - PortsLength) / 2;
        ReadOnlySpan<byte> ports = bytes[(2 * size)..];
        return (new IPEndPoint(new IPAddress(bytes[..size]), BinaryPrimitives.ReadUInt16BigEndian(ports)),
            new IPEndPoint(new IPAddress(bytes.Slice(size, size)), BinaryPrimitives.ReadUInt16BigEndian(ports[2..])));
    }

    // A path ends with a zero byte, an abstract name begins with one; an unnamed socket has none.
    private static UnixDomainSocketEndPoint? ReadPath(ReadOnlySpan<byte> bytes)
    {
        ReadOnlySpan<byte> name = bytes[0] == 0 ? bytes.TrimEnd((byte)0)
            : bytes.IndexOf((byte)0) is >= 0 and int end ? bytes[..end] : bytes;
        string path = Encoding.UTF8.GetString(name);

        // Linux has 108 bytes for a path. Other systems have fewer, and .NET throws there.
        return name.IsEmpty || name.Length >= PathLength || path.IndexOf('\0', 1) > 0
            || Encoding.UTF8.GetByteCount(path) >= PathLength ? null : new UnixDomainSocketEndPoint(path);
    }

    private static int FamilyOf(ProxyHeader header) => header.Source switch
    {
        _ when header.IsLocal => Unspecified,
        UnixDomainSocketEndPoint => OverUnix,
        IPEndPoint source => SameFamily(source.Address, ((IPEndPoint)header.Destination!).Address).From.AddressFamily
            == AddressFamily.InterNetworkV6 ? OverV6 : OverV4,
        _ => Unspecified,
    };

    private static void WriteAddresses(ProxyHeader header, int family, Span<byte> room)
    {
        if (family == OverUnix)
        {
            room.Clear();
            WritePath(header.Source!, room[..PathLength]);
            WritePath(header.Destination!, room[PathLength..]);
        }
        else if (header is { Source: IPEndPoint source, Destination: IPEndPoint destination } && family != Unspecified)
        {
            (IPAddress from, IPAddress to) = SameFamily(source.Address, destination.Address);
            int size = (room.Length - PortsLength) / 2;
            _ = from.TryWriteBytes(room, out _) && to.TryWriteBytes(room[size..], out _);
            BinaryPrimitives.WriteUInt16BigEndian(room[(2 * size)..], (ushort)source.Port);
            BinaryPrimitives.WriteUInt16BigEndian(room[((2 * size) + 2)..], (ushort)destination.Port);
        }
    }

    private static void WritePath(EndPoint endPoint, Span<byte> room)
    {
        // The bytes of sockaddr_un after the family, because ToString writes an abstract name as a path that begins
        // with @.
        SocketAddress address = endPoint.Serialize();
        for (int i = FamilyLength; i < address.Size && i - FamilyLength < room.Length; i++)
            room[i - FamilyLength] = address[i];
    }

    // CRC-32C of all bytes, with zeros in place of the checksum, which ends at this offset.
    private static uint ChecksumOf(ReadOnlySpan<byte> all, int end)
    {
        uint crc = uint.MaxValue;
        for (int i = 0; i < all.Length; i++)
            crc = BitOperations.Crc32C(crc, i >= end - sizeof(uint) && i < end ? (byte)0 : all[i]);
        return ~crc;
    }
}
