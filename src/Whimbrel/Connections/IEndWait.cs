namespace Whimbrel.Connections;

/// <summary>Waits for the end of a session that one of its own callbacks may block on: that end comes before the last callback.</summary>
internal interface IEndWait
{
    /// <summary>The socket is closed. On the loop, or in the callback that asks.</summary>
    void ConnectionIsGone(CloseReason reason);
}
