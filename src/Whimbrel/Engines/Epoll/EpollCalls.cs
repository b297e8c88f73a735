using Whimbrel.Linux;

namespace Whimbrel.Engines.Epoll;

/// <summary>
/// System calls by which an epoll loop waits; calls on its sockets are in <see cref="Connections.SocketCalls"/>. Open
/// for a simulation and for tests that count calls. A negative result is the negated error number. Called by the loop's
/// thread, except <see cref="Wake"/>. No state.
/// </summary>
// Safe: pointers are passed to the system call, which keeps none.
internal abstract unsafe class EpollCalls
{
    internal static EpollCalls System { get; } = new Plain();

    /// <summary>Creates an empty epoll set.</summary>
    internal virtual int Create()
    {
        int fd = Syscall.EpollCreate(EpollAbi.EPOLL_CLOEXEC);
        return fd >= 0 ? fd : -Syscall.LastError;
    }

    /// <summary>Creates a descriptor that is readable from <see cref="Wake"/> until <see cref="TakeWake"/>.</summary>
    internal virtual int CreateWake()
    {
        int fd = Syscall.EventFd(0, EpollAbi.EFD_CLOEXEC | EpollAbi.EFD_NONBLOCK);
        return fd >= 0 ? fd : -Syscall.LastError;
    }

    /// <summary>Waits, and returns the number of events.</summary>
    internal virtual int Wait(int epoll, byte* events, int count, int timeoutMs)
    {
        int ready = Syscall.EpollWait(epoll, events, count, timeoutMs);
        return ready >= 0 ? ready : -Syscall.LastError;
    }

    internal virtual int Control(int epoll, int operation, int fd, byte* epollEvent) =>
        Syscall.EpollControl(epoll, operation, fd, epollEvent) == 0 ? 0 : -Syscall.LastError;

    /// <summary>Makes the descriptor readable. Any thread.</summary>
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

    /// <summary>Closes an epoll set or a wake descriptor.</summary>
    internal virtual void Close(int fd) => Syscall.Close(fd);

    private sealed class Plain : EpollCalls;
}
