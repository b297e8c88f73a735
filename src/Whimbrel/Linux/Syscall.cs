using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

[assembly: DisableRuntimeMarshalling]

namespace Whimbrel.Linux;

/// <summary>
/// The system calls of the library, without policy. Plain blittable DllImport without SetLastError and without
/// SuppressGCTransition: measured as fast as any other form, and a long call with a suppressed transition would delay
/// every garbage collection (docs/design/0003-plain-dllimport.md). On -1 the caller reads <see cref="LastError"/> at
/// once. Safe to call with pointers that stay valid for the call; the kernel keeps none of them.
/// </summary>
internal static unsafe class Syscall
{
    /// <summary>errno of the last failed call on this thread. Read it before any other call.</summary>
    internal static int LastError
    {
        [MethodImpl(MethodImplOptions.AggressiveInlining)]
        get => Marshal.GetLastSystemError();
    }

    [DllImport("libc", EntryPoint = "socket")]
    internal static extern int Socket(int domain, int type, int protocol);

    [DllImport("libc", EntryPoint = "bind")]
    internal static extern int Bind(int fd, byte* address, uint length);

    [DllImport("libc", EntryPoint = "listen")]
    internal static extern int Listen(int fd, int backlog);

    [DllImport("libc", EntryPoint = "accept4")]
    internal static extern int Accept4(int fd, byte* address, uint* length, int flags);

    [DllImport("libc", EntryPoint = "connect")]
    internal static extern int Connect(int fd, byte* address, uint length);

    [DllImport("libc", EntryPoint = "recv")]
    internal static extern nint Receive(int fd, byte* buffer, nuint length, int flags);

    [DllImport("libc", EntryPoint = "send")]
    internal static extern nint Send(int fd, byte* buffer, nuint length, int flags);

    [DllImport("libc", EntryPoint = "sendmsg")]
    internal static extern nint SendMessage(int fd, MessageHeader* message, int flags);

    [DllImport("libc", EntryPoint = "recvmsg")]
    internal static extern nint ReceiveMessage(int fd, MessageHeader* message, int flags);

    [DllImport("libc", EntryPoint = "recvmmsg")]
    internal static extern int ReceiveMessages(int fd, MultiMessage* messages, uint count, int flags, void* timeout);

    [DllImport("libc", EntryPoint = "sendmmsg")]
    internal static extern int SendMessages(int fd, MultiMessage* messages, uint count, int flags);

    [DllImport("libc", EntryPoint = "sendfile64")]
    internal static extern nint SendFile(int socket, int file, long* offset, nuint count);

    [DllImport("libc", EntryPoint = "splice")]
    internal static extern nint Splice(int from, long* fromOffset, int to, long* toOffset, nuint count, uint flags);

    [DllImport("libc", EntryPoint = "pipe2")]
    internal static extern int Pipe(int* ends, int flags);

    [DllImport("libc", EntryPoint = "shutdown")]
    internal static extern int Shutdown(int fd, int how);

    [DllImport("libc", EntryPoint = "close")]
    private static extern int CloseDescriptor(int fd);

    /// <summary>
    /// Closes a descriptor. It is closed whatever the call returns (on Linux also after EINTR), so there is nothing to
    /// retry.
    /// </summary>
    internal static void Close(int fd) => _ = CloseDescriptor(fd);

    // fcntl is variadic; on x64 and arm64 Linux its arguments are passed like ordinary ones.
    [DllImport("libc", EntryPoint = "fcntl")]
    private static extern int FileControl(int fd, int command, nint argument);

    /// <summary>Sets the capacity of a pipe. If that is rejected, it stays unchanged.</summary>
    internal static void SetPipeSize(int fd, int bytes)
    {
        const int F_SETPIPE_SZ = 1031;
        _ = FileControl(fd, F_SETPIPE_SZ, bytes);
    }

    /// <summary>Duplicates a descriptor. Returns the new one, or minus the error number.</summary>
    internal static int Duplicate(int fd)
    {
        const int F_DUPFD_CLOEXEC = 1030;
        int duplicate = FileControl(fd, F_DUPFD_CLOEXEC, 0);
        return duplicate >= 0 ? duplicate : -LastError;
    }

    /// <summary>Closes a descriptor in programs that this process starts.</summary>
    internal static void CloseOnExec(int fd)
    {
        const int F_SETFD = 2, FD_CLOEXEC = 1;
        _ = FileControl(fd, F_SETFD, FD_CLOEXEC);
    }

    [DllImport("libc", EntryPoint = "getsockname")]
    internal static extern int GetSocketName(int fd, byte* address, uint* length);

    [DllImport("libc", EntryPoint = "setsockopt")]
    internal static extern int SetSocketOption(int fd, int level, int name, void* value, uint length);

    [DllImport("libc", EntryPoint = "getsockopt")]
    internal static extern int GetSocketOption(int fd, int level, int name, void* value, uint* length);

