namespace Whimbrel.Http.Parsing;

/// <summary>Framing that determines the end of a body.</summary>
internal enum HttpFraming
{
    /// <summary>There is no body.</summary>
    None,

    /// <summary>Content-Length.</summary>
    Length,

    /// <summary>The last chunk.</summary>
    Chunked,

    /// <summary>The end of the connection. Responses only.</summary>
    UntilClose,
}
