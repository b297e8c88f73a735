namespace Whimbrel.Http.Parsing;

/// <summary>Rules that a body of parts can break.</summary>
internal enum MultipartRule
{
    /// <summary>No rule is broken.</summary>
    None,

    /// <summary>The body does not begin with its boundary.</summary>
    Start,

    /// <summary>A boundary is followed neither by a line end nor by the two hyphens of the last one.</summary>
    BoundaryEnd,

    /// <summary>More parts than the limit.</summary>
    TooManyParts,

    /// <summary>The head of a part is larger than its limit, or has too many fields.</summary>
    HeadTooLarge,

    /// <summary>The head of a part is malformed.</summary>
    BadHead,

    /// <summary>A part does not have exactly one Content-Disposition of form-data with a name.</summary>
    BadDisposition,

    /// <summary>A part has a transfer encoding that would need decoding.</summary>
    Encoded,

    /// <summary>Bytes follow the last boundary.</summary>
    Rest,

    /// <summary>The body ended before its last boundary.</summary>
    Truncated,
}
