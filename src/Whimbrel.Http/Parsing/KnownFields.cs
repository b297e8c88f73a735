using System.Text;

namespace Whimbrel.Http.Parsing;

/// <summary>Names of the known fields, and the search for them.</summary>
internal static class KnownFields
{
    private const int Buckets = 256;

    // In the order of the enum.
    private static readonly byte[][] s_names =
    [
        [],
        "Accept"u8.ToArray(),
        "Accept-Charset"u8.ToArray(),
        "Accept-Encoding"u8.ToArray(),
        "Accept-Language"u8.ToArray(),
        "Accept-Ranges"u8.ToArray(),
        "Access-Control-Request-Headers"u8.ToArray(),
        "Access-Control-Request-Method"u8.ToArray(),
        "Age"u8.ToArray(),
        "Allow"u8.ToArray(),
        "Authorization"u8.ToArray(),
        "Cache-Control"u8.ToArray(),
        "Connection"u8.ToArray(),
        "Content-Disposition"u8.ToArray(),
        "Content-Encoding"u8.ToArray(),
        "Content-Language"u8.ToArray(),
        "Content-Length"u8.ToArray(),
        "Content-Location"u8.ToArray(),
        "Content-Range"u8.ToArray(),
        "Content-Type"u8.ToArray(),
        "Cookie"u8.ToArray(),
        "Date"u8.ToArray(),
        "ETag"u8.ToArray(),
        "Expect"u8.ToArray(),
        "Expires"u8.ToArray(),
        "Forwarded"u8.ToArray(),
        "Host"u8.ToArray(),
        "If-Match"u8.ToArray(),
        "If-Modified-Since"u8.ToArray(),
        "If-None-Match"u8.ToArray(),
        "If-Range"u8.ToArray(),
        "If-Unmodified-Since"u8.ToArray(),
        "Keep-Alive"u8.ToArray(),
        "Last-Modified"u8.ToArray(),
        "Location"u8.ToArray(),
        "Origin"u8.ToArray(),
        "Proxy-Authenticate"u8.ToArray(),
        "Proxy-Authorization"u8.ToArray(),
        "Range"u8.ToArray(),
        "Referer"u8.ToArray(),
        "Retry-After"u8.ToArray(),
        "Sec-WebSocket-Accept"u8.ToArray(),
        "Sec-WebSocket-Extensions"u8.ToArray(),
        "Sec-WebSocket-Key"u8.ToArray(),
        "Sec-WebSocket-Protocol"u8.ToArray(),
        "Sec-WebSocket-Version"u8.ToArray(),
        "Server"u8.ToArray(),
        "Set-Cookie"u8.ToArray(),
        "Strict-Transport-Security"u8.ToArray(),
        "TE"u8.ToArray(),
        "Trailer"u8.ToArray(),
        "Transfer-Encoding"u8.ToArray(),
        "Upgrade"u8.ToArray(),
        "User-Agent"u8.ToArray(),
        "Vary"u8.ToArray(),
        "Via"u8.ToArray(),
        "WWW-Authenticate"u8.ToArray(),
        "X-Forwarded-For"u8.ToArray(),
        "X-Forwarded-Proto"u8.ToArray(),
        "X-Request-Id"u8.ToArray(),
    ];

    // A chain of field numbers for each bucket; 0 ends it.
    private static readonly byte[] s_first = new byte[Buckets];
    private static readonly byte[] s_next = new byte[s_names.Length];

    private static readonly string[] s_texts = Array.ConvertAll(s_names, static name => Encoding.ASCII.GetString(name));

    static KnownFields()
    {
        for (int field = s_names.Length - 1; field > 0; field--)
        {
            int bucket = BucketOf(s_names[field]);
            s_next[field] = s_first[bucket];
            s_first[bucket] = (byte)field;
        }
    }

    /// <summary>Number of fields, including <see cref="HttpField.Other"/>.</summary>
    internal static int Count => s_names.Length;

    /// <summary>Returns the canonical name.</summary>
    internal static ReadOnlySpan<byte> NameOf(HttpField field) => s_names[(int)field];

    /// <summary>Returns a received name as text, without allocation if it has the canonical form.</summary>
    internal static string TextOf(HttpField field, ReadOnlySpan<byte> name) =>
        name.SequenceEqual(s_names[(int)field]) ? s_texts[(int)field] : Encoding.ASCII.GetString(name);

    /// <summary>Finds a field by name, ignoring case.</summary>
    /// <param name="name">A token of one byte or more.</param>
    internal static HttpField Find(ReadOnlySpan<byte> name)
    {
        for (int field = s_first[BucketOf(name)]; field != 0; field = s_next[field])
        {
            if (name.SequenceEqual(s_names[field]) || Ascii.EqualsIgnoreCase(name, s_names[field]))
                return (HttpField)field;
        }

        return HttpField.Other;
    }

    // Length, first and last letter distinguish nearly all of them.
    private static int BucketOf(ReadOnlySpan<byte> name) =>
        (name.Length * 37 + (name[0] | 0x20) * 11 + (name[^1] | 0x20)) & (Buckets - 1);
}
