using Whimbrel.Buffers;
using Whimbrel.Linux;

namespace Whimbrel.Engines.Epoll;

/// <summary>
/// The system calls that an epoll loop makes for its connections. Open, so that tests can count them, or force an answer that the
/// kernel would not give by itself. Each returns what the system call does; after -1 the error is <see cref="Syscall.LastError"/>. No state.
/// </summary>
// Safe: pointers go through to the system call, which keeps none.
internal abstract unsafe class EpollCalls
{
    internal static EpollCalls System { get; } = new Plain();

    internal virtual int Create() => Syscall.EpollCreate(EpollAbi.EPOLL_CLOEXEC);

    internal virtual int Wait(int epoll, byte* events, int count, int timeoutMs) => Syscall.EpollWait(epoll, events, count, timeoutMs);

    internal virtual int Control(int epoll, int operation, int fd, byte* epollEvent) => Syscall.EpollControl(epoll, operation, fd, epollEvent);

    internal virtual int Accept(int listener, byte* address, uint* length, int flags) => Syscall.Accept4(listener, address, length, flags);

    // These never wait, also where user code that has a Socket object of the same socket has made it blocking.
    internal virtual nint Receive(int fd, byte* buffer, nuint length) => Syscall.Receive(fd, buffer, length, SocketAbi.MSG_DONTWAIT);

    internal virtual nint Send(int fd, byte* buffer, nuint length) => Syscall.Send(fd, buffer, length, SocketAbi.MSG_NOSIGNAL | SocketAbi.MSG_DONTWAIT);

    internal virtual nint SendMessage(int fd, MessageHeader* message) => Syscall.SendMessage(fd, message, SocketAbi.MSG_NOSIGNAL | SocketAbi.MSG_DONTWAIT);

    /// <summary>As <see cref="FileTransfer.Send"/>, error and all.</summary>
    internal virtual long SendFile(int fd, Block file) => FileTransfer.Send(fd, file);

    internal virtual int FinishSend(int fd) => Syscall.Shutdown(fd, SocketAbi.SHUT_WR);

    internal virtual void Close(int fd) => Syscall.Close(fd);

    private sealed class Plain : EpollCalls;
}
