using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Whimbrel.Linux;

/// <summary>
/// One end of a Unix socket with packets (SOCK_SEQPACKET) that carry text and at most one descriptor. Calls block, with
/// a time limit each. Owns its descriptor. One thread at a time.
/// </summary>
// Safe: pointers are to memory on the stack or pinned, for the length of a call.
internal sealed unsafe class UpgradeChannel : IDisposable
{
    internal const int MaxTextBytes = 4096;
    private const int SOCK_SEQPACKET = 5;
    private const int SCM_RIGHTS = 1;
    private const int SO_PEERCRED = 17;
    private const int SO_RCVTIMEO = 20;
    private const int SO_SNDTIMEO = 21;
    private const int MSG_CTRUNC = 8;
    private const int MSG_CMSG_CLOEXEC = 0x40000000;
    private const int ControlBytes = 24; // a cmsghdr and one descriptor, rounded up
    private const int RightsBytes = 20;
    private const int Backlog = 16;

    private int _fd;

    private UpgradeChannel(int fd)
    {
        _fd = fd;
        int* peer = stackalloc int[3]; // struct ucred: process, user, group
        uint length = 3 * sizeof(int);
        bool isKnown = Syscall.GetSocketOption(fd, SocketAbi.SOL_SOCKET, SO_PEERCRED, peer, &length) == 0;
        (PeerProcess, PeerUser) = isKnown ? (peer[0], peer[1]) : (0, -1);
    }

    /// <summary>Process id of the other end, when it connected or began to listen.</summary>
    internal int PeerProcess { get; }

    /// <summary>User id of the other end's process.</summary>
    internal int PeerUser { get; }

    /// <summary>Effective user id of this process.</summary>
    internal static int OwnUser => (int)Syscall.EffectiveUser();

    /// <summary>
    /// Connects to a path. Returns null and the error number if that fails; EAGAIN after the time limit.
    /// </summary>
    internal static UpgradeChannel? Connect(UnixDomainSocketEndPoint endPoint, TimeSpan limit, out int error)
    {
        int fd = Open(out error);
        if (fd < 0) return null;
        SetLimit(fd, SO_SNDTIMEO, limit); // a connect waits while the backlog is full
        byte* address = stackalloc byte[SocketAbi.MaxAddressBytes];
        if (Syscall.Connect(fd, address, AddressCodec.Encode(endPoint, address)) == 0) return new UpgradeChannel(fd);
        error = Syscall.LastError;
        Syscall.Close(fd);
        return null;
    }

    /// <summary>
    /// Listens at a temporary path that only the user of this process can connect to. Returns the descriptor, or a
    /// negated error number.
    /// </summary>
    internal static int Listen(UnixDomainSocketEndPoint endPoint)
    {
        int fd = Open(out int error);
        if (fd < 0) return -error;
        byte* address = stackalloc byte[SocketAbi.MaxAddressBytes];
        Delete(endPoint.ToString());
        if (Syscall.Bind(fd, address, AddressCodec.Encode(endPoint, address)) != 0) error = Syscall.LastError;
        // Set before it listens, so that no other user can connect at any time.
        if (error == 0) error = WithPath(endPoint.ToString(), static p => Syscall.ChangeMode(p, 0b110_000_000));
        if (error == 0 && Syscall.Listen(fd, Backlog) != 0) error = Syscall.LastError;
        if (error == 0) return fd;
        Syscall.Close(fd);
        return -error;
    }

    /// <summary>Waits for the next connection of a listening descriptor. Null if that fails.</summary>
    internal static UpgradeChannel? Accept(int listenFd)
    {
        int fd = Syscall.Accept4(listenFd, null, null, SocketAbi.SOCK_CLOEXEC);
        return fd < 0 ? null : new UpgradeChannel(fd);
    }

    /// <summary>Replaces the file at the second path by the one at the first. Returns 0 or an error number.</summary>
    internal static int Rename(string from, string to) => WithPaths(from, to, Syscall.Rename);

    /// <summary>
    /// Adds the second path to the file at the first. Returns 0 or an error number: EEXIST if the path exists.
    /// </summary>
    internal static int Link(string from, string to) => WithPaths(from, to, Syscall.Link);

    private static int WithPaths(string from, string to, PathsCall call)
    {
        byte[] source = Encoding.UTF8.GetBytes(from + "\0");
        byte[] target = Encoding.UTF8.GetBytes(to + "\0");
        fixed (byte* s = source, t = target) return call(s, t) == 0 ? 0 : Syscall.LastError;
    }

    internal static void Delete(string path) => WithPath(path, static p => Syscall.Unlink(p));

