using System.Net;
using System.Net.Sockets;
using Whimbrel.Buffers;
using Whimbrel.Datagrams;
using Whimbrel.Engines;
using Whimbrel.Linux;

namespace Whimbrel.Connections;

/// <summary>
/// What both Linux engines ask of the system about a stream socket; how they wait for it is their own. Open, so that a simulation can be the
/// system, and tests can count calls or give answers that it would not give by itself. A number that is negative is minus the error number.
/// The last section is what engines do with these calls, once for both. No state; the thread of the loop that owns the socket.
/// </summary>
// Safe: pointers go through to the system call, which keeps none.
internal abstract unsafe class SocketCalls
{
    internal static SocketCalls System { get; } = new Plain();

    // ------------------------------------------------------------------ making one

    /// <summary>A listening descriptor whose calls do not wait, and the address it really has.</summary>
    internal virtual int Listen(Listener listener, out EndPoint bound) => SocketFactory.Listen(listener, out bound);

    /// <summary>Starts a dial; <paramref name="pending"/> when the answer is still to come: then the descriptor becomes writable.</summary>
    internal virtual int Connect(ConnectAttempt connector, out bool pending) => SocketFactory.Connect(connector, out pending);

    /// <summary>The error that a dial ended with; 0 when it is connected.</summary>
    internal virtual int ConnectErrorOf(int fd)
    {
        int error;
        uint length = sizeof(int);
        return Syscall.GetSocketOption(fd, SocketAbi.SOL_SOCKET, SocketAbi.SO_ERROR, &error, &length) == 0 ? error : Syscall.LastError;
    }

    /// <summary>A fast open whose peer has not answered: asks it, also when there is nothing to send. True when it has answered.</summary>
    internal virtual bool OpenDeferred(int fd)
    {
        byte none;
        return Send(fd, &none, 0) >= 0;
    }

    /// <summary>One that waits at the listener, with flags as accept4 has them. Without an address it is not told.</summary>
    internal virtual int Accept(int listener, byte* address, uint* length, int flags)
    {
        int fd = Syscall.Accept4(listener, address, length, flags);
        return fd >= 0 ? fd : -Syscall.LastError;
    }

    /// <summary>The listener completes no new connection; those that are complete can still be accepted.</summary>
    internal virtual void RefuseNewcomers(int listener, EndPoint endPoint) => SocketFactory.RefuseNewcomers(listener, endPoint);

    /// <summary>A descriptor that can be given up when no other is to be had.</summary>
    internal virtual int OpenReserve()
    {
        ReadOnlySpan<byte> path = "/dev/null\0"u8;
        const int readOnlyCloseOnExec = 0x80000;
        fixed (byte* p = path) return Syscall.Open(p, readOnlyCloseOnExec, 0);
    }

    // ------------------------------------------------------------------ asking and setting

    /// <summary>Null when it cannot be told.</summary>
    internal virtual EndPoint? LocalEndPointOf(int fd) => SocketFactory.LocalEndPointOf(fd);

    internal virtual PeerAddress PeerAddressOf(int fd)
    {
        byte* address = stackalloc byte[SocketAbi.MaxAddressBytes];
        uint length = SocketAbi.MaxAddressBytes;
        return Syscall.GetPeerName(fd, address, &length) == 0 ? AddressCodec.Decode(address, length) : default;
    }

    /// <summary>The connection has ended by a reset, or by the system giving it up, whoever was told.</summary>
    internal virtual bool WasReset(int fd)
    {
        // Its first byte is the state. A Unix socket has none.
        ulong info = 0;
        uint length = sizeof(ulong);
        return Syscall.GetSocketOption(fd, SocketAbi.IPPROTO_TCP, SocketAbi.TCP_INFO, &info, &length) == 0 && (byte)info == SocketAbi.TCP_CLOSE;
    }

    /// <summary>Calls on it wait from now on, or do not. 0, or minus the error number.</summary>
    internal virtual int SetWaits(int fd, bool waits) => -Syscall.SetNonBlocking(fd, !waits);

    // ------------------------------------------------------------------ bytes: these never wait, whatever others have made of the socket

