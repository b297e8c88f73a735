using System.Text;

namespace Whimbrel.Http.Parsing;

/// <summary>Cached status lines.</summary>
internal static class StatusLines
{
    private const int First = 100;
    private const int Last = 599;

    private static readonly byte[][] s_lines = new byte[Last - First + 1][];
    private static readonly byte[][] s_starts = new byte[Last - First + 1][];

    static StatusLines()
    {
        for (int status = First; status <= Last; status++)
        {
            s_starts[status - First] = Encoding.ASCII.GetBytes($"HTTP/1.1 {status} ");
            s_lines[status - First] = Encoding.ASCII.GetBytes($"HTTP/1.1 {status} {ReasonOf(status)}\r\n");
        }
    }

    /// <summary>Returns the whole line, with its line end.</summary>
    internal static ReadOnlySpan<byte> For(int status) => s_lines[IndexOf(status)];

    /// <summary>Returns the line up to the reason phrase.</summary>
    internal static ReadOnlySpan<byte> Start(int status) => s_starts[IndexOf(status)];

    /// <summary>Returns the index of a status. Throws for an invalid one.</summary>
    internal static int IndexOf(int status)
    {
        if (status is < First or > Last)
            throw new ArgumentOutOfRangeException(nameof(status), status, $"A status lies between {First} and {Last}.");
        return status - First;
    }

    /// <summary>Returns the standard reason phrase; empty for none.</summary>
    internal static string ReasonOf(int status) => status switch
    {
        100 => "Continue",
        101 => "Switching Protocols",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        511 => "Network Authentication Required",
        _ => "",
    };
}
