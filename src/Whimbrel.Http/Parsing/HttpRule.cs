namespace Whimbrel.Http.Parsing;

/// <summary>Rules that a message can break. Each has a status and a sentence in <see cref="HttpRules"/>.</summary>
internal enum HttpRule
{
    /// <summary>No rule is broken.</summary>
    None,

    /// <summary>LF without a CR before it.</summary>
    BareLf,

    /// <summary>CR without a LF after it.</summary>
    BareCr,

    /// <summary>Control character other than HTAB in a line.</summary>
    ControlCharacter,

    /// <summary>More than one empty line before a request's start line, or any before a response's.</summary>
    EmptyLines,

    /// <summary>Start line longer than its limit.</summary>
    LineTooLong,

    /// <summary>Head, or trailers, larger than their limit.</summary>
    HeadTooLarge,

    /// <summary>More fields than the limit, including trailers.</summary>
    TooManyFields,

    /// <summary>Missing method, or one that is no token.</summary>
    BadMethod,

    /// <summary>Target that is empty or has an invalid byte.</summary>
    BadTarget,

    /// <summary>Percent sign in the path without two hexadecimal digits, or an encoded NUL.</summary>
    BadPercent,

    /// <summary>Form of target that is not allowed for the method.</summary>
    TargetForm,

    /// <summary>Start line without a version of HTTP.</summary>
    BadVersion,

    /// <summary>Major version other than 1.</summary>
    UnsupportedVersion,

    /// <summary>Malformed status line.</summary>
    BadStatusLine,

    /// <summary>Space before the first field.</summary>
    LeadingSpace,

    /// <summary>Folded field, where it is rejected: in a request, in a strict response, in a framing field.</summary>
    FoldedField,

    /// <summary>Field line without a colon.</summary>
    NoColon,

    /// <summary>Field without a name.</summary>
    EmptyName,

    /// <summary>Space in or after the name of a field.</summary>
    SpaceInName,

    /// <summary>Name of a field that is no token.</summary>
    BadName,

    /// <summary>Repeated field that may occur once, or different lengths.</summary>
    DuplicateField,

    /// <summary>Content-Length that is no number of up to 19 digits.</summary>
    BadContentLength,

    /// <summary>Transfer-Encoding that does not end in exactly one chunked.</summary>
    BadTransferEncoding,

    /// <summary>Transfer coding other than chunked.</summary>
    UnsupportedTransferEncoding,

    /// <summary>Transfer-Encoding in HTTP/1.0.</summary>
    TransferEncodingIn10,

    /// <summary>Transfer-Encoding together with Content-Length.</summary>
    TwoFramings,

    /// <summary>HTTP/1.0 method with a body, without a length: some recipients would read a body until the end of the
    /// connection.</summary>
    MissingLength,

    /// <summary>No Host in HTTP/1.1.</summary>
    MissingHost,

    /// <summary>Host, or authority of the target, that is no host with an optional port.</summary>
    BadHost,

    /// <summary>Host different from the host of the target.</summary>
    HostDisagrees,

    /// <summary>Expect other than 100-continue.</summary>
    UnknownExpectation,

    /// <summary>Chunk size that is missing, malformed or more than 63 bits.</summary>
    BadChunkSize,

    /// <summary>Malformed extension of a chunk, or one with spaces.</summary>
    BadChunkExtension,

    /// <summary>Extensions of a chunk, or of all chunks, longer than their limit.</summary>
    ChunkExtensionTooLong,

    /// <summary>Missing CR LF after the bytes of a chunk.</summary>
    BadChunkEnd,

    /// <summary>Body larger than its limit.</summary>
    BodyTooLarge,

    /// <summary>Framing or routing field among the trailers.</summary>
    ForbiddenTrailer,

    /// <summary>Announced body in a response that cannot have one.</summary>
    ForbiddenBody,

    /// <summary>End of the data in the middle of a message.</summary>
    Truncated,

    /// <summary>More interim responses (1xx) to one request than the limit.</summary>
    TooManyInterims,

    /// <summary>101 without a protocol, or without a request for it.</summary>
    BadSwitch,

    /// <summary>Bytes that belong to no response: after the last one, or before a request.</summary>
    Unasked,
}