    [DllImport("libc", EntryPoint = "epoll_create1")]
    internal static extern int EpollCreate(int flags);

    [DllImport("libc", EntryPoint = "epoll_ctl")]
    internal static extern int EpollControl(int epoll, int operation, int fd, byte* epollEvent);

    [DllImport("libc", EntryPoint = "epoll_wait")]
    internal static extern int EpollWait(int epoll, byte* events, int count, int timeoutMs);

    [DllImport("libc", EntryPoint = "eventfd")]
    internal static extern int EventFd(uint value, int flags);

    [DllImport("libc", EntryPoint = "read")]
    internal static extern nint Read(int fd, void* buffer, nuint length);

    [DllImport("libc", EntryPoint = "write")]
    internal static extern nint Write(int fd, void* buffer, nuint length);

    [DllImport("libc", EntryPoint = "open")]
    internal static extern int Open(byte* path, int flags, int mode);

    [DllImport("libc", EntryPoint = "unlink")]
    internal static extern int Unlink(byte* path);

    [DllImport("libc", EntryPoint = "rename")]
    internal static extern int Rename(byte* from, byte* to);

    [DllImport("libc", EntryPoint = "link")]
    internal static extern int Link(byte* from, byte* to);

    [DllImport("libc", EntryPoint = "chmod")]
    internal static extern int ChangeMode(byte* path, uint mode);

    [DllImport("libc", EntryPoint = "geteuid")]
    internal static extern uint EffectiveUser();

    [DllImport("libc", EntryPoint = "getpeername")]
    internal static extern int GetPeerName(int fd, byte* address, uint* length);

    [DllImport("libc", EntryPoint = "socketpair")]
    internal static extern int SocketPair(int domain, int type, int protocol, int* pair);

    [DllImport("libc", EntryPoint = "ioctl")]
    private static extern int InputOutputControl(int fd, nuint request, int* argument);

    [DllImport("libc", EntryPoint = "mmap")]
    internal static extern void* Map(void* address, nuint length, int protection, int flags, int fd, long offset);

    [DllImport("libc", EntryPoint = "munmap")]
    private static extern int UnmapMemory(void* address, nuint length);

    /// <summary>Removes a mapping. Fails only for an invalid one.</summary>
    internal static void Unmap(void* address, nuint length) => _ = UnmapMemory(address, length);

    // io_uring has no functions in the C library. syscall is variadic; on x64 and arm64 Linux its arguments are passed
    // like ordinary ones.
    [DllImport("libc", EntryPoint = "syscall")]
    private static extern nint Call(nint number, nint a, nint b, nint c, nint d, nint e, nint f);

    /// <summary>Creates a ring. Returns its descriptor, or minus the error number.</summary>
    internal static int UringSetup(uint entries, UringParameters* parameters)
    {
        nint fd = Call(UringAbi.SetupCall, (nint)entries, (nint)parameters, 0, 0, 0, 0);
        return fd >= 0 ? (int)fd : -LastError;
    }

    /// <summary>Submits and waits. Returns the number of submitted entries, or minus the error number.</summary>
    internal static int UringEnter(int fd, uint submit, uint complete, uint flags, void* argument, nuint argumentSize)
    {
        nint taken = Call(UringAbi.EnterCall, fd, (nint)submit, (nint)complete, (nint)flags, (nint)argument,
            (nint)argumentSize);
        return taken >= 0 ? (int)taken : -LastError;
    }

    /// <summary>
    /// Registers resources. Returns 0 or a positive number that depends on the operation, or minus the error number.
    /// </summary>
    internal static int UringRegister(int fd, uint operation, void* argument, uint count)
    {
        nint result = Call(UringAbi.RegisterCall, fd, (nint)operation, (nint)argument, (nint)count, 0, 0);
        return result >= 0 ? (int)result : -LastError;
    }

    /// <summary>Sets blocking or non-blocking mode of a descriptor. Returns 0 or an error number.</summary>
    internal static int SetNonBlocking(int fd, bool isNonBlocking)
    {
        const nuint FIONBIO = 0x5421;
        int value = isNonBlocking ? 1 : 0;
        return InputOutputControl(fd, FIONBIO, &value) == 0 ? 0 : LastError;
    }

    /// <summary>Gets the number of bytes that can be received. Returns 0 or an error number.</summary>
    internal static int CountArrived(int fd, out int count)
    {
        const nuint FIONREAD = 0x541B;
        int value = 0;
        int result = InputOutputControl(fd, FIONREAD, &value) == 0 ? 0 : LastError;
        count = value;
        return result;
    }

    /// <summary>Sets one integer option. Returns 0 or an error number.</summary>
    internal static int SetOption(int fd, int level, int name, int value) =>
        SetSocketOption(fd, level, name, &value, sizeof(int)) == 0 ? 0 : LastError;
}
