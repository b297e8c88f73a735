namespace Whimbrel.Http.Parsing;

/// <summary>Result of a reader.</summary>
internal enum HttpReading
{
    /// <summary>More bytes are needed: pass the unconsumed ones again, followed by new bytes.</summary>
    NeedMore,

    /// <summary>Piece of a body. More may follow.</summary>
    Data,

    /// <summary>The head, or the body, is complete.</summary>
    Done,

    /// <summary>A rule was broken. No more can be read.</summary>
    Broken,
}
