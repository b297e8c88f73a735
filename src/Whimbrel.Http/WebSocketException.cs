using Whimbrel.Diagnostics;

namespace Whimbrel.Http;

/// <summary>
/// A WebSocket failed: the server did not agree, or not as it should; the connection ended without a close frame; or, for
/// the reader of a <see cref="WebSocketStream"/>, the peer closed it with a status that is no end of file.
/// </summary>
public sealed class WebSocketException : IOException
{
    /// <summary>Makes one without a text.</summary>
    public WebSocketException()
    {
    }

    /// <summary>Makes one.</summary>
    /// <param name="message">What was wrong.</param>
    public WebSocketException(string message)
        : base(Escaped.Of(message))
    {
    }

    /// <summary>Makes one with a cause.</summary>
    /// <param name="message">What was wrong.</param>
    /// <param name="innerException">Its cause.</param>
    public WebSocketException(string message, Exception innerException)
        : base(Escaped.Of(message), innerException)
    {
    }

    internal WebSocketException(WebSocketStatus status, string reason)
        : base($"The peer closed the WebSocket with {(int)status}{(Enum.IsDefined(status) ? $" ({status})" : "")}{(reason.Length == 0 ? "" : $": {reason}")}. What was read is not known to be whole.")
    {
        Status = status;
        Reason = reason;
    }

    /// <summary>Status of the peer's close frame. Null when there was none.</summary>
    public WebSocketStatus? Status { get; }

    /// <summary>Reason beside <see cref="Status"/>, as the peer sent it. Empty for none.</summary>
    public string Reason { get; } = "";
}
