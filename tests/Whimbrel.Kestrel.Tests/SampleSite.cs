using System.Buffers;
using System.Diagnostics.CodeAnalysis;
using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using System.Text;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Connections;
using Microsoft.AspNetCore.Connections.Features;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Hosting.Server.Features;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Http.Features;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Microsoft.AspNetCore.SignalR;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Whimbrel.Conformance;

namespace Whimbrel.Kestrel.Tests;

/// <summary>The application under test, in this process: the same on Kestrel's own transport and on ours.</summary>
internal sealed class SampleSite : IAsyncDisposable
{
    private readonly WebApplication _app;

    private SampleSite(WebApplication app) => _app = app;

    /// <summary>Plain, HTTP/1.1; HTTP/2 with prior knowledge; TLS with either by ALPN.</summary>
    internal Uri Plain => AddressOf(0);

    internal Uri Http2 => AddressOf(1);

    internal Uri Tls => AddressOf(2);

    /// <summary>Completes when a request of /wait was aborted.</summary>
    internal TaskCompletionSource Aborted { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);

    /// <summary>Released when a request of /slow has started; it completes when the second semaphore is
    /// released.</summary>
    internal SemaphoreSlim Begun { get; } = new(0);

    internal SemaphoreSlim Release { get; } = new(0);

    internal Clerk.Journal Journal => _app.Services.GetRequiredService<Clerk.Journal>();

    internal static async Task<SampleSite> StartAsync(string transport, Action<KestrelServerOptions>? listen = null)
    {
        WebApplicationBuilder builder = WebApplication.CreateSlimBuilder();
        builder.Logging.ClearProviders();
        builder.WebHost.UseKestrelHttpsConfiguration();
        builder.Services.AddSignalR(static options =>
        {
            options.MaximumReceiveMessageSize = null;
            options.MaximumParallelInvocationsPerClient = 2; // a method that calls its caller waits for the result
        });
        builder.Services.AddSingleton<Clerk.Journal>();
        if (transport != "stock")
            builder.WebHost.UseWhimbrel(
                options => options.Scheduling = transport == "inline" ? Scheduling.Inline : Scheduling.ThreadPool);
        builder.WebHost.ConfigureKestrel(kestrel =>
        {
            kestrel.Limits.MaxRequestBodySize = null;
            if (listen is not null)
            {
                listen(kestrel);
                return;
            }

            kestrel.Listen(IPAddress.Loopback, 0, static end => end.Protocols = HttpProtocols.Http1);
            kestrel.Listen(IPAddress.Loopback, 0, static end => end.Protocols = HttpProtocols.Http2);
            kestrel.Listen(IPAddress.Loopback, 0, static end => end.UseHttps(TestCertificates.Server));
        });
        WebApplication app = builder.Build();
        SampleSite site = new(app);
        site.Map();
        try
        {
            await app.StartAsync();
            return site;
        }
        catch
        {
            await app.DisposeAsync();
            throw;
        }
    }

    internal Task StopAsync(CancellationToken patience) => _app.StopAsync(patience);

    public ValueTask DisposeAsync() => _app.DisposeAsync();

    private Uri AddressOf(int index) =>
        new(_app.Services.GetRequiredService<IServer>().Features.GetRequiredFeature<IServerAddressesFeature>().Addresses
            .ElementAt(index));

