using System.Net.Sockets;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>Which part of the world a failure belongs to.</summary>
public enum ErrorCategory
{
    /// <summary>No failure.</summary>
    None,

    /// <summary>The operating system refused a call; the code is its error number.</summary>
    System,

    /// <summary>A listener could not be bound.</summary>
    Bind,

    /// <summary>A host name has no address, or could not be looked up.</summary>
    UnknownHost,

    /// <summary>A dial was refused: nobody listens there.</summary>
    Refused,

    /// <summary>A dial failed: no way leads to the address, or it cannot be used from here.</summary>
    Unreachable,

    /// <summary>Something took longer than allowed.</summary>
    Timeout,

    /// <summary>Somebody cancelled.</summary>
    Cancelled,

    /// <summary>A limit was reached.</summary>
    Limit,

    /// <summary>The user's code threw.</summary>
    User,

    /// <summary>The system refused a socket option; the message names it.</summary>
    Option,

    /// <summary>TLS failed; the exception is a <see cref="TlsException"/>.</summary>
    Tls,

    /// <summary>The peer's bytes break the rules of the session's protocol.</summary>
    Protocol,
}

/// <summary>A failure: number, kind, and one sentence that says what happened, why, and what to do.</summary>
/// <param name="Code">The system's error number (errno on Linux), or 0.</param>
/// <param name="Category">Which part of the world it belongs to.</param>
/// <param name="Message">One sentence. Control characters of foreign values are escaped (<c>\n</c>, <c>\u001b</c>).</param>
public readonly record struct NetworkError(int Code, ErrorCategory Category, string Message)
{
    /// <summary>One sentence, without control characters.</summary>
    public string Message { get; init => field = Escaped.Of(value); } = Escaped.Of(Message);


    /// <summary>
    /// What .NET's sockets call it: by <see cref="Code"/> where there is one, else by the category. Success for no failure;
    /// <see cref="SocketError.SocketError"/> for what sockets do not have, such as TLS and exceptions of user code.
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

    /// <summary>The error number (errno of Linux, whatever the system) that stands for this error of .NET's; 5, EIO, for one that has none.</summary>
    /// <param name="error">As an exception of a Socket has it.</param>
    public static int CodeOf(SocketError error) => ErrorText.ErrnoOf(error);
}

/// <summary>Thrown by start and connect calls. Sends and closes never throw it.</summary>
public sealed class NetworkException : IOException
{
    /// <summary>Makes an exception of an error.</summary>
    /// <param name="error">What failed.</param>
    /// <param name="inner">What caused it, if an exception did.</param>
    public NetworkException(NetworkError error, Exception? inner = null)
        : base(error.Message, inner) => Error = error;

    /// <summary>Code, category and message.</summary>
    public NetworkError Error { get; }
}
