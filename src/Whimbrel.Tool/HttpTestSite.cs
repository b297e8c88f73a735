using System.Collections.Concurrent;
using System.Globalization;
using System.Text;
using System.Text.Json;
using Whimbrel.Http;

namespace Whimbrel.Tool;

/// <summary><c>whimbrel serve http</c>: a server to try clients and proxies with. <c>/</c> lists what it
/// answers.</summary>
internal sealed class HttpTestSite
{
    private const int MaxKeys = 1_000;
    private const int MaxDelayMs = 600_000;
    private const long MaxBytes = 1L << 40;
    private const int PieceBytes = 16 * 1024;

    private const string List = """
        GET  /bytes/N      N bytes
        POST /echo         sends any body back while it comes
        GET  /delay/MS     answers after so many milliseconds
        GET  /status/N     answers with this status, 200 to 599
        GET  /headers      the fields of the request, as JSON
        PUT  /cache?key=K  keeps a body of up to 1 MiB; GET gives it, DELETE forgets it

        """;

    private static readonly byte[] s_piece =
        Encoding.ASCII.GetBytes(string.Concat(Enumerable.Range(0, PieceBytes / 8).Select(static i => $"{i,7}\n")));

    private readonly ConcurrentDictionary<string, byte[]> _cache = [];

    private HttpTestSite(HttpServer server) => Server = server;

    private HttpServer Server { get; }

    internal static HttpServer Create(ServerOptions options)
    {
        HttpServer server = new(options,
            new HttpOptions { BodyLimitBytes = MaxBytes, BodyTimeout = TimeSpan.FromDays(1) });
        HttpTestSite site = new(server);
        server.Get("/", static (_, response) => response.Text(List));
        server.Get("/bytes/{count}", BytesAsync);
        server.Post("/echo", EchoAsync);
        server.Map(HttpVerb.Put, "/echo", EchoAsync);
        server.Get("/delay/{ms}", DelayAsync);
        server.Get("/status/{status}", AnswerStatus);
        server.Get("/headers", AnswerFields);
        server.Map(HttpVerb.Get, "/cache", site.Read);
        server.Map(HttpVerb.Put, "/cache", site.Write);
        server.Map(HttpVerb.Delete, "/cache", site.Delete);
        return site.Server;
    }

    /// <summary><c>--files</c>: serves a folder only.</summary>
    internal static HttpServer CreateFor(string folder, ServerOptions options)
    {
        HttpServer server = new(options);
        server.Files("/", folder);
        return server;
    }

    private static bool TryNumber(HttpRequest request, HttpResponse response, string name, long least, long most,
        out long number)
    {
        if (long.TryParse(request.Route[name], NumberStyles.None, CultureInfo.InvariantCulture, out number)
            && number >= least && number <= most)
            return true;
        response.Fail(400, $"A number from {least} to {most} is wanted");
        return false;
    }

    private static async ValueTask BytesAsync(HttpRequest request, HttpResponse response, CancellationToken stop)
    {
        if (!TryNumber(request, response, "count", 0, MaxBytes, out long count)) return;
        response.Add("Content-Type", "application/octet-stream");
        response.BodyLength = count;
        if (count == 0) await response.FlushAsync(stop);
        for (long left = count; left > 0; left -= PieceBytes)
            await response.WriteAsync(s_piece.AsMemory(0, (int)Math.Min(left, PieceBytes)), stop);
    }

    private static async ValueTask EchoAsync(HttpRequest request, HttpResponse response, CancellationToken stop)
    {
        if (request.TryGet(HttpField.ContentType, out ReadOnlySpan<byte> type) && Ascii.IsValid(type))
            response.Add("Content-Type", Encoding.ASCII.GetString(type));
        response.BodyLength = request.BodyLength;
        await request.Body.CopyToAsync(response.Body, stop);
        if (response.BodyLength <= 0) await response.FlushAsync(stop);
    }

    private static async ValueTask DelayAsync(HttpRequest request, HttpResponse response, CancellationToken stop)
    {
        if (!TryNumber(request, response, "ms", 0, MaxDelayMs, out long ms)) return;
        await Task.Delay((int)ms, stop);
        response.Text($"{ms} ms\n");
    }

    private static void AnswerStatus(HttpRequest request, HttpResponse response)
    {
        if (!TryNumber(request, response, "status", 200, 599, out long status)) return;
        if (status is 204 or 304) response.Empty((int)status);
        else response.Fail((int)status);
    }

    private static void AnswerFields(HttpRequest request, HttpResponse response)
    {
        using MemoryStream bytes = new();
        using (Utf8JsonWriter json = new(bytes))
        {
            json.WriteStartArray();
            for (int i = 0; i < request.FieldCount; i++)
            {
                json.WriteStartObject();
                json.WriteString("name", Encoding.Latin1.GetString(request.NameAt(i)));
                json.WriteString("value", Encoding.Latin1.GetString(request.ValueAt(i)));
                json.WriteEndObject();
            }

            json.WriteEndArray();
        }

        response.Bytes(bytes.GetBuffer().AsSpan(0, (int)bytes.Length), "application/json"u8);
    }

    // ------------------------------------------------------------------ cache

    private static bool TryKey(HttpRequest request, HttpResponse response, out string key)
    {
        string query = Encoding.ASCII.GetString(request.Query);
        foreach (string part in query.Split('&'))
        {
            if (!part.StartsWith("key=", StringComparison.Ordinal)) continue;
            key = Uri.UnescapeDataString(part[4..]);
            return true;
        }

        key = "";
        response.Fail(400, "The key is missing: /cache?key=K");
        return false;
    }

    private void Read(HttpRequest request, HttpResponse response)
    {
        if (!TryKey(request, response, out string key)) return;
        if (_cache.TryGetValue(key, out byte[]? value)) response.Bytes(value, "application/octet-stream"u8);
        else response.Fail(404);
    }

    private void Write(HttpRequest request, HttpResponse response)
    {
        if (!TryKey(request, response, out string key)) return;
        bool isNew = !_cache.ContainsKey(key);
        if (isNew && _cache.Count >= MaxKeys)
        {
            response.Fail(507, $"It keeps {MaxKeys} keys");
            return;
        }

        _cache[key] = request.BodyBytes.ToArray();
        response.Empty(isNew ? 201 : 204);
    }

    private void Delete(HttpRequest request, HttpResponse response)
    {
        if (!TryKey(request, response, out string key)) return;
        if (_cache.TryRemove(key, out _)) response.Empty(204);
        else response.Fail(404);
    }
}
