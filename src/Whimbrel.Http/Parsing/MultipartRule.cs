namespace Whimbrel.Http.Parsing;

/// <summary>What a body of parts can break.</summary>
internal enum MultipartRule
{
    /// <summary>Nothing is wrong.</summary>
    None,

    /// <summary>It does not begin with its boundary.</summary>
    Start,

    /// <summary>Behind a boundary comes neither a line end nor the two hyphens of the last one.</summary>
    BoundaryEnd,

    /// <summary>More parts than the limit.</summary>
    TooManyParts,

    /// <summary>The head of a part is larger than its limit, or has too many fields.</summary>
    HeadTooLarge,

    /// <summary>The head of a part is malformed.</summary>
    BadHead,

    /// <summary>A part has not exactly one Content-Disposition of form-data with a name.</summary>
    BadDisposition,

    /// <summary>A part has a transfer encoding that would have to be undone.</summary>
    Encoded,

    /// <summary>Something stands behind the last boundary.</summary>
    Rest,

    /// <summary>The body ended before its last boundary.</summary>
    Truncated,
}
