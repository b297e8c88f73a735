namespace Whimbrel;

/// <summary>
/// What was wrong with the peer's frames: the exception of <see cref="CloseCause.ProtocolError"/> where the library cuts
/// frames.
/// </summary>
public sealed class FrameException : IOException
{
    /// <summary>Makes one that says which rule was broken.</summary>
    /// <param name="error">The rule.</param>
    /// <param name="message">The same in words.</param>
    public FrameException(FrameError error, string message)
        : base(message) => Error = error;

    /// <summary>Which rule was broken.</summary>
    public FrameError Error { get; }
}
