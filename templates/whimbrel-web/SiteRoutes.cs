using Whimbrel.Http;

namespace Web_Server;

/// <summary> The routes. A handler runs on the loop of its connection and must not block. An async handler may await;
/// its optional third parameter is a token that is cancelled when the client disconnects. </summary>
internal static class SiteRoutes
{
    internal static void Map(HttpServer web, NoteStore notes, string folder)
    {
        web.Get("/hello/{name}", (request, response) => response.Text($"Hello {request.Route["name"]}"));

        web.Get("/notes", (request, response) => response.Json(notes.All(), SiteJson.Default.NoteArray));
        web.Post("/notes", async (request, response, stop) =>
        {
            // Other content is answered with 400.
            Note? note = await request.ReadJsonAsync(SiteJson.Default.Note, stop);
            if (note is not { Text.Length: > 0 and <= 1000 })
                response.Fail(400, "A note has a text of up to 1,000 characters.");
            else if (!notes.TryAdd(note)) response.Fail(507, "There is no room for more notes.");
            else response.Empty(201);
        });

        // Echoes the browser's messages.
        web.WebSocket("/echo", async (socket, stop) =>
        {
            while (await socket.ReceiveMessageAsync(stop) is { } message)
                await socket.SendTextAsync(message.Data, stop);
        });

        // Everything else is a file. A change on disk is visible within about a second.
        web.Files("/", folder);
    }
}
