using System.Buffers;
using System.Globalization;
using System.Net;
using System.Net.WebSockets;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Hosting.Server.Features;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.AspNetCore.Routing;
using Microsoft.AspNetCore.StaticFiles;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.FileProviders;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Whimbrel.Kestrel;

namespace Whimbrel.Bench.Peers;

/// <summary>
/// ASP.NET Core on Kestrel with the same routes: request delegates, static files, and its WebSockets.
/// </summary>
internal static class KestrelWeb
{
    public static async Task RunAsync(int port, string folder, X509Certificate2? certificate, string[]? whimbrel,
        Action<IPEndPoint> tell)
    {
        var builder = WebApplication.CreateSlimBuilder();
        builder.Logging.ClearProviders();
        if (whimbrel is [var engine, .. var style])
        {
            builder.WebHost.UseWhimbrel(options =>
            {
                options.EngineOptions =
                    new EngineOptions { Kind = Enum.Parse<EngineKind>(engine, ignoreCase: true), Loops = 1 };
                options.Scheduling = style is ["onloop"] ? Scheduling.Inline : Scheduling.ThreadPool;
            });
        }

        if (certificate is not null)
        {
            builder.WebHost.UseKestrelHttpsConfiguration();
        }

        builder.WebHost.ConfigureKestrel(kestrel =>
        {
            kestrel.Limits.MaxRequestBodySize = null;
            kestrel.Listen(IPAddress.Loopback, port, listener =>
            {
                if (certificate is not null)
                {
                    listener.UseHttps(certificate);
                }
            });
        });
        await using var app = builder.Build();
        app.UseWebSockets();
        app.UseStaticFiles(new StaticFileOptions
        {
            FileProvider = new PhysicalFileProvider(Path.GetFullPath(Path.Combine(folder, "files"))),
            RequestPath = "/files",
            ServeUnknownFileTypes = true
        });
        AddRoutes(app, new WebBodies(folder));
        AddSockets(app);
        AddStreams(app);
        await app.StartAsync();
        var addresses =
            app.Services.GetRequiredService<IServer>().Features.GetRequiredFeature<IServerAddressesFeature>();
        tell(new IPEndPoint(IPAddress.Loopback, new Uri(addresses.Addresses.First()).Port));
        await app.WaitForShutdownAsync();
    }

    private static void AddRoutes(WebApplication app, WebBodies bodies)
    {
        foreach (var size in WebBodies.Sizes)
        {
            var (body, plain) = (bodies.Of(size), bodies.PlainOf(size));
            app.MapGet($"/bytes/{size}", context => AnswerAsync(context, body));
            foreach (var waiting in (string[])["async", "loops"])
            {
                app.MapGet($"/{waiting}/{size}", async context =>
                {
                    await Task.Yield();
                    await AnswerAsync(context, body);
                });
            }

            app.MapGet($"/aes/{size}", context =>
            {
                Span<byte> encrypted = stackalloc byte[WebBodies.LargestBytes];
                var length = bodies.Encrypt(plain, encrypted);
                Begin(context, length);
                context.Response.BodyWriter.Write(encrypted[..length]);
                return Task.CompletedTask;
            });
            app.MapGet($"/pool/{size}", context =>
            {
                // The handler is on the pool already.
                Thread.Sleep(1);
                return AnswerAsync(context, body);
            });
        }

        app.MapGet("/stream/{count}", async context =>
        {
            var count = long.Parse((string)context.Request.RouteValues["count"]!, CultureInfo.InvariantCulture);
            Begin(context, count);
            for (long at = 0; at < count;)
            {
                var piece = bodies.PieceAt(at, count);
                await context.Response.Body.WriteAsync(piece, context.RequestAborted);
                at += piece.Length;
            }
        });
        app.MapPut("/sink", async context =>
        {
            var buffer = new byte[WebBodies.PieceBytes];
            while (await context.Request.Body.ReadAsync(buffer, context.RequestAborted) > 0)
            {
            }

            context.Response.ContentLength = 0;
        });
    }

    private static void Begin(HttpContext context, long length)
    {
        context.Response.ContentType = "application/octet-stream";
        context.Response.ContentLength = length;
    }

    private static Task AnswerAsync(HttpContext context, byte[] body)
    {
        Begin(context, body.Length);
        return context.Response.Body.WriteAsync(body, 0, body.Length);
    }