    /// <summary>The number of bytes, and 0 for the end; -EAGAIN for nothing yet.</summary>
    internal virtual int Receive(int fd, byte* buffer, int length)
    {
        nint received = Syscall.Receive(fd, buffer, (nuint)length, SocketAbi.MSG_DONTWAIT);
        return received >= 0 ? (int)received : -Syscall.LastError;
    }

    /// <summary>The number of bytes that the socket took; -EAGAIN for no room.</summary>
    internal virtual int Send(int fd, byte* bytes, int length)
    {
        nint taken = Syscall.Send(fd, bytes, (nuint)length, SocketAbi.MSG_NOSIGNAL | SocketAbi.MSG_DONTWAIT);
        return taken >= 0 ? (int)taken : -Syscall.LastError;
    }

    /// <summary>The same for several pieces, one behind the other. The system takes less than 2 GiB in one call.</summary>
    internal virtual int Send(int fd, IoVector* pieces, int count)
    {
        MessageHeader message = new() { Vectors = pieces, VectorCount = (nuint)count };
        nint taken = Syscall.SendMessage(fd, &message, SocketAbi.MSG_NOSIGNAL | SocketAbi.MSG_DONTWAIT);
        return taken >= 0 ? (int)taken : -Syscall.LastError;
    }

    /// <summary>As <see cref="FileTransfer.Send"/>. Waits for room where calls on the socket wait: it has no flag for that.</summary>
    internal virtual long SendFile(int fd, Block file) => FileTransfer.Send(fd, file);

    // ------------------------------------------------------------------ bytes that stay in the system: these never wait either, unless somebody has made a socket wait

    /// <summary>A pipe of the system with about so much room: what goes into one descriptor comes out of the other. 0, or minus the error number.</summary>
    internal virtual int OpenDuct(int bytes, out int entry, out int exit)
    {
        (entry, exit) = (-1, -1);
        const int nonBlockingCloseOnExec = 0x80800;
        int* ends = stackalloc int[2];
        if (Syscall.Pipe(ends, nonBlockingCloseOnExec) != 0) return -Syscall.LastError;
        (exit, entry) = (ends[0], ends[1]);
        Syscall.SetPipeSize(entry, bytes);
        return 0;
    }

    /// <summary>Moves bytes from a socket into a duct, or out of one to a socket, uncopied. How many, 0 for the end, or minus the error number.</summary>
    internal virtual int Splice(int from, int to, int length)
    {
        const uint move = 1, withoutWaiting = 2;
        nint moved = Syscall.Splice(from, null, to, null, (nuint)length, move | withoutWaiting);
        return moved >= 0 ? (int)moved : -Syscall.LastError;
    }

    /// <summary>So many bytes have arrived and can be received, those before an urgent one at most; or minus the error number.</summary>
    internal virtual int CountArrived(int fd)
    {
        int result = Syscall.CountArrived(fd, out int count);
        return result == 0 ? count : -result;
    }

    /// <summary>Reads what lies in a duct. How many bytes, or minus the error number.</summary>
    internal virtual int ReadDuct(int exit, byte* buffer, int length)
    {
        nint read = Syscall.Read(exit, buffer, (nuint)length);
        return read >= 0 ? (int)read : -Syscall.LastError;
    }

    // ------------------------------------------------------------------ ending

    /// <summary>Sends FIN.</summary>
    internal virtual void ShutdownSend(int fd) => _ = Syscall.Shutdown(fd, SocketAbi.SHUT_WR);

    /// <summary>A receive gives what has arrived, and then the end.</summary>
    internal virtual void FinishReceive(int fd) => _ = Syscall.Shutdown(fd, SocketAbi.SHUT_RD);

    /// <summary>Makes closing it send a reset.</summary>
    internal virtual void ResetOnClose(int fd)
    {
        Linux.LingerOption linger = new() { OnOff = 1, Seconds = 0 };
        _ = Syscall.SetSocketOption(fd, SocketAbi.SOL_SOCKET, SocketAbi.SO_LINGER, &linger, (uint)sizeof(Linux.LingerOption));
    }

