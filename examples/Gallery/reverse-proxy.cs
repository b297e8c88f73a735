#:project ../../src/Whimbrel.Http/Whimbrel.Http.csproj
// A reverse proxy: bodies stream in both directions and are never stored.
// Try it: dotnet run reverse-proxy.cs http://127.0.0.1:8080 http://127.0.0.1:5000
using System.Net;
using System.Text;
using Whimbrel;
using Whimbrel.Http;

string address = args.ElementAtOrDefault(0) ?? "http://127.0.0.1:8080";
string target = (args.ElementAtOrDefault(1) ?? "http://127.0.0.1:5000").TrimEnd('/');
await using HttpPool pool = new(new HttpClientOptions { Decompress = false, RedirectLimit = 0 });
await using HttpServer proxy = new(address, new HttpOptions { BodyLimitBytes = long.MaxValue });
foreach (string method in (string[])["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
    proxy.Map(method, "/{*path}", ForwardAsync);
await proxy.StartAsync();
Console.WriteLine($"Forwarding http://{proxy.EndPoint} to {target}. Ctrl-C stops.");
await StopSignal.WaitAsync();

async Task ForwardAsync(HttpRequest request, HttpResponse response, CancellationToken stop)
{
    // Path and query as the client wrote them: the target decides about dots and percent signs.
    string query = request.Query.IsEmpty ? "" : $"?{request.Query}";
    Uri url = new($"{target}{Encoding.ASCII.GetString(request.Path)}{query}",
        new UriCreationOptions { DangerousDisablePathAndQueryCanonicalization = true });
    HttpClientRequest forward = new(Encoding.ASCII.GetString(request.Method), url);
    forward.AddFieldsOf(request); // without those of this connection only
    if (request.Session.RemoteEndPoint is IPEndPoint client)
        forward.Add("X-Forwarded-For", client.Address.ToString());
    if (request.HasBody) forward.SetBody(request.Body, length: request.BodyLength);
    try
    {
        using HttpClientResponse answer = await pool.SendAsync(forward, stop);
        response.Status = answer.Status;
        response.AddFieldsOf(answer.Head);
        await response.FlushAsync(stop); // the head, before the body has come
        await answer.Body.CopyToAsync(response.Body, stop);
    }
    catch (HttpClientException e) when (!response.HasBegun)
    {
        response.Fail(502, $"{target}: {e.Failure}");
    }
}
