namespace Whimbrel.Http;

/// <summary>A WebSocket failed: the server did not agree, or not as it should; or the connection ended without a close frame.</summary>
public sealed class WebSocketException : IOException
{
    /// <summary>Makes one without a text.</summary>
    public WebSocketException()
    {
    }

    /// <summary>Makes one.</summary>
    /// <param name="message">What was wrong.</param>
    public WebSocketException(string message)
        : base(message)
    {
    }

    /// <summary>Makes one with a cause.</summary>
    /// <param name="message">What was wrong.</param>
    /// <param name="innerException">Its cause.</param>
    public WebSocketException(string message, Exception innerException)
        : base(message, innerException)
    {
    }
}
