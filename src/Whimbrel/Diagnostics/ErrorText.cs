using System.Net.Sockets;
using System.Runtime.InteropServices;
using Whimbrel.Linux;

namespace Whimbrel.Diagnostics;

/// <summary>Names and classes of system error numbers. Pure.</summary>
internal static class ErrorText
{
    internal static string Of(int code) => Marshal.GetPInvokeErrorMessage(code);

    /// <summary>What the end of an established connection with this errno means.</summary>
    internal static CloseCause CauseOf(int errno) => errno switch
    {
        Errno.ECONNRESET or Errno.EPIPE or Errno.ECONNABORTED or Errno.ENOTCONN => CloseCause.PeerReset,
        Errno.ETIMEDOUT => CloseCause.TimedOut,
        Errno.ECONNREFUSED or Errno.ENOENT => CloseCause.Refused,
        Errno.ENETUNREACH or Errno.EHOSTUNREACH or Errno.EADDRNOTAVAIL or Errno.ENETDOWN or Errno.EHOSTDOWN or Errno.EAFNOSUPPORT => CloseCause.Unreachable,
        Errno.EMFILE or Errno.ENFILE or Errno.ENOMEM or Errno.ENOBUFS => CloseCause.ResourceLimit,
        // A Unix dial to a listener whose backlog is full.
        Errno.EAGAIN => CloseCause.ResourceLimit,
        Errno.ECANCELED => CloseCause.Cancelled,
        _ => CloseCause.SystemError,
    };

    /// <summary>The Linux number of a portable error, so that every engine reports the same meaning.</summary>
    internal static int ErrnoOf(SocketError error) => error switch
    {
        SocketError.Success => 0,
        SocketError.ConnectionReset => Errno.ECONNRESET,
        SocketError.ConnectionAborted => Errno.ECONNABORTED,
        SocketError.Shutdown => Errno.EPIPE,
        SocketError.NotConnected => Errno.ENOTCONN,
        SocketError.TimedOut => Errno.ETIMEDOUT,
        SocketError.ConnectionRefused => Errno.ECONNREFUSED,
        SocketError.NetworkUnreachable => Errno.ENETUNREACH,
        SocketError.HostUnreachable => Errno.EHOSTUNREACH,
        SocketError.NetworkDown => Errno.ENETDOWN,
        SocketError.HostDown => Errno.EHOSTDOWN,
        SocketError.AddressFamilyNotSupported => Errno.EAFNOSUPPORT,
        SocketError.AddressNotAvailable => Errno.EADDRNOTAVAIL,
        SocketError.AddressAlreadyInUse => Errno.EADDRINUSE,
        SocketError.AccessDenied => Errno.EACCES,
        SocketError.TooManyOpenSockets => Errno.EMFILE,
        SocketError.NoBufferSpaceAvailable => Errno.ENOBUFS,
        SocketError.OperationAborted => Errno.ECANCELED,
        SocketError.WouldBlock => Errno.EAGAIN,
        SocketError.InvalidArgument => Errno.EINVAL,
        SocketError.MessageSize => Errno.EMSGSIZE,
        SocketError.ProtocolOption => Errno.ENOPROTOOPT,
        SocketError.OperationNotSupported => Errno.EOPNOTSUPP,
        _ => 5, // EIO: something the table does not know
    };

    /// <summary>Type and message of an exception, for a notice. Its message is user code, too, and may throw.</summary>
    internal static string Of(Exception exception)
    {
        try
        {
            return $"{exception.GetType().Name}: {exception.Message}";
        }
        catch (Exception)
        {
            return $"{exception.GetType().Name} (whose Message throws)";
        }
    }
}
