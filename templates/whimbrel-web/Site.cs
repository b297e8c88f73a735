using Whimbrel.Http;

namespace Web_Server;

/// <summary>
/// What is served where. A handler runs on the loop of its connection and must not block. One that is async may await; its third parameter, if it has one,
/// is a token that is cancelled when the client goes away.
/// </summary>
internal static class Site
{
    internal static void Map(HttpServer web, Notes notes, string folder)
    {
        web.Get("/hello/{name}", (request, response) => response.Text($"Hello {request.Route["name"]}"));

        web.Get("/notes", (request, response) => response.Json(notes.All(), SiteJson.Default.NoteArray));
        web.Post("/notes", async (request, response, stop) =>
        {
            // What is no such JSON is answered with 400.
            Note? note = await request.ReadJsonAsync(SiteJson.Default.Note, stop);
            if (note is not { Text.Length: > 0 and <= 1000 }) response.Fail(400, "A note has a text of up to 1,000 characters.");
            else if (!notes.TryAdd(note)) response.Fail(507, "There is no room for more notes.");
            else response.Empty(201);
        });

        // What the browser says comes back.
        web.WebSocket("/echo", async (socket, stop) =>
        {
            while (await socket.ReceiveMessageAsync(stop) is { } message) await socket.SendTextAsync(message.Data, stop);
        });

        // All else are files. What changes on disk is seen within a second or so.
        web.Files("/", folder);
    }
}
