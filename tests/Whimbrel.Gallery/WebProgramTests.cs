using System.Net;
using System.Net.Http.Json;
using System.Net.WebSockets;
using System.Text;
using MQTTnet;

namespace Whimbrel.Gallery;

// Programs over HTTP, WebSocket and MQTT, asked by the clients of .NET and of MQTTnet.
public sealed class WebProgramTests
{
    private const string AnyPort = "http://127.0.0.1:0";

    [Fact]
    public async Task Guests_of_a_room_see_who_is_there_and_who_comes_and_leaves()
    {
        await using RunningProgram rooms = await RunningProgram.StartAsync("rooms", AnyPort);
        using ClientWebSocket anna = await JoinAsync(rooms, "lobby/anna");
        Assert.Equal("here: anna", await ReadAsync(anna));
        using ClientWebSocket bert = await JoinAsync(rooms, "lobby/bert");
        Assert.Equal("here: anna, bert", await ReadAsync(bert));
        Assert.Equal("+ bert", await ReadAsync(anna));
        using ClientWebSocket carl = await JoinAsync(rooms, "other/carl");
        Assert.Equal("here: carl", await ReadAsync(carl));
        await bert.SendAsync("hi"u8.ToArray(), WebSocketMessageType.Text, true, CancellationToken.None);
        Assert.Equal("bert: hi", await ReadAsync(anna));
        using HttpClient client = ClientOf(rooms);
        string list = await client.GetStringAsync("/rooms");
        Assert.Equal(["lobby 2", "other 1"], list.Split('\n', StringSplitOptions.RemoveEmptyEntries).Order());
        await bert.CloseAsync(WebSocketCloseStatus.NormalClosure, "", CancellationToken.None);
        Assert.Equal("- bert", await ReadAsync(anna));
        await rooms.StopAsync();
    }

    [Fact]
    public async Task Notes_are_created_listed_found_and_deleted()
    {
        await using RunningProgram rest = await RunningProgram.StartAsync("rest", AnyPort);
        using HttpClient client = ClientOf(rest);
        HttpResponseMessage created = await client.PostAsJsonAsync("/notes", new { text = "buy milk" });
        Assert.Equal(HttpStatusCode.Created, created.StatusCode);
        Assert.Equal("/notes/1", created.Headers.Location!.ToString());
        Assert.Equal("""{"id":1,"text":"buy milk"}""", await client.GetStringAsync("/notes/1"));
        Assert.Equal("""[{"id":1,"text":"buy milk"}]""", await client.GetStringAsync("/notes"));
        Assert.Equal(HttpStatusCode.BadRequest, (await client.PostAsJsonAsync("/notes", new { text = "" })).StatusCode);
        Assert.Equal(HttpStatusCode.BadRequest, (await client.PostAsJsonAsync("/notes", new { })).StatusCode);
        using StringContent half = new("{", null, "application/json");
        Assert.Equal(HttpStatusCode.BadRequest, (await client.PostAsync("/notes", half)).StatusCode);
        Assert.Equal(HttpStatusCode.NotFound, (await client.GetAsync("/notes/one")).StatusCode);
        Assert.Equal(HttpStatusCode.NoContent, (await client.DeleteAsync("/notes/1")).StatusCode);
        Assert.Equal(HttpStatusCode.NotFound, (await client.DeleteAsync("/notes/1")).StatusCode);
        await rest.StopAsync();
    }

    [Fact]
    public async Task Posted_news_come_as_events()
    {
        await using RunningProgram sse = await RunningProgram.StartAsync("sse", AnyPort);
        using HttpClient client = ClientOf(sse);
        Assert.Contains("EventSource", await client.GetStringAsync("/"), StringComparison.Ordinal);
        using HttpResponseMessage events =
            await client.GetAsync("/events", HttpCompletionOption.ResponseHeadersRead);
        Assert.Equal("text/event-stream", events.Content.Headers.ContentType!.MediaType);
        using StreamReader reader = new(await events.Content.ReadAsStreamAsync());
        Assert.Equal("event: open", await reader.ReadLineAsync().WaitAsync(RunningProgram.Patience));
        await client.PostAsync("/news", new StringContent("hello"));
        string? line;
        do line = await reader.ReadLineAsync().WaitAsync(RunningProgram.Patience); while (line is "" or "data: ");
        Assert.Equal("data: hello", line);
        await sse.StopAsync();
    }

    [Fact]
    public async Task Files_of_a_folder_are_served_and_nothing_else()
    {
        string folder = Directory.CreateTempSubdirectory("gallery-").FullName;
        try
        {
            await File.WriteAllTextAsync(Path.Combine(folder, "index.html"), "<h1>hello</h1>");
            await using RunningProgram files = await RunningProgram.StartAsync("files", AnyPort, folder);
            using HttpClient client = ClientOf(files);
            Assert.Equal("<h1>hello</h1>", await client.GetStringAsync("/"));
            Assert.Equal(HttpStatusCode.NotFound, (await client.GetAsync("/%2e%2e/secret")).StatusCode);
            Assert.Contains("\"GET / HTTP/1.1\" 200", await files.StopAsync(), StringComparison.Ordinal);
        }
        finally
        {
            Directory.Delete(folder, recursive: true);
        }
    }

