using Whimbrel.Buffers;
using Whimbrel.Linux;

namespace Whimbrel.Engines;

/// <summary>sendfile for both Linux engines: from the page cache to a socket, without a copy in the process.</summary>
// Safe: the offset lives during the call, and the block has a reference to the file.
internal static unsafe class FileTransfer
{
    /// <summary>
    /// Most bytes of one call; each start of a send makes one call. Other connections get their turn in between, and a
    /// slow disk delays the loop only for this much data.
    /// </summary>
    internal const int MostBytes = 256 * 1024;

    /// <summary>
    /// Returns the number of bytes that the socket took, 0 at the end of the file, or the negated error number.
    /// </summary>
    internal static long Send(int fd, Block file)
    {
        long offset = file.FileOffset + file.Start;
        nint sent = Syscall.SendFile(fd, file.File!.Descriptor, &offset, (nuint)Math.Min(file.Length, MostBytes));
        return sent >= 0 ? sent : -Syscall.LastError;
    }

    /// <summary>True if nothing was sent without an error: the socket will have space later.</summary>
    internal static bool MustWait(long result) =>
        result is -Errno.EAGAIN or -Errno.EINTR or -Errno.ENOBUFS or -Errno.ENOMEM or -Errno.EINPROGRESS;

    /// <summary>True if the connection is broken. Any other error may be the file's.</summary>
    internal static bool IsOfSocket(long result) =>
        result is -Errno.EPIPE or -Errno.ECONNRESET or -Errno.ECONNABORTED or -Errno.ECONNREFUSED or -Errno.ENOTCONN
            or -Errno.ETIMEDOUT
            or -Errno.EHOSTUNREACH or -Errno.EHOSTDOWN or -Errno.ENETUNREACH or -Errno.ENETDOWN;
}
