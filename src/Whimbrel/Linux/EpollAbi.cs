using System.Runtime.InteropServices;

namespace Whimbrel.Linux;

/// <summary>
/// Constants of epoll and the two layouts of struct epoll_event: the kernel packs it to 12 bytes on x64 only,
/// everywhere else it is 16. <see cref="EpollEvents"/> hides the difference; a test asserts both sizes.
/// </summary>
internal static class EpollAbi
{
    internal const int EPOLL_CLOEXEC = 0x80000;
    internal const int EPOLL_CTL_ADD = 1;
    internal const int EPOLL_CTL_DEL = 2;
    internal const int EPOLL_CTL_MOD = 3;

    internal const uint EPOLLIN = 0x1;
    internal const uint EPOLLOUT = 0x4;
    internal const uint EPOLLPRI = 0x2;
    internal const uint EPOLLERR = 0x8;
    internal const uint EPOLLHUP = 0x10;
    internal const uint EPOLLRDHUP = 0x2000;

    internal const int EFD_CLOEXEC = 0x80000;
    internal const int EFD_NONBLOCK = 0x800;
}

/// <summary>struct epoll_event on x64: packed, 12 bytes.</summary>
[StructLayout(LayoutKind.Sequential, Pack = 1)]
internal struct EpollEventPacked
{
    internal uint Events;
    internal ulong Data;
}

/// <summary>struct epoll_event on every machine except x64: 16 bytes.</summary>
[StructLayout(LayoutKind.Sequential)]
internal struct EpollEventAligned
{
    internal uint Events;
    private readonly uint _padding;
    internal ulong Data;
}
