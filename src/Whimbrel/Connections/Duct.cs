using Whimbrel.Engines;
using Whimbrel.Linux;

namespace Whimbrel.Connections;

/// <summary>
/// The pipe of the system through which bytes go from one socket of a loop to another without a copy. One for each loop, made when it is needed, and
/// empty between two of its uses: what the second socket does not take is read out into memory. Owner: the loop; its thread only.
/// </summary>
// Safe: pointers go through to the system call.
internal sealed unsafe class Duct(SocketCalls sockets)
{
    /// <summary>Room for so much, and so much at a time.</summary>
    internal const int Bytes = 256 * 1024;

    /// <summary>So much at a time, once, and the connection's bytes come this way: for fewer the two calls more cost what the two copies less save.</summary>
    internal const int FromBytes = 16 * 1024;

    private int _entry = -1;
    private int _exit = -1;
    private bool _isRefused;

    /// <summary>So many came from the socket, 0 at its end, or minus the error number. <see cref="Errno.EINVAL"/>: not by this way, ever.</summary>
    internal int Fill(int socket)
    {
        if (_isRefused) return -Errno.EINVAL;
        // Out of descriptors, perhaps, which passes: meanwhile bytes are copied.
        if (_entry < 0 && sockets.OpenDuct(Bytes, out _entry, out _exit) != 0) return -Errno.ENOBUFS;
        int count = sockets.Splice(socket, _entry, Bytes);
        _isRefused = count is -Errno.EINVAL or -Errno.ENOSYS;
        return _isRefused ? -Errno.EINVAL : count;
    }

    /// <summary>How many of those that lie in it the socket took. An error ends it; without one the rest has no room now.</summary>
    internal int Empty(int socket, int count, out int error)
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

    /// <summary>Takes the rest out of it. False: it could not be had, and is lost.</summary>
    internal bool TryRead(byte* memory, int count)
    {
        for (int read = 0; read < count;)
        {
            int got = sockets.ReadDuct(_exit, memory + read, count - read);
            if (got == -Errno.EINTR) continue;
            if (got <= 0)
            {
                // Whatever lies in it is nobody's any more.
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
