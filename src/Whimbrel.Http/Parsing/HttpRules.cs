using System.Globalization;

namespace Whimbrel.Http.Parsing;

/// <summary>Statuses and texts for broken rules.</summary>
internal static class HttpRules
{
    /// <summary>Returns the status for a request.</summary>
    internal static int StatusOf(HttpRule rule) => rule switch
    {
        HttpRule.MissingLength => 411,
        HttpRule.LineTooLong => 414,
        HttpRule.HeadTooLarge => 431,
        HttpRule.TooManyFields => 431,
        HttpRule.UnsupportedVersion => 505,
        HttpRule.UnsupportedTransferEncoding => 501,
        HttpRule.UnknownExpectation => 417,
        HttpRule.BodyTooLarge => 413,
        _ => 400,
    };

    /// <summary>Returns a sentence, without its full stop, that names the option of the body limit.</summary>
    /// <param name="isKept">Whether the body is buffered, and has its own limit.</param>
    /// <param name="options">Options of the server.</param>
    internal static string TextOfTooLarge(bool isKept, HttpOptions options) => string.Create(
        CultureInfo.InvariantCulture,
        $"{TextOf(HttpRule.BodyTooLarge)}: "
        + $"HttpOptions.{(isKept ? nameof(HttpOptions.BufferedBodyLimitBytes) : nameof(HttpOptions.BodyLimitBytes))} "
        + $"is {(isKept ? options.BufferedBodyLimitBytes : options.BodyLimitBytes)} bytes");

    /// <summary>Returns the error as a sentence without its full stop. It contains no received data.</summary>
    internal static string TextOf(HttpRule rule) => rule switch
    {
        HttpRule.BareLf => "A line ends in LF without CR: lines end in CR LF",
        HttpRule.BareCr => "A CR has no LF after it: lines end in CR LF",
        HttpRule.ControlCharacter => "The head contains a control character",
        HttpRule.EmptyLines => "Empty lines precede the start line",
        HttpRule.LineTooLong => "The start line is too long",
        HttpRule.HeadTooLarge => "The head is too large",
        HttpRule.TooManyFields => "There are too many fields",
        HttpRule.BadMethod => "The method is not a token",
        HttpRule.BadTarget => "The target is empty or contains an invalid byte",
        HttpRule.BadPercent => "A percent sign in the path is not followed by two hexadecimal digits, or encodes NUL",
        HttpRule.TargetForm => "The form of the target is not allowed for the method",
        HttpRule.BadVersion => "The version is missing or malformed",
        HttpRule.UnsupportedVersion => "Only HTTP/1 is supported",
        HttpRule.BadStatusLine => "The status line is malformed",
        HttpRule.LeadingSpace => "The first field begins with a space",
        HttpRule.FoldedField => "A field is folded onto the next line",
        HttpRule.NoColon => "A field has no colon",
        HttpRule.EmptyName => "A field has no name",
        HttpRule.SpaceInName => "There is a space in the name of a field or before its colon",
        HttpRule.BadName => "The name of a field is not a token",
        HttpRule.DuplicateField => "A field that may occur once is repeated",
        HttpRule.BadContentLength => "Content-Length is not a plain number",
        HttpRule.BadTransferEncoding => "Transfer-Encoding must be chunked",
        HttpRule.UnsupportedTransferEncoding => "The only supported transfer coding is chunked",
        HttpRule.TransferEncodingIn10 => "HTTP/1.0 has no Transfer-Encoding",
        HttpRule.TwoFramings => "Transfer-Encoding and Content-Length are both present",
        HttpRule.MissingLength => "Content-Length is missing: HTTP/1.0 needs it for a request body",
        HttpRule.MissingHost => "Host is missing",
        HttpRule.BadHost => "Host is not a host with an optional port",
        HttpRule.HostDisagrees => "Host differs from the host of the target",
        HttpRule.UnknownExpectation => "The only supported expectation is 100-continue",
        HttpRule.BadChunkSize => "The size of a chunk is malformed",
        HttpRule.BadChunkExtension => "The extension of a chunk is malformed",
        HttpRule.ChunkExtensionTooLong => "The extensions of chunks are too long",
        HttpRule.BadChunkEnd => "A chunk is not followed by CR LF",
        HttpRule.BodyTooLarge => "The body is too large",
        HttpRule.ForbiddenTrailer => "The trailers contain a field that may not be a trailer",
        HttpRule.ForbiddenBody => "A response that cannot have a body announces one",
        HttpRule.Truncated => "The message was not finished",
        HttpRule.TooManyInterims => "There are too many interim responses (1xx)",
        HttpRule.BadSwitch => "The protocol was switched without a request, or to none",
        HttpRule.Unasked => "Bytes were received that belong to no response",
        _ => "Nothing is wrong",
    };
}
