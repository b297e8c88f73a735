using System.Net.Sockets;
using System.Runtime.InteropServices;
using System.Text;
using Whimbrel.Linux;

namespace Whimbrel.Diagnostics;

/// <summary>Texts and categories of system error numbers. Pure.</summary>
internal static class ErrorText
{
    private const int MostCauses = 8;

    /// <summary>
    /// Error numbers and their meanings. If several numbers have one meaning, the first represents it. Frequent ones
    /// come first.
    /// </summary>
    private static readonly (int Number, SocketError Meaning)[] s_errors =
    [
        (Errno.EAGAIN, SocketError.WouldBlock),
        (Errno.ECONNRESET, SocketError.ConnectionReset),
        (Errno.ECONNABORTED, SocketError.ConnectionAborted),
        (Errno.EPIPE, SocketError.Shutdown),
        (Errno.ENOTCONN, SocketError.NotConnected),
        (Errno.ETIMEDOUT, SocketError.TimedOut),
        (Errno.ECONNREFUSED, SocketError.ConnectionRefused),
        (Errno.ENETUNREACH, SocketError.NetworkUnreachable),
        (Errno.EHOSTUNREACH, SocketError.HostUnreachable),
        (Errno.ENETDOWN, SocketError.NetworkDown),
        (Errno.EHOSTDOWN, SocketError.HostDown),
        (Errno.EAFNOSUPPORT, SocketError.AddressFamilyNotSupported),
        (Errno.EADDRNOTAVAIL, SocketError.AddressNotAvailable),
        (Errno.ENOENT, SocketError.AddressNotAvailable),
        (Errno.EADDRINUSE, SocketError.AddressAlreadyInUse),
        (Errno.EACCES, SocketError.AccessDenied),
        (Errno.EPERM, SocketError.AccessDenied),
        (Errno.EMFILE, SocketError.TooManyOpenSockets),
        (Errno.ENFILE, SocketError.TooManyOpenSockets),
        (Errno.ENOBUFS, SocketError.NoBufferSpaceAvailable),
        (Errno.ENOMEM, SocketError.NoBufferSpaceAvailable),
        (Errno.ENOSPC, SocketError.NoBufferSpaceAvailable),
        (Errno.ECANCELED, SocketError.OperationAborted),
        (Errno.EBADF, SocketError.OperationAborted),
        (Errno.EINVAL, SocketError.InvalidArgument),
        (Errno.EMSGSIZE, SocketError.MessageSize),
        (Errno.ENOPROTOOPT, SocketError.ProtocolOption),
        (Errno.EOPNOTSUPP, SocketError.OperationNotSupported),
        (Errno.EINTR, SocketError.Interrupted),
        (Errno.EINPROGRESS, SocketError.InProgress),
        (Errno.EALREADY, SocketError.AlreadyInProgress),
        (Errno.ENOTSOCK, SocketError.NotSocket),
        (Errno.EDESTADDRREQ, SocketError.DestinationAddressRequired),
        (Errno.EPROTOTYPE, SocketError.ProtocolType),
        (Errno.EPROTONOSUPPORT, SocketError.ProtocolNotSupported),
        (Errno.ESOCKTNOSUPPORT, SocketError.SocketNotSupported),
        (Errno.EPFNOSUPPORT, SocketError.ProtocolFamilyNotSupported),
        (Errno.ENETRESET, SocketError.NetworkReset),
        (Errno.EISCONN, SocketError.IsConnected),
        (Errno.ESHUTDOWN, SocketError.Disconnecting),
        (Errno.EFAULT, SocketError.Fault),
        (Errno.ENXIO, SocketError.HostNotFound),
        (Errno.ENODATA, SocketError.NoData),
    ];

    internal static string Of(int code) => Marshal.GetPInvokeErrorMessage(code);

    /// <summary>Returns the close cause for an errno that ended an established connection.</summary>
    internal static CloseCause CauseOf(int errno) => errno switch
    {
        Errno.ECONNRESET or Errno.EPIPE or Errno.ECONNABORTED or Errno.ENOTCONN => CloseCause.PeerReset,
        Errno.ETIMEDOUT => CloseCause.TimedOut,
        Errno.ECONNREFUSED or Errno.ENOENT => CloseCause.Refused,
        Errno.ENETUNREACH or Errno.EHOSTUNREACH or Errno.EADDRNOTAVAIL or Errno.ENETDOWN or Errno.EHOSTDOWN
        or Errno.EAFNOSUPPORT => CloseCause.Unreachable,
        Errno.EMFILE or Errno.ENFILE or Errno.ENOMEM or Errno.ENOBUFS => CloseCause.ResourceLimit,
        // A Unix connect to a listener with a full backlog.
        Errno.EAGAIN => CloseCause.ResourceLimit,
        Errno.ECANCELED => CloseCause.Cancelled,
        _ => CloseCause.SystemError,
    };

    /// <summary>
    /// Returns the Linux number of a portable error, so that every engine reports the same meaning. Returns 5 (EIO) for
    /// unknown ones.
    /// </summary>
    internal static int ErrnoOf(SocketError error)
    {
        if (error == SocketError.Success) return 0;
        foreach ((int number, SocketError meaning) in s_errors)
        {
            if (meaning == error) return number;
        }

        return Errno.EIO;
    }

    /// <summary>
    /// Returns .NET's value for a Linux number, including the two that .NET omits: no memory, no space.
    /// </summary>
    internal static SocketError SocketErrorOf(int errno)
    {
        if (errno == 0) return SocketError.Success;
        foreach ((int number, SocketError meaning) in s_errors)
        {
            if (number == errno) return meaning;
        }

        return SocketError.SocketError;
    }

    /// <summary>
    /// Returns type and message of an exception, for a diagnostic event, without the message's full stop. The Message
    /// property is user code, too, and may throw.
    /// </summary>
    internal static string Of(Exception exception)
    {
        try
        {
            return $"{exception.GetType().Name}: {WithoutStop(Escaped.Of(exception.Message))}";
        }
        catch (Exception)
        {
            return $"{exception.GetType().Name} (its Message throws)";
        }
    }

    /// <summary>Removes the full stop of a sentence that is inserted into another one. An ellipsis stays.</summary>
    internal static string WithoutStop(string sentence) =>
        sentence.EndsWith('.') && !sentence.EndsWith("..", StringComparison.Ordinal) ? sentence[..^1] : sentence;

    /// <summary>
    /// Returns the exception and its inner exceptions, one line for each stack frame, for a readable log. Each line
    /// begins with spaces and has no control characters, so that it cannot be mistaken for another diagnostic event.
    /// </summary>
    internal static string TraceOf(Exception exception)
    {
        StringBuilder lines = new();
        for ((Exception? next, int depth) = (exception, 0); next is not null && depth < MostCauses;
            (next, depth) = (next.InnerException, depth + 1))
        {
            lines.Append("\n   ").Append(depth == 0 ? "" : "caused by ").Append(Of(next));
            foreach (string line in (StackOf(next) ?? "").Split('\n',
                StringSplitOptions.TrimEntries | StringSplitOptions.RemoveEmptyEntries))
                lines.Append("\n      ").Append(Escaped.Of(line));
        }

        return lines.ToString();
    }

    private static string? StackOf(Exception exception)
    {
        try
        {
            return exception.StackTrace;
        }
        catch (Exception)
        {
            return null; // an override of the application
        }
    }
}
