using Whimbrel.Engines;
using Whimbrel.Linux;

namespace Whimbrel.Connections;

/// <summary>
/// The pipe of the kernel through which data moves from one socket of a loop to another without a copy. One for each
/// loop, created on demand, and empty between two uses: data that the second socket does not take is read into memory.
/// Owned by the loop; its thread only.
/// </summary>
/// <param name="sockets">System calls on sockets.</param>
/// <param name="largeBlock">Large block of the loop, for data that the second socket does not take.</param>
// Safe: pointers are passed to the system call; the block is the loop's until the callback has returned.
internal sealed unsafe class Duct(SocketCalls sockets, LargeBlock largeBlock)
{
    /// <summary>Capacity of the pipe, and most bytes of one transfer.</summary>
    internal const int Bytes = 256 * 1024;

    /// <summary>
    /// Size of a receive from which a connection's data is spliced. For fewer bytes, two additional calls cost more
    /// than two copies.
    /// </summary>
    internal const int FromBytes = 16 * 1024;

    private int _entry = -1;
    private int _exit = -1;
    private bool _isRefused;

    /// <summary>
    /// Moves data that has arrived at one socket to the other; data that this does not take is delivered as a normal
    /// receive. Returns the number of bytes; 0 if there was none and a normal receive has to find out why; or a negated
    /// error number for the source.
    /// </summary>
    /// <param name="source">Connection to read from.</param>
    /// <param name="from">Socket of the source. It is non-blocking, or has received data.</param>
    /// <param name="target">Connection to write to.</param>
    /// <param name="to">Socket of the target.</param>
    /// <param name="toWaits">True if the target's socket is blocking; it is made non-blocking for the call.</param>
    internal int Pass(Connection source, int from, Connection target, int to, bool toWaits = false)
    {
        int count = Fill(from);
        if (count <= 0) return count;
        source.Loop.Counters.Sends++;
        int taken = toWaits ? EmptyIntoWaiting(to, count, out int error) : Empty(to, count, out error);
        if (taken > 0) source.CompleteSplice(target, taken);
        if (error != 0)
        {
            sockets.SendBroke(to, error);
            target.Outbound.FailSend(error);
        }

        int rest = count - taken;
        if (rest > 0)
        {
            byte* memory = largeBlock.Take();
            if (!TryRead(memory, rest)) return -Errno.EIO;
            source.CompleteReceive(new ReadOnlySpan<byte>(memory, rest));
            Loop.PoisonReceived(new Span<byte>(memory, rest));
        }

        return count;
    }

    /// <summary>
    /// Reads from a socket into the pipe. Returns the number of bytes, 0 for none, or a negated error number. None is
    /// not taken for the end of the stream, because the system returns the same before an urgent byte.
    /// </summary>
    private int Fill(int socket)
    {
        if (_isRefused) return 0;
        // Descriptors may be exhausted temporarily; until then data is copied.
        if (_entry < 0 && sockets.OpenDuct(Bytes, out _entry, out _exit) != 0) return 0;
        int count = sockets.Splice(socket, _entry, Bytes);
        _isRefused = count is -Errno.EINVAL or -Errno.ENOSYS;
        // Memory may be insufficient for this way only.
        return _isRefused || count is -Errno.EAGAIN or -Errno.EINTR or -Errno.ENOBUFS or -Errno.ENOMEM ? 0 : count;
    }

    /// <summary>
    /// Writes the pipe to a socket. Returns the number of bytes taken. Without an error, the socket has no space for
    /// the rest now.
    /// </summary>
    private int Empty(int socket, int count, out int error)
    {
        error = 0;
        int taken = 0;
        while (taken < count)
        {
            int moved = sockets.Splice(_exit, socket, count - taken);
            if (moved == -Errno.EINTR) continue;
            if (moved <= 0)
            {
                if (moved != 0 && !FileTransfer.MustWait(moved)) error = -moved;
                break;
            }

            taken += moved;
        }

        return taken;
    }

    /// <summary>
    /// Writes to a blocking socket, because splice has no flag against blocking. Operations in progress have checked
    /// the mode before, and none is submitted meanwhile.
    /// </summary>
    private int EmptyIntoWaiting(int socket, int count, out int error)
    {
        error = 0;
        if (sockets.SetWaits(socket, false) != 0) return 0;
        int taken = Empty(socket, count, out error);
        _ = sockets.SetWaits(socket, true);
        return taken;
    }

    /// <summary>Reads the rest out of the pipe. Returns false if that failed and the rest is lost.</summary>
    private bool TryRead(byte* memory, int count)
    {
        for (int read = 0; read < count;)
        {
            int got = sockets.ReadDuct(_exit, memory + read, count - read);
            if (got == -Errno.EINTR) continue;
            if (got <= 0)
            {
                // Remaining data in the pipe must not reach another connection.
                Free();
                return false;
            }

            read += got;
        }

        return true;
    }

    internal void Free()
    {
        if (_entry < 0) return;
        sockets.Close(_entry);
        sockets.Close(_exit);
        (_entry, _exit) = (-1, -1);
    }
}
