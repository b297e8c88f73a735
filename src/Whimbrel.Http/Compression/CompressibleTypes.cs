using System.Text;

namespace Whimbrel.Http.Compression;

/// <summary>Content types that compress well. Types with their own compression (images, videos, archives, most fonts)
/// do not.</summary>
internal static class CompressibleTypes
{
    private static readonly string[] s_others =
    [
        "application/json", "application/javascript", "application/xml", "application/x-javascript",
        "application/jsonl", "application/x-ndjson", "application/ndjson",
        "application/json-seq", "application/graphql", "application/yaml", "application/toml", "application/sql",
        "application/rtf", "application/wasm",
        "application/x-www-form-urlencoded", "application/vnd.ms-fontobject", "font/ttf", "font/otf", "image/bmp",
        "image/vnd.microsoft.icon", "image/x-icon",
    ];

    /// <param name="contentType">Value of Content-Type, with its parameters; empty for none.</param>
    internal static bool Has(ReadOnlySpan<byte> contentType)
    {
        int semicolon = contentType.IndexOf((byte)';');
        ReadOnlySpan<byte> type = (semicolon < 0 ? contentType : contentType[..semicolon]).TrimEnd(" \t"u8);
        if (StartsWith(type, "text/"u8) || EndsWith(type, "+json"u8) || EndsWith(type, "+xml"u8)) return true;
        foreach (string other in s_others)
        {
            if (Ascii.EqualsIgnoreCase(type, other)) return true;
        }

        return false;
    }

    private static bool StartsWith(ReadOnlySpan<byte> type, ReadOnlySpan<byte> start) =>
        type.Length > start.Length && Ascii.EqualsIgnoreCase(type[..start.Length], start);

    private static bool EndsWith(ReadOnlySpan<byte> type, ReadOnlySpan<byte> end) =>
        type.Length > end.Length && Ascii.EqualsIgnoreCase(type[^end.Length..], end);
}
