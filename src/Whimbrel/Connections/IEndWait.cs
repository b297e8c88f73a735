namespace Whimbrel.Connections;

/// <summary>
/// Waits for the end of a session on which one of its own callbacks may block; that end comes before the last callback.
/// </summary>
internal interface IEndWait
{
    /// <summary>Called when the socket is closed, on the loop or in the callback that waits.</summary>
    void ConnectionIsGone(CloseReason reason);
}