    private void Map()
    {
        _app.UseWebSockets();
        _app.MapGet("/plaintext", static context =>
        {
            context.Response.ContentLength = 13;
            return context.Response.WriteAsync("Hello, World!");
        });
        _app.MapGet("/json", static context => context.Response.WriteAsync("""{"message":"Hello, World!"}"""));
        _app.MapGet("/down/{length:int}", static async (HttpContext context, int length) =>
        {
            for (int done = 0; done < length;)
            {
                int count = Math.Min(length - done, 4096 + (done % 3001));
                Fill(context.Response.BodyWriter.GetSpan(count)[..count], done);
                context.Response.BodyWriter.Advance(count);
                await context.Response.BodyWriter.FlushAsync();
                done += count;
            }
        });
        _app.MapPost("/up", static async context =>
        {
            (long length, bool isRight) = await CheckAsync(context.Request.Body);
            await context.Response.WriteAsync($"{length} {isRight}");
        });
        _app.MapPost("/echo", static async context =>
        {
            await context.Response.StartAsync();
            await context.Response.Body.FlushAsync();
            byte[] memory = new byte[10_000];
            int count;
            while ((count = await context.Request.Body.ReadAsync(memory)) > 0)
            {
                await context.Response.Body.WriteAsync(memory.AsMemory(0, count));
                await context.Response.Body.FlushAsync();
            }
        });
        _app.MapGet("/wait", async context =>
        {
            Begun.Release();
            TaskCompletionSource gone = new(TaskCreationOptions.RunContinuationsAsynchronously);
            using CancellationTokenRegistration told = context.RequestAborted.Register(gone.SetResult);
            await gone.Task;
            Aborted.TrySetResult();
        });
        _app.MapGet("/slow", async context =>
        {
            using CancellationTokenRegistration told = context.RequestAborted.Register(() => Aborted.TrySetResult());
            Begun.Release();
            await Release.WaitAsync();
            await context.Response.WriteAsync("slow, and whole");
        });
        _app.MapGet("/drop", async context =>
        {
            using CancellationTokenRegistration told = context.RequestAborted.Register(() => Aborted.TrySetResult());
            Begun.Release();
            await Release.WaitAsync();
            context.Abort();
        });
        _app.MapGet("/ends", static context =>
        {
            Socket socket = context.Features.Get<IConnectionSocketFeature>()!.Socket;
            return context.Response.WriteAsync(
                $"{context.Connection.RemoteIpAddress} {context.Connection.RemotePort} "
                + $"{context.Connection.LocalIpAddress} {context.Connection.LocalPort}, {socket.RemoteEndPoint} "
                + $"{socket.LocalEndPoint}");
        });
        _app.MapGet("/abort", static async context =>
        {
            await context.Response.WriteAsync("begun");
            await context.Response.Body.FlushAsync();
            context.Abort();
        });
        _app.MapGet("/about", static context =>
        {
            IConnectionSocketFeature? socket = context.Features.Get<IConnectionSocketFeature>();
            return context.Response.WriteAsync($"{context.Connection.Id.Length > 0} {context.Connection.RemotePort} "
                + $"{context.Connection.LocalPort} {socket?.Socket.RemoteEndPoint}");
        });
        _app.Map("/socket", static async context =>
        {
            using System.Net.WebSockets.WebSocket socket = await context.WebSockets.AcceptWebSocketAsync();
            byte[] memory = new byte[100_000];
            while (true)
            {
                var got = await socket.ReceiveAsync(memory.AsMemory(), CancellationToken.None);
                if (got.MessageType == System.Net.WebSockets.WebSocketMessageType.Close) break;
                await socket.SendAsync(memory.AsMemory(0, got.Count), got.MessageType, got.EndOfMessage,
                    CancellationToken.None);
            }

            await socket.CloseAsync(System.Net.WebSockets.WebSocketCloseStatus.NormalClosure, null,
                CancellationToken.None);
        });
        _app.MapHub<Chat>("/chat");
        _app.MapHub<Clerk>("/clerk", static hub => hub.AllowStatefulReconnects = true);
    }

    /// <summary>Bytes with values that depend on their offset.</summary>
    internal static void Fill(Span<byte> span, long from)
    {
        for (int i = 0; i < span.Length; i++) span[i] = (byte)(((from + i) * 31) >> 3);
    }

    internal static async Task<(long Length, bool IsRight)> CheckAsync(Stream stream)
    {
        byte[] memory = new byte[50_000];
        byte[] expected = new byte[memory.Length];
        (long length, bool isRight) = (0, true);
        int count;
        while ((count = await stream.ReadAsync(memory)) > 0)
        {
            Fill(expected.AsSpan(0, count), length);
            isRight &= memory.AsSpan(0, count).SequenceEqual(expected.AsSpan(0, count));
            length += count;
        }

        return (length, isRight);
    }

    [SuppressMessage("Performance", "CA1822", Justification = "Methods of a hub are found on its instances.")]
    internal sealed class Chat : Hub
    {
        public Task Say(string text) => Clients.All.SendAsync("Said", Encoding.UTF8.GetByteCount(text), text);

        public string Twice(string text) => text + text;

        public async IAsyncEnumerable<int> Count(int to, [EnumeratorCancellation] CancellationToken stop)
        {
            for (int i = 0; i < to; i++)
            {
                stop.ThrowIfCancellationRequested();
                if (i % 100 == 0) await Task.Yield();
                yield return i;
            }
        }

        public async Task<long> Sum(IAsyncEnumerable<int> numbers)
        {
            long sum = 0;
            await foreach (int number in numbers) sum += number;
            return sum;
        }

        public async Task<string> AskBack() => await Clients.Caller.InvokeAsync<string>("Name", CancellationToken.None);

        // Aborts the HTTP connection, not the hub's context: that would send a close message, after which a client does
        // not reconnect.
        public void Drop() => Context.GetHttpContext()!.Abort();
    }
}
