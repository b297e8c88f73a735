#:project ../../src/Whimbrel.Http/Whimbrel.Http.csproj
// A small REST service: notes in memory, as JSON.
// Try it: curl -H 'Content-Type: application/json' -d '{"text":"buy milk"}' http://127.0.0.1:8080/notes
//         curl http://127.0.0.1:8080/notes
using System.Collections.Concurrent;
using System.Text.Json.Serialization;
using Whimbrel;
using Whimbrel.Http;

ConcurrentDictionary<int, Note> notes = [];
int last = 0;

string address = args.FirstOrDefault() ?? "http://127.0.0.1:8080";
await using HttpServer web = new(address);
HttpRouteGroup api = web.Group("/notes");
api.Get("/", (_, response) => response.Json([.. notes.Values.OrderBy(note => note.Id)], NotesJson.Default.NoteArray));
api.Post("/", (request, response) =>
{
    if (request.Json(NotesJson.Default.Note) is not { Text.Length: > 0 } sent)
    {
        response.Fail(400, "A note has a text.");
        return;
    }

    Note note = sent with { Id = Interlocked.Increment(ref last) };
    notes[note.Id] = note;
    response.Status = 201;
    response.Add("Location", $"/notes/{note.Id}");
    response.Json(note, NotesJson.Default.Note);
});
api.Get("/{id}", (request, response) =>
{
    if (Find(request) is { } note) response.Json(note, NotesJson.Default.Note);
    else response.Fail(404);
});
api.Delete("/{id}", (request, response) =>
{
    if (Find(request) is { } note && notes.TryRemove(note.Id, out _)) response.Empty();
    else response.Fail(404);
});
await web.StartAsync();
Console.WriteLine($"Listening at http://{web.EndPoint}/notes. Ctrl-C stops.");
await StopSignal.WaitAsync();

Note? Find(HttpRequest request) =>
    int.TryParse(request.Route["id"], out int id) && notes.TryGetValue(id, out Note? note) ? note : null;

sealed record Note(int Id, string Text);

// JSON without reflection, so that the program can be compiled ahead of time.
[JsonSerializable(typeof(Note[]))]
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.CamelCase)]
sealed partial class NotesJson : JsonSerializerContext;
