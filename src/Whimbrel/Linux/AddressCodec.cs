using System.Buffers.Binary;
using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Whimbrel.Linux;

/// <summary>Converts end points to kernel addresses and back. Stateless, any thread.</summary>
internal static unsafe class AddressCodec
{
    // Safe: `target` has MaxAddressBytes bytes and each branch writes fewer.
    internal static uint Encode(EndPoint endPoint, byte* target)
    {
        Span<byte> bytes = new(target, SocketAbi.MaxAddressBytes);
        bytes.Clear();
        if (endPoint is IPEndPoint ip)
        {
            bool v4 = ip.AddressFamily == AddressFamily.InterNetwork;
            BitConverter.TryWriteBytes(bytes, (ushort)(v4 ? SocketAbi.AF_INET : SocketAbi.AF_INET6));
            BinaryPrimitives.WriteUInt16BigEndian(bytes[2..], (ushort)ip.Port);
            if (v4)
            {
                ip.Address.TryWriteBytes(bytes[4..], out _);
                return 16;
            }

            ip.Address.TryWriteBytes(bytes[8..], out _);
            BitConverter.TryWriteBytes(bytes[24..], (uint)ip.Address.ScopeId);
            return 28;
        }

        BitConverter.TryWriteBytes(bytes, (ushort)SocketAbi.AF_UNIX);
        string path = ((UnixDomainSocketEndPoint)endPoint).ToString();
        // .NET shows the leading zero byte of an abstract name as '@'.
        bool isAbstract = path.StartsWith('@');
        int count = Encoding.UTF8.GetBytes(path, bytes.Slice(2, SocketAbi.MaxUnixPathBytes));
        if (isAbstract)
        {
            bytes[2] = 0;
            return (uint)(2 + count);
        }

        return (uint)(2 + count + 1);
    }

    internal static int FamilyOf(EndPoint endPoint) => endPoint.AddressFamily switch
    {
        AddressFamily.InterNetwork => SocketAbi.AF_INET,
        AddressFamily.InterNetworkV6 => SocketAbi.AF_INET6,
        _ => SocketAbi.AF_UNIX,
    };

    // Safe: reads only the first `length` bytes that the kernel wrote.
    internal static Connections.PeerAddress Decode(byte* source, uint length)
    {
        if (length < 2) return default;
        ReadOnlySpan<byte> bytes = new(source, (int)Math.Min(length, SocketAbi.MaxAddressBytes));
        ushort family = BitConverter.ToUInt16(bytes);
        if (family == SocketAbi.AF_INET && length >= 8)
        {
            return Connections.PeerAddress.V4(BitConverter.ToUInt32(bytes[4..]),
                BinaryPrimitives.ReadUInt16BigEndian(bytes[2..]));
        }

        if (family == SocketAbi.AF_INET6 && length >= 28)
        {
            return Connections.PeerAddress.V6(
                BitConverter.ToUInt64(bytes[8..]),
                BitConverter.ToUInt64(bytes[16..]),
                BinaryPrimitives.ReadUInt16BigEndian(bytes[2..]),
                BitConverter.ToUInt32(bytes[24..]));
        }

        return default;
    }
}
