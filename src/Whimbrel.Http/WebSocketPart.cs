namespace Whimbrel.Http;

/// <summary>Result of <see cref="WebSocketMessageReader.Read"/>, and kind of frame for
/// <see cref="WebSocketFrames"/>.</summary>
public enum WebSocketPart
{
    /// <summary>More bytes are needed: pass the unconsumed ones again, followed by new bytes.</summary>
    NeedMore,

    /// <summary>Text message in UTF-8.</summary>
    Text,

    /// <summary>Binary message.</summary>
    Binary,

    /// <summary>Ping: asks for a pong with the same payload.</summary>
    Ping,

    /// <summary>Pong: answers a ping, or is unsolicited.</summary>
    Pong,

    /// <summary>Close: the sender sends no further messages.</summary>
    Close,

    /// <summary>A rule was broken. No more can be read.</summary>
    Broken,
}