    /// <summary>
    /// Sends one packet, with a duplicate of a descriptor if it is not negative. Returns 0 or an error number: EAGAIN
    /// after the time limit.
    /// </summary>
    internal int Send(string text, TimeSpan limit, int descriptor = -1)
    {
        SetLimit(_fd, SO_SNDTIMEO, limit);
        byte[] bytes = Encoding.UTF8.GetBytes(text);
        byte* control = stackalloc byte[ControlBytes];
        fixed (byte* p = bytes)
        {
            IoVector vector = new() { Base = p, Length = (nuint)Math.Min(bytes.Length, MaxTextBytes) };
            MessageHeader message = new() { Vectors = &vector, VectorCount = 1 };
            if (descriptor >= 0)
            {
                *(ControlHeader*)control =
                    new ControlHeader { Length = RightsBytes, Level = SocketAbi.SOL_SOCKET, Type = SCM_RIGHTS };
                *(int*)(control + sizeof(ControlHeader)) = descriptor;
                message.Control = control;
                message.ControlLength = ControlBytes;
            }

            while (Syscall.SendMessage(_fd, &message, SocketAbi.MSG_NOSIGNAL) < 0)
            {
                if (Syscall.LastError != Errno.EINTR) return Syscall.LastError;
            }

            return 0;
        }
    }

    /// <summary>
    /// Receives one packet. Returns its text; or null and the error number: EAGAIN after the time limit, ECONNRESET at
    /// the end of the stream, EMFILE if there was no descriptor left for the one of the packet.
    /// </summary>
    /// <param name="limit">Maximum time.</param>
    /// <param name="descriptor">The descriptor, which the caller owns; or -1.</param>
    /// <param name="error">Error number, or 0.</param>
    internal string? Receive(TimeSpan limit, out int descriptor, out int error)
    {
        descriptor = -1;
        error = 0;
        SetLimit(_fd, SO_RCVTIMEO, limit);
        byte* buffer = stackalloc byte[MaxTextBytes];
        byte* control = stackalloc byte[ControlBytes];
        IoVector vector = new() { Base = buffer, Length = MaxTextBytes };
        MessageHeader message =
            new() { Vectors = &vector, VectorCount = 1, Control = control, ControlLength = ControlBytes };
        nint length;
        while ((length = Syscall.ReceiveMessage(_fd, &message, MSG_CMSG_CLOEXEC)) < 0)
        {
            error = Syscall.LastError;
            if (error != Errno.EINTR) return null;
        }

        error = 0;
        if (message.ControlLength >= RightsBytes && ((ControlHeader*)control)->Type == SCM_RIGHTS
            && ((ControlHeader*)control)->Length >= RightsBytes)
            descriptor = *(int*)(control + sizeof(ControlHeader));
        if ((message.Flags & MSG_CTRUNC) != 0) error = Errno.EMFILE;
        else if (length == 0) error = Errno.ECONNRESET;
        if (error == 0) return Encoding.UTF8.GetString(buffer, (int)length);
        if (descriptor >= 0) Syscall.Close(descriptor);
        descriptor = -1;
        return null;
    }

    /// <summary>Closes. The peer can still receive what was sent, and its own sends fail with EPIPE.</summary>
    public void Dispose()
    {
        int fd = Interlocked.Exchange(ref _fd, -1);
        if (fd < 0) return;
        // A close with unread packets would reset the connection, and the peer would lose the refusal that it was sent.
        _ = Syscall.Shutdown(fd, SocketAbi.SHUT_RD);
        byte rest;
        while (Syscall.Receive(fd, &rest, 1, SocketAbi.MSG_DONTWAIT) > 0)
        {
            // Discarded, with their descriptors.
        }

        Syscall.Close(fd);
    }

    private static int Open(out int error)
    {
        int fd = Syscall.Socket(SocketAbi.AF_UNIX, SOCK_SEQPACKET | SocketAbi.SOCK_CLOEXEC, 0);
        error = fd < 0 ? Syscall.LastError : 0;
        return fd;
    }

    private static void SetLimit(int fd, int option, TimeSpan limit)
    {
        // struct timeval: seconds, microseconds. Zero would be no limit.
        long* value = stackalloc long[2];
        value[0] = (long)limit.TotalSeconds;
        value[1] = Math.Max(1, limit.Ticks / TimeSpan.TicksPerMicrosecond % 1_000_000);
        _ = Syscall.SetSocketOption(fd, SocketAbi.SOL_SOCKET, option, value, 2 * sizeof(long));
    }

    private delegate int PathCall(byte* path);

    private delegate int PathsCall(byte* from, byte* to);

    private static int WithPath(string path, PathCall call)
    {
        byte[] bytes = Encoding.UTF8.GetBytes(path + "\0");
        fixed (byte* p = bytes) return call(p) == 0 ? 0 : Syscall.LastError;
    }
}
