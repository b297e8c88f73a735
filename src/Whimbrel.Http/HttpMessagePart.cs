namespace Whimbrel.Http;

/// <summary>Result of <see cref="HttpMessageReader.Read"/>.</summary>
public enum HttpMessagePart
{
    /// <summary>More bytes are needed: pass the unconsumed ones again, followed by new bytes.</summary>
    NeedMore,

    /// <summary>Head of an interim response (1xx). Another head follows.</summary>
    Interim,

    /// <summary>Head of the message.</summary>
    Head,

    /// <summary>Piece of the body.</summary>
    Data,

    /// <summary>The message is complete.</summary>
    Done,

    /// <summary>Head of a 101: the bytes after it belong to another protocol.</summary>
    Switched,

    /// <summary>A rule was broken. No more can be read.</summary>
    Broken,
}
