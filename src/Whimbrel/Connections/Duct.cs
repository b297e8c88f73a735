using Whimbrel.Engines;
using Whimbrel.Linux;

namespace Whimbrel.Connections;

/// <summary>
/// The pipe of the system through which bytes go from one socket of a loop to another without a copy. One for each loop, made when it is needed, and
/// empty between two of its uses: what the second socket does not take is read out into memory. Owner: the loop; its thread only.
/// </summary>
/// <param name="sockets">What is asked of the system.</param>
/// <param name="largeBlock">Of the loop: what the second socket does not take has room in it.</param>
// Safe: pointers go through to the system call; the block is the loop's until the callback has returned.
internal sealed unsafe class Duct(SocketCalls sockets, LargeBlock largeBlock)
{
    /// <summary>Room for so much, and so much at a time.</summary>
    internal const int Bytes = 256 * 1024;

    /// <summary>So much at a time, once, and the connection's bytes come this way: for fewer the two calls more cost what the two copies less save.</summary>
    internal const int FromBytes = 16 * 1024;

    private int _entry = -1;
    private int _exit = -1;
    private bool _isRefused;

    /// <summary>
    /// What has arrived at one socket goes to the other, and what that one does not take the usual way. How many bytes; 0 when it was none and a plain
    /// receive has to find out why; or minus the error number that the source has to be told of.
    /// </summary>
    /// <param name="source">Whose socket the bytes come from.</param>
    /// <param name="from">Its socket: calls on it do not wait, or something has arrived there.</param>
    /// <param name="target">Where they go.</param>
    /// <param name="to">Its socket.</param>
    /// <param name="toWaits">Calls on that one wait, and must not meanwhile.</param>
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
            target.FailSend(error);
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
    /// So many came from the socket, 0 for none, or minus the error number. That there is none is not taken for the end: before an urgent byte the system
    /// says the same.
    /// </summary>
    private int Fill(int socket)
    {
        if (_isRefused) return 0;
        // Out of descriptors, perhaps, which passes: meanwhile bytes are copied.
        if (_entry < 0 && sockets.OpenDuct(Bytes, out _entry, out _exit) != 0) return 0;
        int count = sockets.Splice(socket, _entry, Bytes);
        _isRefused = count is -Errno.EINVAL or -Errno.ENOSYS;
        // Memory may be short for this way only.
        return _isRefused || count is -Errno.EAGAIN or -Errno.EINTR or -Errno.ENOBUFS or -Errno.ENOMEM ? 0 : count;
    }

    /// <summary>How many of those that lie in it the socket took. An error ends it; without one the rest has no room now.</summary>
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

    /// <summary>Splice has no flag that says not to wait for room. Operations under way have asked before, and none is handed over meanwhile.</summary>
    private int EmptyIntoWaiting(int socket, int count, out int error)
    {
        error = 0;
        if (sockets.SetWaits(socket, false) != 0) return 0;
        int taken = Empty(socket, count, out error);
        _ = sockets.SetWaits(socket, true);
        return taken;
    }

    /// <summary>Takes the rest out of it. False: it could not be had, and is lost.</summary>
    private bool TryRead(byte* memory, int count)
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
