using System.Collections.Concurrent;
using System.IO.Compression;
using System.Text;
using System.Text.Json.Serialization;
using Whimbrel.Http;

namespace Whimbrel.Examples;

/// <summary> A cache with keys and texts: <c>/api/cache</c> with PUT, GET and DELETE, and a page that shows its
/// description (OpenAPI) and sends requests. Handlers run on the loops, concurrently, and never wait. </summary>
internal sealed partial class CacheApi
{
    private const int MaxKeys = 10_000; // every collection has a limit

    private readonly ConcurrentDictionary<string, string> _values = [];

    /// <summary>The routes of the cache.</summary>
    internal void Map(HttpServer web)
    {
        web.Get("/api/cache", Read);
        web.Map(HttpVerb.Put, "/api/cache", Write);
        web.Map(HttpVerb.Delete, "/api/cache", Delete);
    }

    private void Read(HttpRequest request, HttpResponse response)
    {
        if (request.Query["key"] is not { } key)
            response.Json(_values, Shapes.Default.ConcurrentDictionaryStringString);
        else if (_values.TryGetValue(key, out string? value)) response.Text(value);
        else response.Fail(404, "There is no such key");
    }

    private void Write(HttpRequest request, HttpResponse response)
    {
        if (request.Query["key"] is not { Length: > 0 } key)
        {
            response.Fail(400, "A key is missing: /api/cache?key=K");
            return;
        }

        bool isNew = !_values.ContainsKey(key);
        if (isNew && _values.Count >= MaxKeys)
        {
            response.Fail(507, "The cache is full");
            return;
        }

        _values[key] = Encoding.UTF8.GetString(request.BodyBytes);
        response.Empty(isNew ? 201 : 204);
    }

    private void Delete(HttpRequest request, HttpResponse response)
    {
        if (request.Query["key"] is { } key && _values.TryRemove(key, out _)) response.Empty();
        else response.Fail(404, "There is no such key");
    }

    /// <summary>The page at <c>/</c>: swagger-ui (Apache License 2.0) with the OpenAPI description.</summary>
    internal static void MapPage(HttpServer web)
    {
        Map("/", "page.html", "text/html; charset=utf-8");
        Map("/openapi.json", "openapi.json", "application/json");
        Map("/swagger-ui.css", "swagger-ui.css.gz", "text/css");
        Map("/swagger-ui-bundle.js", "swagger-ui-bundle.js.gz", "text/javascript");

        void Map(string path, string name, string contentType)
        {
            byte[] body = Resource(name), type = Encoding.ASCII.GetBytes(contentType);
            web.Get(path, (_, response) => response.Bytes(body, type));
        }
    }

    private static byte[] Resource(string name)
    {
        using Stream stream = typeof(CacheApi).Assembly.GetManifestResourceStream(name)!;
        using Stream plain = name.EndsWith(".gz", StringComparison.Ordinal)
            ? new GZipStream(stream, CompressionMode.Decompress)
            : stream;
        using MemoryStream bytes = new();
        plain.CopyTo(bytes);
        return bytes.ToArray();
    }

    [JsonSerializable(typeof(ConcurrentDictionary<string, string>))]
    private sealed partial class Shapes : JsonSerializerContext;
}
