using System.Text;
using Whimbrel.Http;

namespace Whimbrel.Examples;

/// <summary>Forwards all requests to another server. Bodies stream in both directions and are never stored.</summary>
internal static class ReverseProxy
{
    internal static HttpClientOptions Habits { get; } = new() { Decompress = false, RedirectLimit = 0 };

    internal static HttpServer Create(string address, Uri target, HttpPool pool)
    {
        HttpServer server = new(address, new HttpOptions { BodyLimitBytes = long.MaxValue });
        foreach (string verb in (string[])["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
            server.Map(verb, "/{*path}", (ask, answer, stop) => ForwardAsync(ask, answer, target, pool, stop));
        return server;
    }

    private static async ValueTask ForwardAsync(HttpRequest request, HttpResponse response, Uri target, HttpPool pool,
        CancellationToken stop)
    {
        // Unchanged: //other.test/ is a path here, and the target decides about dots and percent signs.
        string query = request.Query.IsEmpty ? "" : $"?{request.Query}";
        string url = $"{target.GetLeftPart(UriPartial.Authority)}{Encoding.ASCII.GetString(request.Path)}{query}";
        UriCreationOptions unchanged = new() { DangerousDisablePathAndQueryCanonicalization = true };
        HttpClientRequest forward = new(Encoding.ASCII.GetString(request.Method), new Uri(url, in unchanged));
        forward.AddFieldsOf(request);
        forward.Add("X-Forwarded-Host", Encoding.ASCII.GetString(request.Authority));
        Stream body = request.Body;
        if (request.HasBody) forward.SetBody((to, end) => PumpAsync(body, to, end), null, request.BodyLength);
        try
        {
            using HttpClientResponse answer = await pool.SendAsync(forward, stop);
            response.Status = answer.Status;
            response.AddFieldsOf(answer.Head);
            await response.FlushAsync(stop); // sends the head before the body arrives
            await PumpAsync(answer.Body, response.Body, stop);
        }
        catch (HttpClientException e) when (!response.HasBegun)
        {
            response.Fail(e.Failure is HttpClientFailure.ConnectTimeout or HttpClientFailure.HeadTimeout
                or HttpClientFailure.Stalled ? 504 : 502, e.Failure.ToString());
        }
    }

    private static async Task PumpAsync(Stream from, Stream to, CancellationToken stop)
    {
        byte[] block = new byte[64 * 1024];
        for (int count; (count = await from.ReadAsync(block, stop)) > 0; await to.FlushAsync(stop))
            await to.WriteAsync(block.AsMemory(0, count), stop);
    }
}
