namespace Whimbrel;

/// <summary>
/// Error in the peer's frames: the exception of <see cref="CloseCause.ProtocolError"/> where the library parses frames.
/// </summary>
public sealed class FrameException : IOException
{
    /// <summary>Creates an exception for a violated rule.</summary>
    /// <param name="error">The violated rule.</param>
    /// <param name="message">The rule in words.</param>
    public FrameException(FrameError error, string message)
        : base(message) => Error = error;

    /// <summary>The rule that the peer violated.</summary>
    public FrameError Error { get; }
}
