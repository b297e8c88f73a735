using Whimbrel.Diagnostics;

namespace Whimbrel.Http;

/// <summary>
/// Failure of a WebSocket. The server rejected the handshake, or its response is not valid; or the connection ended
/// without a close frame. For reads of a <see cref="WebSocketStream"/> also: the peer closed it with a status other
/// than a normal end.
/// </summary>
public sealed class WebSocketException : IOException
{
    /// <summary>Creates an exception without a message.</summary>
    public WebSocketException()
    {
    }

    /// <summary>Creates an exception.</summary>
    /// <param name="message">Description of the failure.</param>
    public WebSocketException(string message)
        : base(Escaped.Of(message))
    {
    }

    /// <summary>Creates an exception with a cause.</summary>
    /// <param name="message">Description of the failure.</param>
    /// <param name="innerException">Cause.</param>
    public WebSocketException(string message, Exception innerException)
        : base(Escaped.Of(message), innerException)
    {
    }

    internal WebSocketException(WebSocketStatus status, string reason)
        : base($"The peer closed the WebSocket with {(int)status}{(Enum.IsDefined(status) ? $" ({status})" : "")}"
            + $"{(reason.Length == 0 ? "" : $": {reason}")}. What was read is not known to be whole.")
    {
        Status = status;
        Reason = reason;
    }

    /// <summary>Status of the peer's close frame; null if there was none.</summary>
    public WebSocketStatus? Status { get; }

    /// <summary>Reason of the peer's close frame, as received; empty for none.</summary>
    public string Reason { get; } = "";
}
