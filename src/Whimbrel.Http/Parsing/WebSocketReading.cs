namespace Whimbrel.Http.Parsing;

/// <summary>Result of <see cref="WebSocketReader.Read"/>.</summary>
internal enum WebSocketReading
{
    /// <summary>More bytes are needed: pass the unconsumed ones again, followed by new bytes.</summary>
    NeedMore,

    /// <summary>Piece of a message, still masked.</summary>
    Piece,

    /// <summary>Whole control frame, unmasked.</summary>
    Control,

    /// <summary>A close frame was received: later bytes are ignored.</summary>
    Done,

    /// <summary>A rule was broken. No more can be read.</summary>
    Broken,
}
