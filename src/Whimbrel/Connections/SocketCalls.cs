using System.Net;
using System.Net.Sockets;
using Whimbrel.Buffers;
using Whimbrel.Datagrams;
using Whimbrel.Engines;
using Whimbrel.Linux;

namespace Whimbrel.Connections;

/// <summary>
/// System calls of both Linux engines on a stream socket; each engine waits in its own way. Open, so that a simulation
/// can be the system, and tests can count calls or force rare results. A negative result is the negated error number.
/// The last section has functions of these calls that both engines share. No state; the thread of the loop that owns
/// the socket.
/// </summary>
// Safe: pointers are passed to the system call, which keeps none.
internal abstract unsafe class SocketCalls
{
    internal static SocketCalls System { get; } = new Plain();

    // ------------------------------------------------------------------ creating

    /// <summary>Creates a non-blocking listening descriptor, and returns the bound address.</summary>
    internal virtual int Listen(Listener listener, out EndPoint bound) => SocketFactory.Listen(listener, out bound);

    /// <summary>
    /// Starts a connect. If <paramref name="pending"/> is true, the result is still to come, and the descriptor becomes
    /// writable.
    /// </summary>
    internal virtual int Connect(ConnectAttempt connector, out bool pending) =>
        SocketFactory.Connect(connector, out pending);

    /// <summary>Returns the error of a connect; 0 if it is connected.</summary>
    internal virtual int ConnectErrorOf(int fd)
    {
        int error;
        uint length = sizeof(int);
        return Syscall.GetSocketOption(fd, SocketAbi.SOL_SOCKET, SocketAbi.SO_ERROR, &error, &length) == 0
            ? error
            : Syscall.LastError;
    }

    /// <summary>
    /// Starts the connect of a fast open, even if there is nothing to send. Returns true if the peer has answered.
    /// </summary>
    internal virtual bool OpenDeferred(int fd)
    {
        byte none;
        return Send(fd, &none, 0) >= 0;
    }

    /// <summary>Accepts a waiting connection, with the flags of accept4. The address may be null.</summary>
    internal virtual int Accept(int listener, byte* address, uint* length, int flags)
    {
        int fd = Syscall.Accept4(listener, address, length, flags);
        return fd >= 0 ? fd : -Syscall.LastError;
    }

    /// <summary>Makes the listener complete no new connection; completed ones can still be accepted.</summary>
    internal virtual void RefuseNewcomers(int listener, EndPoint endPoint) =>
        SocketFactory.RefuseNewcomers(listener, endPoint);

    /// <summary>Opens a descriptor that can be released when no other is free.</summary>
    internal virtual int OpenReserve()
    {
        ReadOnlySpan<byte> path = "/dev/null\0"u8;
        const int readOnlyCloseOnExec = 0x80000;
        fixed (byte* p = path) return Syscall.Open(p, readOnlyCloseOnExec, 0);
    }

    // ------------------------------------------------------------------ querying and setting

    /// <summary>Returns the local end point; null if it is unknown.</summary>
    internal virtual EndPoint? LocalEndPointOf(int fd) => SocketFactory.LocalEndPointOf(fd);

    internal virtual PeerAddress PeerAddressOf(int fd)
    {
        byte* address = stackalloc byte[SocketAbi.MaxAddressBytes];
        uint length = SocketAbi.MaxAddressBytes;
        return Syscall.GetPeerName(fd, address, &length) == 0 ? AddressCodec.Decode(address, length) : default;
    }

    /// <summary>
    /// True if the connection has ended by a reset or a timeout of the system, even if the error was reported to
    /// another call.
    /// </summary>
    internal virtual bool WasReset(int fd)
    {
        // The first byte is the state. A Unix socket has none.
        ulong info = 0;
        uint length = sizeof(ulong);
        return Syscall.GetSocketOption(fd, SocketAbi.IPPROTO_TCP, SocketAbi.TCP_INFO, &info, &length) == 0
            && (byte)info == SocketAbi.TCP_CLOSE;
    }

