using System.Net.Sockets;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>Category of a failure.</summary>
public enum ErrorCategory
{
    /// <summary>No failure.</summary>
    None,

    /// <summary>The operating system rejected a call; the code is its error number.</summary>
    System,

    /// <summary>A listener could not be bound.</summary>
    Bind,

    /// <summary>A host name has no address, or could not be resolved.</summary>
    UnknownHost,

    /// <summary>A connect was refused: no socket listens there.</summary>
    Refused,

    /// <summary>A connect failed: there is no route to the address, or it cannot be used on this machine.</summary>
    Unreachable,

    /// <summary>An operation took longer than allowed.</summary>
    Timeout,

    /// <summary>The operation was cancelled.</summary>
    Cancelled,

    /// <summary>A limit was reached.</summary>
    Limit,

    /// <summary>User code threw.</summary>
    User,

    /// <summary>The system rejected a socket option; the message names it.</summary>
    Option,

    /// <summary>TLS failed; the exception is a <see cref="TlsException"/>.</summary>
    Tls,

    /// <summary>The peer's data violates the session's protocol.</summary>
    Protocol,
}

/// <summary>A failure: number, category, and one sentence with what happened, the reason and the remedy.</summary>
/// <param name="Code">Error number of the system (errno on Linux), or 0.</param>
/// <param name="Category">Category of the failure.</param>
/// <param name="Message">One sentence. Control characters of external values are escaped (<c>\n</c>,
/// <c>\u001b</c>).</param>
public readonly record struct NetworkError(int Code, ErrorCategory Category, string Message)
{
    /// <summary>One sentence, without control characters.</summary>
    public string Message { get; init => field = Escaped.Of(value); } = Escaped.Of(Message);


    /// <summary>
    /// The corresponding value of .NET's sockets: from <see cref="Code"/> if there is one, otherwise from the category.
    /// Success for no failure; <see cref="SocketError.SocketError"/> for failures that sockets do not have, such as TLS
    /// and exceptions of user code.
    /// </summary>
    public SocketError SocketError => Code != 0 ? ErrorText.SocketErrorOf(Code) : Category switch
    {
        ErrorCategory.None => SocketError.Success,
        ErrorCategory.UnknownHost => SocketError.HostNotFound,
        ErrorCategory.Refused => SocketError.ConnectionRefused,
        ErrorCategory.Unreachable => SocketError.HostUnreachable,
        ErrorCategory.Timeout => SocketError.TimedOut,
        ErrorCategory.Cancelled => SocketError.OperationAborted,
        ErrorCategory.Limit => SocketError.NoBufferSpaceAvailable,
        _ => SocketError.SocketError,
    };

    /// <summary>
    /// Returns the error number (errno of Linux, on every system) for an error of .NET's sockets; 5, EIO, for an
    /// unknown one.
    /// </summary>
    /// <param name="error">Error of a socket exception.</param>
    public static int CodeOf(SocketError error) => ErrorText.ErrnoOf(error);
}

/// <summary>Thrown by start and connect calls. Sends and closes never throw it.</summary>
public sealed class NetworkException : IOException
{
    /// <summary>Creates an exception for an error.</summary>
    /// <param name="error">The error.</param>
    /// <param name="inner">Exception that caused it, or null.</param>
    public NetworkException(NetworkError error, Exception? inner = null)
        : base(error.Message, inner) => Error = error;

    /// <summary>Code, category and message.</summary>
    public NetworkError Error { get; }
}
