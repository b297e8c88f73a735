using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

[assembly: DisableRuntimeMarshalling]

namespace Whimbrel.Linux;

/// <summary>
/// The system calls of the library, with no policy. Plain blittable DllImport without SetLastError and without
/// SuppressGCTransition: measured as cheap as any other form, and a suppressed call that lasts would hold up every
/// garbage collection (docs/design/0003-plain-dllimport.md). On -1 the caller reads <see cref="LastError"/> at once.
/// Safe to call with pointers that stay valid for the call; the kernel keeps none of them.
/// </summary>
internal static unsafe class Syscall
{
    /// <summary>errno of the last failed call on this thread. Read before anything else can run.</summary>
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

    [DllImport("libc", EntryPoint = "shutdown")]
    internal static extern int Shutdown(int fd, int how);

    [DllImport("libc", EntryPoint = "close")]
    private static extern int CloseDescriptor(int fd);

    /// <summary>Whatever it returns, the descriptor is gone afterwards (on Linux also after EINTR): there is nothing to retry.</summary>
    internal static void Close(int fd) => _ = CloseDescriptor(fd);

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

    /// <summary>Sets one integer option. Returns 0 or an error number.</summary>
    internal static int SetOption(int fd, int level, int name, int value) =>
        SetSocketOption(fd, level, name, &value, sizeof(int)) == 0 ? 0 : LastError;
}
