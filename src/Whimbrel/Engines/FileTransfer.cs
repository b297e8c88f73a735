using Whimbrel.Buffers;
using Whimbrel.Linux;

namespace Whimbrel.Engines;

/// <summary>sendfile, for both Linux engines: from the cache of the system to a socket, without a copy here.</summary>
// Safe: the offset lives for the call, and the block has a loan of the file.
internal static unsafe class FileTransfer
{
    /// <summary>
    /// In one call, and there is one for each start of a send: others have their turn in between, and a disk that must be asked first is
    /// asked for little at a time.
    /// </summary>
    internal const int MostBytes = 256 * 1024;

    /// <summary>How much the socket took, 0 at the end of the file, or minus the error number.</summary>
    internal static long Send(int fd, Block file)
    {
        long offset = file.FileOffset + file.Start;
        nint sent = Syscall.SendFile(fd, file.File!.Descriptor, &offset, (nuint)Math.Min(file.Length, MostBytes));
        return sent >= 0 ? sent : -Syscall.LastError;
    }

    /// <summary>Nothing was taken, and there is nothing wrong: the socket will have room.</summary>
    internal static bool MustWait(long result) => result is -Errno.EAGAIN or -Errno.EINTR or -Errno.ENOBUFS or -Errno.ENOMEM or -Errno.EINPROGRESS;

    /// <summary>The connection is broken. Any other error may be the file's.</summary>
    internal static bool IsOfSocket(long result) =>
        result is -Errno.EPIPE or -Errno.ECONNRESET or -Errno.ECONNABORTED or -Errno.ECONNREFUSED or -Errno.ENOTCONN or -Errno.ETIMEDOUT
            or -Errno.EHOSTUNREACH or -Errno.EHOSTDOWN or -Errno.ENETUNREACH or -Errno.ENETDOWN;
}
