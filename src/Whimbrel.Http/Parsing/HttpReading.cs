namespace Whimbrel.Http.Parsing;

/// <summary>What a reader has to say.</summary>
internal enum HttpReading
{
    /// <summary>It needs more bytes: the same again, joined with what follows.</summary>
    NeedMore,

    /// <summary>A piece of a body. More may follow.</summary>
    Data,

    /// <summary>The head, or the body, is whole.</summary>
    Done,

    /// <summary>A rule was broken. Nothing can be read any more.</summary>
    Broken,
}
