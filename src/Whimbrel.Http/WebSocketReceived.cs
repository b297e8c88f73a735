namespace Whimbrel.Http;

/// <summary>Result of <see cref="WebSocketSession.ReceiveAsync"/>.</summary>
/// <param name="Count">Number of bytes written into the memory.</param>
/// <param name="IsText">Whether they are text. All of it so far is valid UTF-8; it may end inside a character.</param>
/// <param name="IsLast">Whether the message ends with them.</param>
/// <param name="IsEnd">Whether the peer has sent a close frame: no further message follows.</param>
public readonly record struct WebSocketReceived(int Count, bool IsText, bool IsLast, bool IsEnd);
