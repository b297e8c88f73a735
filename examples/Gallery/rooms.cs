#:project ../../src/Whimbrel.Http/Whimbrel.Http.csproj
// Rooms over WebSocket, with presence: each guest sees the other guests, and their coming and leaving.
// Try it: whimbrel connect ws://127.0.0.1:8080/rooms/lobby/anna
using System.Collections.Concurrent;
using System.Net;
using Whimbrel;
using Whimbrel.Http;

string address = args.FirstOrDefault() ?? "http://127.0.0.1:8080";
await using HttpServer web = new(address);
NamedGroups rooms = new(); // a room exists while it has members
web.WebSocket("/rooms/{room}/{name}", request =>
    new Guest(rooms[request.Route["room"]], request.Route["name"]));
web.Get("/rooms", (_, response) => response.Text(string.Concat(rooms.Select(room => $"{room.Name} {room.Count}\n"))));
await web.StartAsync();
Console.WriteLine($"Listening at http://{web.EndPoint}. Ctrl-C stops.");
await StopSignal.WaitAsync();

sealed class Guest(SessionGroup room, string name) : WebSocketSession
{
    protected override void OnConnected()
    {
        room.Join(this);
        room.BroadcastText($"+ {name}", except: this);
        Post(SendPresenceAsync);
    }

    protected override void OnText(ReadOnlySpan<byte> utf8) =>
        room.BroadcastText($"{name}: {System.Text.Encoding.UTF8.GetString(utf8)}");

    protected override void OnDisconnected(CloseReason reason) => room.BroadcastText($"- {name}");

    // The members of a room may live on several loops: each is visited on its own.
    private async Task SendPresenceAsync()
    {
        ConcurrentBag<string> names = [];
        await room.ForEachAsync(member => names.Add(((Guest)member).Name));
        SendText($"here: {string.Join(", ", names.Order())}");
    }

    private string Name => name;
}
