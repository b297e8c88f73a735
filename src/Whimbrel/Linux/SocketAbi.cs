using System.Runtime.InteropServices;

namespace Whimbrel.Linux;

/// <summary>Constants and structures of the Linux socket API, equal on x64 and arm64. Sizes are asserted by a
/// test.</summary>
internal static class SocketAbi
{
    internal const int AF_UNIX = 1;
    internal const int AF_INET = 2;
    internal const int AF_INET6 = 10;

    internal const int SOCK_STREAM = 1;
    internal const int SOCK_NONBLOCK = 0x800;
    internal const int SOCK_CLOEXEC = 0x80000;

    internal const int SOL_SOCKET = 1;
    internal const int SO_REUSEADDR = 2;
    internal const int SO_TYPE = 3;
    internal const int SO_ERROR = 4;
    internal const int SO_SNDBUF = 7;
    internal const int SO_RCVBUF = 8;
    internal const int SO_KEEPALIVE = 9;
    internal const int SO_LINGER = 13;
    internal const int SO_REUSEPORT = 15;
    internal const int SO_BINDTODEVICE = 25;
    internal const int SO_ATTACH_FILTER = 26;
    internal const int SO_ACCEPTCONN = 30;
    internal const int SO_MARK = 36;
    internal const int SO_BUSY_POLL = 46;

    internal const int IPPROTO_TCP = 6;
    internal const int TCP_NODELAY = 1;
    internal const int TCP_KEEPIDLE = 4;
    internal const int TCP_KEEPINTVL = 5;
    internal const int TCP_KEEPCNT = 6;
    internal const int TCP_DEFER_ACCEPT = 9;
    internal const int TCP_INFO = 11;
    internal const int TCP_USER_TIMEOUT = 18;
    internal const int TCP_FASTOPEN = 23;
    internal const int TCP_FASTOPEN_CONNECT = 30;
    internal const int TCP_CLOSE = 7; // a state of TCP_INFO

    internal const int IPPROTO_IP = 0;
    internal const int IP_TOS = 1;
    internal const int IP_FREEBIND = 15;
    internal const int IP_BIND_ADDRESS_NO_PORT = 24;

    internal const int IPPROTO_IPV6 = 41;
    internal const int IPV6_V6ONLY = 26;
    internal const int IPV6_TCLASS = 67;

    internal const int MSG_NOSIGNAL = 0x4000;
    internal const int MSG_DONTWAIT = 0x40;

    internal const int SHUT_RD = 0;
    internal const int SHUT_WR = 1;
    internal const int SHUT_RDWR = 2;

    /// <summary>Buffer size for any address of this library: sockaddr_un is the largest with 110 bytes.</summary>
    internal const int MaxAddressBytes = 128;

    /// <summary>Maximum length of a Unix socket path in bytes, without the terminating zero.</summary>
    internal const int MaxUnixPathBytes = 107;

    /// <summary>
    /// Maximum length of a network device name in bytes, without the terminating zero (IFNAMSIZ - 1).
    /// </summary>
    internal const int MaxDeviceBytes = 15;
}

/// <summary>One piece of a vectored send (struct iovec, 16 bytes).</summary>
[StructLayout(LayoutKind.Sequential)]
internal unsafe struct IoVector
{
    internal byte* Base;
    internal nuint Length;
}

/// <summary>struct msghdr, 56 bytes on 64-bit machines.</summary>
[StructLayout(LayoutKind.Sequential)]
internal unsafe struct MessageHeader
{
    internal byte* Name;
    internal uint NameLength;
    internal IoVector* Vectors;
    internal nuint VectorCount;
    internal void* Control;
    internal nuint ControlLength;
    internal int Flags;
}

/// <summary>One instruction of a classic packet filter (struct sock_filter, 8 bytes).</summary>
[StructLayout(LayoutKind.Sequential)]
internal readonly struct FilterInstruction(ushort code, byte jumpIfTrue, byte jumpIfFalse, uint operand)
{
    internal readonly ushort Code = code;
    internal readonly byte JumpIfTrue = jumpIfTrue;
    internal readonly byte JumpIfFalse = jumpIfFalse;
    internal readonly uint Operand = operand;
}

/// <summary>struct sock_fprog, 16 bytes on 64-bit machines.</summary>
[StructLayout(LayoutKind.Sequential)]
internal unsafe struct FilterProgram
{
    internal ushort Count;
    internal FilterInstruction* Instructions;
}

/// <summary>struct linger, 8 bytes. On with 0 seconds makes close send a reset.</summary>
[StructLayout(LayoutKind.Sequential)]
internal struct LingerOption
{
    internal int OnOff;
    internal int Seconds;
}
