namespace Whimbrel.Http.Parsing;

/// <summary>What a message can break. Each has a status to answer and a sentence in <see cref="HttpRules"/>.</summary>
internal enum HttpRule
{
    /// <summary>Nothing is wrong.</summary>
    None,

    /// <summary>A LF without a CR before it.</summary>
    BareLf,

    /// <summary>A CR without a LF behind it.</summary>
    BareCr,

    /// <summary>A control character other than HTAB in a line.</summary>
    ControlCharacter,

    /// <summary>More before the start line than one empty line, or one before that of a response.</summary>
    EmptyLines,

    /// <summary>The start line is longer than its limit.</summary>
    LineTooLong,

    /// <summary>The head, or the trailers, are larger than their limit.</summary>
    HeadTooLarge,

    /// <summary>More fields than the limit, those of the trailers counted as well.</summary>
    TooManyFields,

    /// <summary>The method is no token, or there is none.</summary>
    BadMethod,

    /// <summary>The target is empty or has a byte that may not stand there.</summary>
    BadTarget,

    /// <summary>A percent sign in the path without two hexadecimal digits, or one that stands for NUL.</summary>
    BadPercent,

    /// <summary>A form of target that this method does not have.</summary>
    TargetForm,

    /// <summary>The line does not end in a version of HTTP.</summary>
    BadVersion,

    /// <summary>A major version other than 1.</summary>
    UnsupportedVersion,

    /// <summary>A status line that is none.</summary>
    BadStatusLine,

    /// <summary>The first field begins with a space.</summary>
    LeadingSpace,

    /// <summary>A field continues in the next line, and that is not taken: of a request, of a strict response, of what frames the message.</summary>
    FoldedField,

    /// <summary>A line without a colon among the fields.</summary>
    NoColon,

    /// <summary>A field without a name.</summary>
    EmptyName,

    /// <summary>A space in or behind the name of a field.</summary>
    SpaceInName,

    /// <summary>The name of a field is no token.</summary>
    BadName,

    /// <summary>A field that may come once came twice; or several lengths disagree.</summary>
    DuplicateField,

    /// <summary>Content-Length is no number of up to 19 digits.</summary>
    BadContentLength,

    /// <summary>Transfer-Encoding does not end in chunked, exactly once.</summary>
    BadTransferEncoding,

    /// <summary>A transfer coding besides chunked.</summary>
    UnsupportedTransferEncoding,

    /// <summary>Transfer-Encoding in HTTP/1.0.</summary>
    TransferEncodingIn10,

    /// <summary>Transfer-Encoding beside Content-Length.</summary>
    TwoFramings,

    /// <summary>A method that has a body, in HTTP/1.0, without a length: who reads on until the end of the connection sees a body.</summary>
    MissingLength,

    /// <summary>No Host in HTTP/1.1.</summary>
    MissingHost,

    /// <summary>Host, or the authority of the target, is no host with or without a port.</summary>
    BadHost,

    /// <summary>Host is not the host of the target.</summary>
    HostDisagrees,

    /// <summary>Expect is something else than 100-continue.</summary>
    UnknownExpectation,

    /// <summary>A chunk's size is missing, malformed or more than 63 bits.</summary>
    BadChunkSize,

    /// <summary>An extension of a chunk that does not follow the grammar, or has spaces.</summary>
    BadChunkExtension,

    /// <summary>Extensions of a chunk, or of all chunks, longer than their limit.</summary>
    ChunkExtensionTooLong,

    /// <summary>Behind the bytes of a chunk comes no CR LF.</summary>
    BadChunkEnd,

    /// <summary>The body is larger than its limit.</summary>
    BodyTooLarge,

    /// <summary>A trailer that says how the message is framed or where it goes.</summary>
    ForbiddenTrailer,

    /// <summary>A response that cannot have a body announces one.</summary>
    ForbiddenBody,

    /// <summary>The sender ended in the middle.</summary>
    Truncated,

    /// <summary>More interim answers (1xx) to one request than their limit.</summary>
    TooManyInterims,

    /// <summary>A 101 that names no protocol, or that nobody has asked for.</summary>
    BadSwitch,

    /// <summary>Bytes that belong to no answer: behind the last one, or before there was a request.</summary>
    Unasked,
}