    [Fact]
    public async Task A_reverse_proxy_forwards_requests_bodies_and_failures()
    {
        await using RunningProgram target = await RunningProgram.StartAsync("rest", AnyPort);
        await using RunningProgram proxy =
            await RunningProgram.StartAsync("reverse-proxy", AnyPort, $"http://{target.EndPoint}");
        using HttpClient client = ClientOf(proxy);
        HttpResponseMessage created = await client.PostAsJsonAsync("/notes", new { text = "through" });
        Assert.Equal(HttpStatusCode.Created, created.StatusCode);
        Assert.Equal("""{"id":1,"text":"through"}""", await client.GetStringAsync("/notes/1?x=y"));
        Assert.Equal(HttpStatusCode.NotFound, (await client.GetAsync("/none")).StatusCode);
        await target.StopAsync();
        Assert.Equal(HttpStatusCode.BadGateway, (await client.GetAsync("/notes/1")).StatusCode);
        await proxy.StopAsync();
    }

    [Fact]
    public async Task A_file_is_copied_over_WebSocket()
    {
        string folder = Directory.CreateTempSubdirectory("gallery-").FullName;
        try
        {
            byte[] content = new byte[3_000_000];
            new Random(1).NextBytes(content);
            string source = Path.Combine(folder, "source");
            await File.WriteAllBytesAsync(source, content);
            string uploads = Directory.CreateDirectory(Path.Combine(folder, "uploads")).FullName;
            await using RunningProgram server = await RunningProgram.StartAsync("ws-copy", AnyPort, uploads);
            string address = $"ws://{server.EndPoint}/upload";
            (int code, string output) = await RunningProgram.RunAsync("ws-copy", address, source);
            Assert.True(code == 0, output);
            Assert.StartsWith("3000000 bytes in ", output, StringComparison.Ordinal);
            Assert.Equal(content, await File.ReadAllBytesAsync(output["3000000 bytes in ".Length..].Trim()));

            // A client that goes away in the middle leaves no file.
            using (ClientWebSocket half = new())
            {
                await half.ConnectAsync(new Uri(address), CancellationToken.None);
                await half.SendAsync(content.AsMemory(0, 1000), WebSocketMessageType.Binary, true, default);
                half.Abort();
            }

            await server.StopAsync(); // waits for the handlers
            Assert.Single(Directory.GetFiles(uploads));
            (code, output) = await RunningProgram.RunAsync("ws-copy", address, source);
            Assert.Equal(1, code);
            Assert.Contains("efused", output, StringComparison.Ordinal);
        }
        finally
        {
            Directory.Delete(folder, recursive: true);
        }
    }

    [Fact]
    public async Task An_MQTT_client_publishes_to_another()
    {
        await using RunningProgram broker = await RunningProgram.StartAsync("mqtt", "127.0.0.1:0");
        MqttClientFactory factory = new();
        // A client id is made for each set of options; a second connect by the same id replaces the first.
        MqttClientOptions options() =>
            factory.CreateClientOptionsBuilder().WithTcpServer("127.0.0.1", broker.Port).Build();
        using IMqttClient reader = factory.CreateMqttClient(), writer = factory.CreateMqttClient();
        TaskCompletionSource<string> received = new(TaskCreationOptions.RunContinuationsAsynchronously);
        reader.ApplicationMessageReceivedAsync += message =>
        {
            received.TrySetResult(message.ApplicationMessage.ConvertPayloadToString());
            return Task.CompletedTask;
        };
        await reader.ConnectAsync(options());
        await reader.SubscribeAsync("news");
        await writer.ConnectAsync(options());
        await writer.PublishStringAsync("news", "hello");
        Assert.Equal("hello", await received.Task.WaitAsync(RunningProgram.Patience));
        await reader.DisconnectAsync();
        await writer.DisconnectAsync();
        await broker.StopAsync();
    }

    private static HttpClient ClientOf(RunningProgram program) =>
        new() { BaseAddress = new Uri($"http://{program.EndPoint}"), Timeout = RunningProgram.Patience };

    private static async Task<ClientWebSocket> JoinAsync(RunningProgram program, string path)
    {
        ClientWebSocket socket = new();
        await socket.ConnectAsync(new Uri($"ws://{program.EndPoint}/rooms/{path}"), CancellationToken.None)
            .WaitAsync(RunningProgram.Patience);
        return socket;
    }

    private static async Task<string> ReadAsync(ClientWebSocket socket)
    {
        byte[] memory = new byte[1000];
        ValueWebSocketReceiveResult result = await socket.ReceiveAsync(memory.AsMemory(), CancellationToken.None)
            .AsTask().WaitAsync(RunningProgram.Patience);
        return Encoding.UTF8.GetString(memory, 0, result.Count);
    }
}
