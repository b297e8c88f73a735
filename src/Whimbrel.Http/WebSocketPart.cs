namespace Whimbrel.Http;

/// <summary>What <see cref="WebSocketMessageReader"/> has found, and what <see cref="WebSocketFrames"/> writes.</summary>
public enum WebSocketPart
{
    /// <summary>It needs more bytes: what was not taken, joined with what follows.</summary>
    NeedMore,

    /// <summary>A message of UTF-8.</summary>
    Text,

    /// <summary>A message of bytes.</summary>
    Binary,

    /// <summary>Asks for a pong with the same payload.</summary>
    Ping,

    /// <summary>Answers a ping, or comes unasked.</summary>
    Pong,

    /// <summary>The sender sends no further messages.</summary>
    Close,

    /// <summary>A rule was broken. Nothing can be read any more.</summary>
    Broken,
}
