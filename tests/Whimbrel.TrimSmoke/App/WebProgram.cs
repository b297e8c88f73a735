using System.Net;
using System.Net.WebSockets;
using System.Text;
using System.Text.Json.Serialization;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Whimbrel;
using Whimbrel.Hosting;
using Whimbrel.Http;

// A site in a generic host as in a user's program: settings, services, routes, JSON, files, WebSocket. Sends requests
// to itself, and prints the responses.
internal static class WebProgram
{
    internal static async Task RunAsync()
    {
        string folder = Directory.CreateTempSubdirectory("whimbrel-trimmed-").FullName;
        try
        {
            await File.WriteAllTextAsync(Path.Combine(folder, "a.txt"), "a file");
            HostApplicationBuilder builder = Host.CreateApplicationBuilder();
            builder.Logging.ClearProviders();
            builder.Configuration["Web:Address"] = "http://127.0.0.1:0";
            builder.Services.AddSingleton(new Report("buy milk"));
            builder.Services.AddWhimbrelHttpServer("Web", (services, web) =>
            {
                web.Get("/hello/{name}", (request, response) => response.Text($"Hello {request.Route["name"]}"));
                web.Get("/note",
                    (_, response) => response.Json(services.GetRequiredService<Report>(), NoteJson.Default.Report));
                web.WebSocket("/echo", async (socket, stop) =>
                {
                    while (await socket.ReceiveMessageAsync(stop) is { } message)
                        await socket.SendTextAsync(message.Data, stop);
                });
                web.Files("/", folder);
            });
            using IHost host = builder.Build();
            await host.StartAsync();
            string answers = await AskAsync((IPEndPoint)host.Services.GetRequiredKeyedService<Server>("Web").EndPoint!);
            await host.StopAsync();
            Console.WriteLine($"{answers}; drained");
        }
        finally
        {
            Directory.Delete(folder, recursive: true);
        }
    }

    private static async Task<string> AskAsync(IPEndPoint site)
    {
        using HttpClient client = new() { BaseAddress = new Uri($"http://{site}") };
        List<string> answers = [];
        foreach (string path in (string[])["/hello/you", "/note", "/a.txt"])
            answers.Add(await client.GetStringAsync(path));
        using ClientWebSocket socket = new();
        await socket.ConnectAsync(new Uri($"ws://{site}/echo"), CancellationToken.None);
        await socket.SendAsync("said back"u8.ToArray(), WebSocketMessageType.Text, endOfMessage: true,
            CancellationToken.None);
        byte[] said = new byte[100];
        answers.Add(Encoding.UTF8.GetString(said, 0, (await socket.ReceiveAsync(said, CancellationToken.None)).Count));
        await socket.CloseAsync(WebSocketCloseStatus.NormalClosure, "", CancellationToken.None);
        return string.Join("; ", answers);
    }
}

internal sealed record Report(string Text);

[JsonSerializable(typeof(Report))]
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase)]
internal sealed partial class NoteJson : JsonSerializerContext;
