namespace Whimbrel.Http.Parsing;

/// <summary>What <see cref="WebSocketReader"/> has to say.</summary>
internal enum WebSocketReading
{
    /// <summary>It needs more bytes: what was not taken again, joined with what follows.</summary>
    NeedMore,

    /// <summary>A piece of a message, still masked.</summary>
    Piece,

    /// <summary>A whole control frame, without its mask.</summary>
    Control,

    /// <summary>A close frame has come: what follows is nothing.</summary>
    Done,

    /// <summary>A rule was broken. Nothing can be read any more.</summary>
    Broken,
}
