using Whimbrel.Http;

namespace Whimbrel.Tool;

/// <summary>A server of one kind, with its counter.</summary>
/// <param name="Server">Server, not started.</param>
/// <param name="Unit">Unit of <paramref name="Count"/>, in the plural.</param>
/// <param name="Count">Returns the count so far.</param>
/// <param name="Producer">Push thread, or null.</param>
/// <param name="Room">Chat room, or null.</param>
internal sealed record Service(Server Server, string Unit, Func<long> Count, PushProducer? Producer = null,
    ChatRoom? Room = null)
{
    internal static Service Create(ServeSettings settings, Engine engine, TlsOptions? tls, ProcessUpgrade? upgrade)
    {
        Tally receives = new(engine.LoopCount);
        switch (settings.Kind)
        {
            case ServeKind.Echo:
                Server echo = settings.Stats
                    ? new Server(Options(), context => new CountedEchoSession(receives.Of(context.Loop)))
                    : new Server(Options(), static () => new EchoSession());
                return new Service(echo, "receives", () => receives.Total);
            case ServeKind.Discard:
                return new Service(new Server(Options(), context => new DiscardSession(receives.Of(context.Loop))),
                    "receives", () => receives.Total);
            case ServeKind.Chat:
                ChatRoom room = new();
                return new Service(ChatDoor.CreateServer(Options(), room), "lines", () => room.Lines, Room: room);
            case ServeKind.Groups:
                return new Service(new Server(Options(), context => new GroupsSession(receives.Of(context.Loop))),
                    "messages", () => receives.Total);
            case ServeKind.Http:
                HttpServer http = settings.Files is { } folder
                    ? HttpTestSite.CreateFor(folder, Options())
                    : HttpTestSite.Create(Options());
                return new Service(http, "requests", () => http.Http.ReadCounters().Requests);
            case ServeKind.Ws:
                return new Service(WebSocketEcho.Create(Options(allowsLarge: true), settings.Deflates, receives),
                    "messages", () => receives.Total);
            default:
                PushProducer producer = new(settings.Push);
                return new Service(new Server(Options(SlowConsumer.DropNewest), () => new PushSession(producer)),
                    "messages", () => producer.Sent, producer);
        }

        ServerOptions Options(SlowConsumer slowConsumer = SlowConsumer.Disconnect, bool allowsLarge = false) =>
            new()
            {
                Address = settings.Address,
                Engine = engine,
                Accept = new() { Scheme = settings.Accept },
                Limits = new() { SlowConsumer = slowConsumer, AllowLargeMessages = allowsLarge },
                Scheduling = settings.Scheduling,
                Tls = tls,
                StatusPath = settings.StatusPath,
                Timeouts = new() { DrainWindow = settings.DrainWindow },
                Upgrade = upgrade,
            };
    }
}