    /// <summary>The peer gets a reset now, where the protocol has one, and all that waits on it ends.</summary>
    internal virtual void BreakOff(int fd)
    {
        // A FIN would look like the end of all bytes; connecting to nowhere is how TCP is disconnected. Unix sockets have neither.
        byte* nowhere = stackalloc byte[SocketAbi.MaxAddressBytes];
        new Span<byte>(nowhere, SocketAbi.MaxAddressBytes).Clear();
        if (Syscall.Connect(fd, nowhere, SocketAbi.MaxAddressBytes) == 0) return;
        ResetOnClose(fd);
        _ = Syscall.Shutdown(fd, SocketAbi.SHUT_RDWR);
    }

    /// <summary>Also of the reserve and of a duct. The number may be another thread's before it returns.</summary>
    internal virtual void Close(int fd) => Syscall.Close(fd);

    /// <summary>Deletes the path of a Unix socket.</summary>
    internal virtual void DeletePath(string path) => SocketFactory.DeletePath(path);

    // ------------------------------------------------------------------ what engines do with them

    /// <summary>Makes the socket of a listener; from then on user code may have an object of it. A descriptor whose calls do not wait.</summary>
    internal int Open(Listener listener)
    {
        int fd = Listen(listener, out EndPoint bound);
        if (fd < 0) return fd;
        listener.BeginSharing(new RawSocket(fd, null));
        listener.EndPoint = bound;
        return fd;
    }

    /// <summary>The same for datagrams.</summary>
    internal static int Open(DatagramResident socket)
    {
        int fd = DatagramSetup.Open(socket);
        if (fd >= 0) socket.BeginSharing(new RawSocket(fd, null));
        return fd;
    }

    /// <summary>A dial has its answer: 0, and the connector knows where it is bound, or the error number.</summary>
    internal int EndConnect(ConnectAttempt connector, int fd)
    {
        int error = ConnectErrorOf(fd);
        if (error == 0) connector.LocalEndPoint = LocalEndPointOf(fd);
        return error;
    }

    /// <summary>
    /// A send has failed. The end comes after what the peer still sent. After an error that is not the connection's own the socket may live
    /// on: then its end must not wait for the peer, nor look to it like the end of all bytes.
    /// </summary>
    internal void SendBroke(int fd, int error)
    {
        if (error is Errno.EPIPE or Errno.ECONNRESET) return;
        ResetOnClose(fd);
        FinishReceive(fd);
    }

    /// <summary>A receive has failed. While the connection drains nobody else would notice: bytes that are still queued must not look like all of them.</summary>
    internal void ReceiveBroke(int fd, int error)
    {
        if (error != Errno.ECONNRESET) ResetOnClose(fd);
    }

    /// <summary>
    /// Out of descriptors: gives up the reserve to take one connection off the queue of the listener, whose calls do not wait, and closes it;
    /// then takes the reserve back.
    /// </summary>
    internal virtual ShedResult Shed(int listener, ref int reserve)
    {
        if (reserve >= 0) Close(reserve);
        int fd = Accept(listener, null, null, SocketAbi.SOCK_CLOEXEC);
        if (fd >= 0) Close(fd);
        reserve = OpenReserve();
        if (fd >= 0) return ShedResult.Shed;
        return fd == -Errno.EAGAIN ? ShedResult.NobodyWaits : ShedResult.Failed;
    }

    /// <summary>The descriptor is closed: the name in the file system that the socket had, if it had one, goes too.</summary>
    internal void DeletePathOf(Resident resident)
    {
        EndPoint? endPoint = resident switch
        {
            Listener { IsLeftBehind: false } listener => listener.EndPoint,
            DatagramResident socket => socket.EndPoint,
            _ => null,
        };
        // An @ begins a name that is in no file system.
        if (endPoint is UnixDomainSocketEndPoint && endPoint.ToString() is { } path && !path.StartsWith('@')) DeletePath(path);
    }

    private sealed class Plain : SocketCalls;
}

/// <summary>What became of an attempt to shed a connection.</summary>
internal enum ShedResult : byte
{
    /// <summary>One was taken and closed.</summary>
    Shed,

    /// <summary>Nobody was waiting.</summary>
    NobodyWaits,

    /// <summary>Not even the reserve was to be had.</summary>
    Failed,
}