    /// <summary>Makes the socket blocking or non-blocking. Returns 0, or a negated error number.</summary>
    internal virtual int SetWaits(int fd, bool waits) => -Syscall.SetNonBlocking(fd, !waits);

    // ------------------------------------------------------------------ data: these calls never block, even on a
    // blocking socket

    /// <summary>
    /// Receives. Returns the number of bytes, 0 at the end of the stream, -EAGAIN if there is nothing yet.
    /// </summary>
    internal virtual int Receive(int fd, byte* buffer, int length)
    {
        nint received = Syscall.Receive(fd, buffer, (nuint)length, SocketAbi.MSG_DONTWAIT);
        return received >= 0 ? (int)received : -Syscall.LastError;
    }

    /// <summary>Sends. Returns the number of bytes that the socket took; -EAGAIN if it is full.</summary>
    internal virtual int Send(int fd, byte* bytes, int length)
    {
        nint taken = Syscall.Send(fd, bytes, (nuint)length, SocketAbi.MSG_NOSIGNAL | SocketAbi.MSG_DONTWAIT);
        return taken >= 0 ? (int)taken : -Syscall.LastError;
    }

    /// <summary>Sends several pieces in order. The system takes less than 2 GiB in one call.</summary>
    internal virtual int Send(int fd, IoVector* pieces, int count)
    {
        MessageHeader message = new() { Vectors = pieces, VectorCount = (nuint)count };
        nint taken = Syscall.SendMessage(fd, &message, SocketAbi.MSG_NOSIGNAL | SocketAbi.MSG_DONTWAIT);
        return taken >= 0 ? (int)taken : -Syscall.LastError;
    }

    /// <summary>Sends pieces in order, a single one without a list.</summary>
    internal int Send(int fd, ReadOnlySpan<IoVector> pieces)
    {
        fixed (IoVector* vectors = pieces)
        {
            return pieces.Length == 1
                ? Send(fd, vectors->Base, (int)vectors->Length)
                : Send(fd, vectors, pieces.Length);
        }
    }

    /// <summary>
    /// As <see cref="FileTransfer.Send"/>. Blocks on a full blocking socket, because sendfile has no flag against that.
    /// </summary>
    internal virtual long SendFile(int fd, Block file) => FileTransfer.Send(fd, file);

    // ------------------------------------------------------------------ data that stays in the kernel: these calls do
    // not block either, except on a blocking socket

    /// <summary>
    /// Opens a pipe of the kernel with about this capacity: data written to one descriptor is read from the other.
    /// Returns 0, or a negated error number.
    /// </summary>
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

    /// <summary>
    /// Moves data from a socket into a pipe, or from a pipe to a socket, without a copy. Returns the number of bytes, 0
    /// at the end of the stream, or a negated error number.
    /// </summary>
    internal virtual int Splice(int from, int to, int length)
    {
        const uint move = 1, withoutWaiting = 2;
        nint moved = Syscall.Splice(from, null, to, null, (nuint)length, move | withoutWaiting);
        return moved >= 0 ? (int)moved : -Syscall.LastError;
    }

    /// <summary>Returns the number of received bytes, up to an urgent byte; or a negated error number.</summary>
    internal virtual int CountArrived(int fd)
    {
        int result = Syscall.CountArrived(fd, out int count);
        return result == 0 ? count : -result;
    }

    /// <summary>Reads from a pipe. Returns the number of bytes, or a negated error number.</summary>
    internal virtual int ReadDuct(int exit, byte* buffer, int length)
    {
        nint read = Syscall.Read(exit, buffer, (nuint)length);
        return read >= 0 ? (int)read : -Syscall.LastError;
    }

    // ------------------------------------------------------------------ ending

    /// <summary>Sends FIN.</summary>
    internal virtual void ShutdownSend(int fd) => _ = Syscall.Shutdown(fd, SocketAbi.SHUT_WR);

    /// <summary>Shuts down receiving: a receive returns data that has arrived, then the end of the stream.</summary>
    internal virtual void FinishReceive(int fd) => _ = Syscall.Shutdown(fd, SocketAbi.SHUT_RD);

