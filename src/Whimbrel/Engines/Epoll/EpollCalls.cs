using Whimbrel.Linux;

namespace Whimbrel.Engines.Epoll;

/// <summary>
/// The system calls by which an epoll loop waits; those on its sockets are <see cref="Connections.SocketCalls"/>. Open, for a simulation and for
/// tests that count. A number that is negative is minus the error number. The loop's thread, but for <see cref="Wake"/>. No state.
/// </summary>
// Safe: pointers go through to the system call, which keeps none.
internal abstract unsafe class EpollCalls
{
    internal static EpollCalls System { get; } = new Plain();

    /// <summary>An empty set.</summary>
    internal virtual int Create()
    {
        int fd = Syscall.EpollCreate(EpollAbi.EPOLL_CLOEXEC);
        return fd >= 0 ? fd : -Syscall.LastError;
    }

    /// <summary>A descriptor that is readable after <see cref="Wake"/>, until <see cref="TakeWake"/>.</summary>
    internal virtual int CreateWake()
    {
        int fd = Syscall.EventFd(0, EpollAbi.EFD_CLOEXEC | EpollAbi.EFD_NONBLOCK);
        return fd >= 0 ? fd : -Syscall.LastError;
    }

    /// <summary>The number of events.</summary>
    internal virtual int Wait(int epoll, byte* events, int count, int timeoutMs)
    {
        int ready = Syscall.EpollWait(epoll, events, count, timeoutMs);
        return ready >= 0 ? ready : -Syscall.LastError;
    }

    internal virtual int Control(int epoll, int operation, int fd, byte* epollEvent) => Syscall.EpollControl(epoll, operation, fd, epollEvent) == 0 ? 0 : -Syscall.LastError;

    /// <summary>Any thread.</summary>
    internal virtual void Wake(int wake)
    {
        ulong one = 1;
        _ = Syscall.Write(wake, &one, sizeof(ulong));
    }

    internal virtual void TakeWake(int wake)
    {
        ulong value;
        _ = Syscall.Read(wake, &value, sizeof(ulong));
    }

    /// <summary>Closes a set, or what wakes it.</summary>
    internal virtual void Close(int fd) => Syscall.Close(fd);

    private sealed class Plain : EpollCalls;
}
