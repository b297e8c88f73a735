using System.Collections.Frozen;
using System.Text;

namespace Whimbrel.Http.Files;

/// <summary>Content types by file extension.</summary>
internal sealed class ContentTypes
{
    private const string Unknown = "application/octet-stream";

    // Extension and type. Text is sent as UTF-8, the usual encoding today; without a charset a browser would guess.
    private const string Table = """
        .7z application/x-7z-compressed
        .aac audio/aac
        .apk application/vnd.android.package-archive
        .appcache text/cache-manifest
        .atom application/atom+xml
        .avi video/x-msvideo
        .avif image/avif
        .bin application/octet-stream
        .bmp image/bmp
        .bz2 application/x-bzip2
        .cer application/pkix-cert
        .cjs text/javascript
        .conf text/plain
        .crl application/pkix-crl
        .crt application/x-x509-ca-cert
        .css text/css
        .csv text/csv
        .deb application/vnd.debian.binary-package
        .dll application/octet-stream
        .dmg application/octet-stream
        .doc application/msword
        .docx application/vnd.openxmlformats-officedocument.wordprocessingml.document
        .eot application/vnd.ms-fontobject
        .eps application/postscript
        .epub application/epub+zip
        .exe application/octet-stream
        .flac audio/flac
        .geojson application/geo+json
        .gif image/gif
        .glb model/gltf-binary
        .gltf model/gltf+json
        .gz application/gzip
        .htm text/html
        .html text/html
        .ico image/vnd.microsoft.icon
        .ics text/calendar
        .img application/octet-stream
        .ini text/plain
        .iso application/octet-stream
        .jar application/java-archive
        .jpeg image/jpeg
        .jpg image/jpeg
        .js text/javascript
        .json application/json
        .jsonl application/jsonl
        .jsonld application/ld+json
        .jxl image/jxl
        .log text/plain
        .m3u8 application/vnd.apple.mpegurl
        .m4a audio/mp4
        .m4v video/mp4
        .map application/json
        .md text/markdown
        .mid audio/midi
        .mjs text/javascript
        .mkv video/matroska
        .mov video/quicktime
        .mp3 audio/mpeg
        .mp4 video/mp4
        .mpd application/dash+xml
        .mpeg video/mpeg
        .msi application/octet-stream
        .ndjson application/x-ndjson
        .odp application/vnd.oasis.opendocument.presentation
        .ods application/vnd.oasis.opendocument.spreadsheet
        .odt application/vnd.oasis.opendocument.text
        .oga audio/ogg
        .ogg audio/ogg
        .ogv video/ogg
        .opus audio/ogg
        .otf font/otf
        .pdf application/pdf
        .pem application/x-pem-file
        .png image/png
        .ppt application/vnd.ms-powerpoint
        .pptx application/vnd.openxmlformats-officedocument.presentationml.presentation
        .ps application/postscript
        .rar application/vnd.rar
        .rpm application/x-rpm
        .rss application/rss+xml
        .rtf application/rtf
        .svg image/svg+xml
        .swf application/vnd.adobe.flash.movie
        .tar application/x-tar
        .tgz application/gzip
        .tif image/tiff
        .tiff image/tiff
        .toml application/toml
        .ts video/mp2t
        .tsv text/tab-separated-values
        .ttf font/ttf
        .txt text/plain
        .vtt text/vtt
        .wasm application/wasm
        .wav audio/wav
        .weba audio/webm
        .webm video/webm
        .webmanifest application/manifest+json
        .webp image/webp
        .woff font/woff
        .woff2 font/woff2
        .xhtml application/xhtml+xml
        .xls application/vnd.ms-excel
        .xlsx application/vnd.openxmlformats-officedocument.spreadsheetml.sheet
        .xml text/xml
        .xsl text/xml
        .xz application/x-xz
        .yaml application/yaml
        .yml application/yaml
        .zip application/zip
        .zst application/zstd
        """;

    private static readonly FrozenDictionary<string, string> s_known = Table.Split('\n',
        StringSplitOptions.TrimEntries | StringSplitOptions.RemoveEmptyEntries)
        .Select(static line => line.Split(' ')).ToFrozenDictionary(static pair => pair[0],
            static pair => WithCharset(pair[1]), StringComparer.OrdinalIgnoreCase);

    private readonly FrozenDictionary<string, string>? _own;

    /// <param name="own">Types with priority, by extension with its dot.</param>
    internal ContentTypes(IReadOnlyDictionary<string, string>? own = null) =>
        _own = own?.ToFrozenDictionary(StringComparer.OrdinalIgnoreCase);

    /// <summary>Returns the type of a file by its name; <c>application/octet-stream</c> if the extension is
    /// unknown.</summary>
    internal string Of(string name)
    {
        string ending = Path.GetExtension(name);
        if (_own is not null && _own.TryGetValue(ending, out string? type)) return type;
        return s_known.TryGetValue(ending, out type) ? type : Unknown;
    }

    /// <summary>Returns whether the type is text, or another type that compresses well.</summary>
    internal static bool IsText(ReadOnlySpan<byte> type)
    {
        int semicolon = type.IndexOf((byte)';');
        if (semicolon >= 0) type = type[..semicolon];
        type = Parsing.HttpBytes.Trim(type);
        if (type.Length >= 5 && Ascii.EqualsIgnoreCase(type[..5], "text/"u8)) return true;
        foreach (string other in s_alsoText)
        {
            if (type.Length >= other.Length
                && Ascii.EqualsIgnoreCase(other[0] == '+' ? type[^other.Length..] : type, other))
                return true;
        }

        return false;
    }

    private static readonly string[] s_alsoText =
    [
        "+json", "+xml", "application/json", "application/jsonl", "application/x-ndjson", "application/javascript",
        "application/xml", "application/yaml", "application/toml",
        "application/wasm", "application/rtf", "application/postscript", "application/vnd.apple.mpegurl",
        "application/vnd.ms-fontobject", "image/vnd.microsoft.icon", "image/bmp",
        "font/ttf", "font/otf",
    ];

    private static string WithCharset(string type) =>
        type.StartsWith("text/", StringComparison.Ordinal) ? $"{type}; charset=utf-8" : type;
}