    /// <summary>Makes closing the socket send a reset.</summary>
    internal virtual void ResetOnClose(int fd)
    {
        Linux.LingerOption linger = new() { OnOff = 1, Seconds = 0 };
        _ = Syscall.SetSocketOption(fd, SocketAbi.SOL_SOCKET, SocketAbi.SO_LINGER, &linger,
            (uint)sizeof(Linux.LingerOption));
    }

    /// <summary>Resets the connection now, if the protocol can, and ends all operations that wait for it.</summary>
    internal virtual void BreakOff(int fd)
    {
        // A FIN would look like a normal end of stream. A connect to AF_UNSPEC disconnects TCP. Unix sockets have
        // neither.
        byte* nowhere = stackalloc byte[SocketAbi.MaxAddressBytes];
        new Span<byte>(nowhere, SocketAbi.MaxAddressBytes).Clear();
        if (Syscall.Connect(fd, nowhere, SocketAbi.MaxAddressBytes) == 0) return;
        ResetOnClose(fd);
        _ = Syscall.Shutdown(fd, SocketAbi.SHUT_RDWR);
    }

    /// <summary>Closes any descriptor. Another thread may get the number before the call returns.</summary>
    internal virtual void Close(int fd) => Syscall.Close(fd);

    /// <summary>Deletes the path of a Unix socket.</summary>
    internal virtual void DeletePath(string path) => SocketFactory.DeletePath(path);

    // ------------------------------------------------------------------ shared by the engines

    /// <summary>
    /// Creates the non-blocking socket of a listener; from then on user code may get an object of it.
    /// </summary>
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
        int fd = socket.OpenDescriptor();
        if (fd >= 0) socket.BeginSharing(new RawSocket(fd, null));
        return fd;
    }

    /// <summary>Ends a connect. Returns 0 and sets the local end point, or returns the error number.</summary>
    internal int EndConnect(ConnectAttempt connector, int fd)
    {
        int error = ConnectErrorOf(fd);
        if (error == 0) connector.LocalEndPoint = LocalEndPointOf(fd);
        return error;
    }

    /// <summary>
    /// Called when a send has failed. The connection ends after the data that the peer has still sent. After an error
    /// that does not come from the connection the socket may stay usable. Its end must then neither wait for the peer
    /// nor look like a normal end of stream.
    /// </summary>
    internal void SendBroke(int fd, int error)
    {
        if (error is Errno.EPIPE or Errno.ECONNRESET) return;
        ResetOnClose(fd);
        FinishReceive(fd);
    }

    /// <summary>
    /// Called when a receive has failed. Otherwise a draining connection would not notice, and the peer would take the
    /// data sent so far for all of it.
    /// </summary>
    internal void ReceiveBroke(int fd, int error)
    {
        if (error != Errno.ECONNRESET) ResetOnClose(fd);
    }

    /// <summary>
    /// Called without free descriptors: closes the reserve, accepts one connection of the non-blocking listener and
    /// closes it, then opens the reserve again.
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

    /// <summary>Deletes the path of a Unix socket after its descriptor was closed.</summary>
    internal void DeletePathOf(Resident resident)
    {
        if (!resident.OwnsPath) return;
        EndPoint? endPoint = (resident as Listener)?.EndPoint ?? (resident as DatagramResident)?.EndPoint;
        // A name that begins with @ is not in the file system.
        if (endPoint is UnixDomainSocketEndPoint && endPoint.ToString() is { } path && !path.StartsWith('@'))
            DeletePath(path);
    }

    private sealed class Plain : SocketCalls;
}

/// <summary>Result of an attempt to shed a connection.</summary>
internal enum ShedResult : byte
{
    /// <summary>One connection was accepted and closed.</summary>
    Shed,

    /// <summary>No connection was waiting.</summary>
    NobodyWaits,

    /// <summary>Not even the reserve could be used.</summary>
    Failed,
}
