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
        $"{TextOf(HttpRule.BodyTooLarge)}: HttpOptions.{(isKept ? nameof(HttpOptions.BufferedBodyLimitBytes) : nameof(HttpOptions.BodyLimitBytes))} is {(isKept ? options.BufferedBodyLimitBytes : options.BodyLimitBytes)} bytes");

    /// <summary>Returns the error as a sentence without its full stop. It contains no received data.</summary>
    internal static string TextOf(HttpRule rule) => rule switch
    {
        HttpRule.BareLf => "A line ends in LF alone: lines end in CR LF",
        HttpRule.BareCr => "A CR stands alone: lines end in CR LF",
        HttpRule.ControlCharacter => "A control character stands in the head",
        HttpRule.EmptyLines => "Empty lines stand before the start line",
        HttpRule.LineTooLong => "The start line is too long",
        HttpRule.HeadTooLarge => "The head is too large",
        HttpRule.TooManyFields => "There are too many fields",
        HttpRule.BadMethod => "The method is no token",
        HttpRule.BadTarget => "The target has a byte that may not stand there",
        HttpRule.BadPercent => "A percent sign in the path has no two hexadecimal digits behind it, or means NUL",
        HttpRule.TargetForm => "The target has not the form that the method wants",
        HttpRule.BadVersion => "The version is missing or malformed",
        HttpRule.UnsupportedVersion => "Only HTTP/1 is spoken here",
        HttpRule.BadStatusLine => "The status line is malformed",
        HttpRule.LeadingSpace => "The first field begins with a space",
        HttpRule.FoldedField => "A field goes on in the next line",
        HttpRule.NoColon => "A field has no colon",
        HttpRule.EmptyName => "A field has no name",
        HttpRule.SpaceInName => "A space stands in the name of a field or before its colon",
        HttpRule.BadName => "The name of a field is no token",
        HttpRule.DuplicateField => "A field that may come once came twice",
        HttpRule.BadContentLength => "Content-Length is no plain number",
        HttpRule.BadTransferEncoding => "Transfer-Encoding must be chunked",
        HttpRule.UnsupportedTransferEncoding => "The only transfer coding known here is chunked",
        HttpRule.TransferEncodingIn10 => "HTTP/1.0 has no Transfer-Encoding",
        HttpRule.TwoFramings => "Transfer-Encoding and Content-Length cannot both say where the message ends",
        HttpRule.MissingLength => "Content-Length is missing: without it HTTP/1.0 has no end of a body",
        HttpRule.MissingHost => "Host is missing",
        HttpRule.BadHost => "Host is no host with or without a port",
        HttpRule.HostDisagrees => "Host is another than the target says",
        HttpRule.UnknownExpectation => "The only expectation known here is 100-continue",
        HttpRule.BadChunkSize => "The size of a chunk is malformed",
        HttpRule.BadChunkExtension => "The extension of a chunk is malformed",
        HttpRule.ChunkExtensionTooLong => "The extensions of chunks are too long",
        HttpRule.BadChunkEnd => "A chunk does not end where it should",
        HttpRule.BodyTooLarge => "The body is too large",
        HttpRule.ForbiddenTrailer => "A field that may not be a trailer is one",
        HttpRule.ForbiddenBody => "A response that cannot have a body announces one",
        HttpRule.Truncated => "The message was not finished",
        HttpRule.TooManyInterims => "There are too many interim answers (1xx)",
        HttpRule.BadSwitch => "The protocol was switched without being asked for, or to none",
        HttpRule.Unasked => "Bytes came that belong to no answer",
        _ => "Nothing is wrong",
    };
}