    private static void AddSockets(WebApplication app)
    {
        Lock entry = new();
        var members = Array.Empty<Member>();
        Map(app, "/echo", EchoAsync);
        Map(app, "/deflate/anew", EchoAsync,
            new WebSocketAcceptContext { DangerousEnableCompression = true, DisableServerContextTakeover = true });
        Map(app, "/deflate/context", EchoAsync, new WebSocketAcceptContext { DangerousEnableCompression = true });
        Map(app, "/beat", EchoAsync, new WebSocketAcceptContext
        {
            KeepAliveInterval = TimeSpan.FromSeconds(2),
            KeepAliveTimeout = TimeSpan.FromSeconds(20)
        });
        Map(app, "/discard", static async (socket, _) =>
        {
            var buffer = new byte[4 * WebBodies.PieceBytes];
            long messages = 0, bytes = 0;
            while (await socket.ReceiveAsync(buffer.AsMemory(), default)
                is { MessageType: not WebSocketMessageType.Close } got)
            {
                if (got.MessageType == WebSocketMessageType.Text)
                {
                    await socket.SendAsync(Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture,
                        $"{messages} {bytes}")), WebSocketMessageType.Text, true, default);
                    continue;
                }

                messages += got.EndOfMessage ? 1 : 0;
                bytes += got.Count;
            }
        });
        Map(app, "/room", async (socket, _) =>
        {
            var member = new Member(socket);
            lock (entry)
            {
                members = [.. members, member];
            }

            var buffer = new byte[1024];
            try
            {
                while (await socket.ReceiveAsync(buffer.AsMemory(), default)
                    is { MessageType: not WebSocketMessageType.Close } got)
                {
                    var text = buffer.AsMemory(0, got.Count);
                    if (text.Span.SequenceEqual("?"u8))
                    {
                        await member.SendAsync(text);
                        continue;
                    }

                    foreach (var one in members)
                    {
                        await one.SendAsync(text);
                    }
                }
            }
            finally
            {
                // The load program of the next window must not pay for sends to members of this one.
                lock (entry)
                {
                    members = [.. members.Where(m => m != member)];
                }
            }
        });
    }

    private static async Task EchoAsync(WebSocket socket, HttpContext context)
    {
        var buffer = new byte[WebBodies.PieceBytes];
        while (await socket.ReceiveAsync(buffer.AsMemory(), default)
            is { MessageType: not WebSocketMessageType.Close } got)
        {
            await socket.SendAsync(buffer.AsMemory(0, got.Count), got.MessageType, got.EndOfMessage, default);
        }
    }

    private static void AddStreams(WebApplication app)
    {
        foreach (var size in StreamSink.Sizes)
        {
            Map(app, string.Create(CultureInfo.InvariantCulture, $"/stream/{size}"), async (socket, _) =>
            {
                await using var stream = WebSocketStream.Create(socket, WebSocketMessageType.Binary,
                    ownsWebSocket: false);
                await StreamSink.ReadAsync(stream, size, text => socket.SendAsync(
                    Encoding.ASCII.GetBytes(text).AsMemory(), WebSocketMessageType.Text, true, default));
            });
        }
    }

    private static void Map(WebApplication app, string path, Func<WebSocket, HttpContext, Task> serve,
        WebSocketAcceptContext? terms = null) => app.MapGet(path, async context =>
        {
            using var socket = await context.WebSockets.AcceptWebSocketAsync(terms ?? new WebSocketAcceptContext());
            try
            {
                await serve(socket, context);
                await socket.CloseOutputAsync(WebSocketCloseStatus.NormalClosure, null, default);
            }
            catch (Exception gone) when (gone is WebSocketException or OperationCanceledException or IOException)
            {
                // The client disconnected; the connection ends either way.
            }
        });

    /// <summary>Several broadcasts may reach a member concurrently, and a WebSocket accepts one send at a
    /// time.</summary>
    private sealed class Member(WebSocket socket)
    {
        private readonly SemaphoreSlim _turn = new(1);

        public async ValueTask SendAsync(ReadOnlyMemory<byte> text)
        {
            await _turn.WaitAsync();
            try
            {
                await socket.SendAsync(text, WebSocketMessageType.Text, true, default);
            }
            catch (WebSocketException)
            {
                // The member has left.
            }
            finally
            {
                _turn.Release();
            }
        }
    }
}
