namespace Whimbrel.Http.Parsing;

/// <summary>What says where a body ends.</summary>
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
