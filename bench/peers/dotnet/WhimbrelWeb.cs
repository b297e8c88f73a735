using System.Globalization;
using System.Net;
using Whimbrel.Http;

namespace Whimbrel.Bench.Peers;

/// <summary>Whimbrel's HTTP and WebSocket server with routes and response objects, as its guide shows them.</summary>
internal static class WhimbrelWeb
{
    public static async Task RunAsync(EngineKind kind, Scheduling callbacks, int port, string folder, TlsOptions? tls,
        Action<IPEndPoint> tell)
    {
        var engine = new Engine(new EngineOptions { Kind = kind, Loops = 1 });
        var listening = new ServerOptions
        {
            Engine = engine,
            EndPoint = new IPEndPoint(IPAddress.Loopback, port),
            Tls = tls,
            Scheduling = callbacks,
            Limits = new() { AllowLargeMessages = true }
        };
        // A pipelining client reaches the default limit of 10,000 requests per connection within two seconds.
        var server = new HttpServer(listening,
            new HttpOptions { BodyLimitBytes = 1L << 40, RequestLimit = int.MaxValue });
        AddRoutes(server, new WebBodies(folder));
        server.Files("/files", Path.Combine(folder, "files"));
        AddSockets(server);
        await server.StartAsync();
        tell((IPEndPoint)server.EndPoint!);
        await Task.Delay(Timeout.Infinite);
    }

    private static void AddRoutes(HttpServer server, WebBodies bodies)
    {
        foreach (var size in WebBodies.Sizes)
        {
            var (body, plain) = (bodies.Of(size), bodies.PlainOf(size));
            server.Get($"/bytes/{size}", (_, response) => response.Bytes(body, "application/octet-stream"u8));
            server.Get($"/async/{size}", async (_, response, _) =>
            {
                await Task.Yield();
                response.Bytes(body, "application/octet-stream"u8);
            });
            server.Get($"/loops/{size}", async (_, response, stop) =>
            {
                await Loop.Current!.DelayAsync(TimeSpan.Zero, stop); // resumes in the next loop iteration
                response.Bytes(body, "application/octet-stream"u8);
            });
            server.Get($"/aes/{size}", (_, response) =>
            {
                Span<byte> encrypted = stackalloc byte[WebBodies.LargestBytes];
                response.Bytes(encrypted[..bodies.Encrypt(plain, encrypted)], "application/octet-stream"u8);
            });
            server.Get($"/pool/{size}", async (_, response, stop) =>
            {
                await Task.Run(static () => Thread.Sleep(1), stop);
                response.Bytes(body, "application/octet-stream"u8);
            });
        }

        server.Get("/stream/{count}", async (request, response, stop) =>
        {
            var count = response.BodyLength = long.Parse(request.Route["count"]!, CultureInfo.InvariantCulture);
            for (long at = 0; at < count;)
            {
                var piece = bodies.PieceAt(at, count);
                await response.WriteAsync(piece, stop);
                at += piece.Length;
            }
        });
        server.Map(HttpVerb.Put, "/sink", async (request, response, stop) =>
        {
            var buffer = new byte[WebBodies.PieceBytes];
            while (await request.Body.ReadAsync(buffer, stop) > 0)
            {
            }

            response.Empty(200);
        });
    }

    // Idle connections get a ping at every second interval: 10,000 of them make 5,000 pings a second. Ten times as many
    // exceed one CPU that the client shares, and a late client is considered dead.
    private static TimeSpan Beat => TimeSpan.FromSeconds(1);

    private static void AddSockets(HttpServer server)
    {
        var options = new WebSocketOptions { Origins = WebSocketOrigins.Any };
        SessionGroup room = new();
        server.WebSocket("/echo", static () => new Echo(), options);
        server.WebSocket("/discard", static () => new Discard(), options);
        server.WebSocket("/room", () => new Member(room), options);
        server.WebSocket("/deflate/anew", static () => new Echo(),
            new WebSocketOptions { Origins = WebSocketOrigins.Any, Deflate = new WebSocketDeflate() });
        server.WebSocket("/deflate/context", static () => new Echo(), new WebSocketOptions
        {
            Origins = WebSocketOrigins.Any,
            Deflate = new WebSocketDeflate { Forgets = false, PeerForgets = false }
        });
        server.WebSocket("/beat", static () => new Echo(),
            new WebSocketOptions { Origins = WebSocketOrigins.Any, Heartbeat = Beat });
        foreach (var size in StreamSink.Sizes)
        {
            server.WebSocket(string.Create(CultureInfo.InvariantCulture, $"/stream/{size}"),
                (socket, _) => ReadStreamAsync(socket, size), options);
        }
    }

    private static async Task ReadStreamAsync(WebSocketSession socket, int size)
    {
        await using WebSocketStream stream = new(socket);
        await StreamSink.ReadAsync(stream, size, text =>
        {
            socket.SendText(text);
            return ValueTask.CompletedTask;
        });
    }

    private sealed class Echo : WebSocketSession
    {
        protected override void OnText(ReadOnlySpan<byte> utf8) => SendText(utf8);

        protected override void OnBinary(ReadOnlySpan<byte> data) => SendBinary(data);
    }

    private sealed class Discard : WebSocketSession
    {
        private long _messages;
        private long _bytes;

        protected override void OnText(ReadOnlySpan<byte> utf8) =>
            SendText(string.Create(CultureInfo.InvariantCulture, $"{_messages} {_bytes}"));

        protected override void OnBinary(ReadOnlySpan<byte> data)
        {
            _messages++;
            _bytes += data.Length;
        }
    }

    private sealed class Member(SessionGroup room) : WebSocketSession
    {
        protected override void OnConnected() => room.Join(this);

        protected override void OnText(ReadOnlySpan<byte> utf8)
        {
            if (utf8.SequenceEqual("?"u8))
            {
                SendText(utf8);
            }
            else
            {
                room.BroadcastText(utf8);
            }
        }
    }
}
