namespace Whimbrel.Http;

/// <summary>What a <see cref="WebSocketSession.ReceiveAsync"/> has brought.</summary>
/// <param name="Count">Bytes that were written into the memory.</param>
/// <param name="IsText">They are text. It was judged as UTF-8 so far, and may end inside a character.</param>
/// <param name="IsLast">The message ends with them.</param>
/// <param name="IsEnd">The peer has said that it sends nothing more: there will be no further message.</param>
public readonly record struct WebSocketReceived(int Count, bool IsText, bool IsLast, bool IsEnd);
