#:project ../../src/Whimbrel.Http/Whimbrel.Http.csproj
// Server-sent events: all that is posted to /news appears on the page at once.
// Try it: open http://127.0.0.1:8080/, and curl -d 'hello' http://127.0.0.1:8080/news
using System.Collections.Concurrent;
using System.Text;
using System.Threading.Channels;
using Whimbrel;
using Whimbrel.Http;

ConcurrentDictionary<Channel<string>, bool> readers = [];

string address = args.FirstOrDefault() ?? "http://127.0.0.1:8080";
await using HttpServer web = new(address);
web.Get("/", (_, response) => response.Bytes("""
    <!doctype html><title>News</title><ul id="news"></ul>
    <script>
      new EventSource("/events").onmessage = event =>
        news.appendChild(document.createElement("li")).textContent = event.data;
    </script>
    """u8, "text/html; charset=utf-8"u8));
web.Post("/news", (request, response) =>
{
    string news = Encoding.UTF8.GetString(request.BodyBytes);
    foreach (Channel<string> reader in readers.Keys) reader.Writer.TryWrite(news);
    response.Empty();
});
web.Get("/events", async (request, response, stop) =>
{
    // A reader that is too slow misses the oldest news.
    Channel<string> channel = Channel.CreateBounded<string>(
        new BoundedChannelOptions(100) { FullMode = BoundedChannelFullMode.DropOldest });
    readers[channel] = true;
    try
    {
        await response.SendEventAsync("", type: "open", cancellationToken: stop); // the page is connected
        await foreach (string news in channel.Reader.ReadAllAsync(stop))
            await response.SendEventAsync(news, cancellationToken: stop);
    }
    finally
    {
        readers.TryRemove(channel, out _);
    }
});
await web.StartAsync();
Console.WriteLine($"Listening at http://{web.EndPoint}. Ctrl-C stops.");
await StopSignal.WaitAsync();
