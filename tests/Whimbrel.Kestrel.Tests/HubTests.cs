using System.Net;
using System.Text;
using System.Threading.Channels;
using Microsoft.AspNetCore.SignalR;
using Microsoft.AspNetCore.SignalR.Client;
using Microsoft.Extensions.DependencyInjection;
using Whimbrel.Http;

namespace Whimbrel.Kestrel.Tests;

// SignalR's client over our WebSocket adapter and over .NET's own: both must behave the same.
public sealed class HubTests
{
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(60);

    public static TheoryData<EngineKind?> Kinds =>
        new((EngineKind?[])[null, EngineKind.Epoll, EngineKind.Uring, EngineKind.Portable]);

    private static CancellationToken Token => TestContext.Current.CancellationToken;

    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task A_stream_ends_at_the_hub_when_its_reader_ends_it_and_calls_continue(EngineKind? kind)
    {
        await using SampleSite site = await SampleSite.StartAsync("inline");
        await using HubCaller caller = new(AddressOf(site, isTls: true), kind);
        HubConnection hub = caller.Hub;
        await hub.StartAsync(Token);
        int next = 0;
        using CancellationTokenSource enough = CancellationTokenSource.CreateLinkedTokenSource(Token);
        await Assert.ThrowsAnyAsync<OperationCanceledException>(async () =>
        {
            await foreach (string text in hub.StreamAsync<string>("Count", 0, int.MaxValue, enough.Token))
            {
                Assert.Equal($"number {next++}", text);
                if (next == 1000) await enough.CancelAsync();
            }
        });
        Assert.True(await NextAsync(site.Journal.Counts));
        Assert.Equal("ba", await hub.InvokeAsync<string>("Reverse", "ab", Token));
    }

    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task Messages_of_any_length_come_back_while_others_are_in_transit(EngineKind? kind)
    {
        await using SampleSite site = await SampleSite.StartAsync("inline");
        await using HubCaller caller = new(AddressOf(site, isTls: true), kind,
            connect: static options => options.AccessTokenProvider = static () => Task.FromResult<string?>("secret"));
        HubConnection hub = caller.Hub;
        await hub.StartAsync(Token);
        Assert.Equal("Bearer secret", await hub.InvokeAsync<string>("Token", Token));
        List<Task> all = [];
        foreach (int length in (int[])[0, 1, 60, 125, 126, 4095, 4096, 16_384, 65_470, 65_535, 65_536, 300_000,
            1_048_576, 8_000_000])
        {
            all.Add(EchoAsync(hub, length));
            for (int i = 0; i < 5; i++) all.Add(EchoAsync(hub, 10 + i));
        }

        await Task.WhenAll(all);
        Assert.Empty(caller.Complaints);

        static async Task EchoAsync(HubConnection hub, int length)
        {
            string text = string.Create(length, length, static (span, length) =>
            {
                for (int i = 0; i < span.Length; i++) span[i] = (char)('a' + ((i + length) * 7 % 26));
            });
            string back = await hub.InvokeAsync<string>("Echo", text, Token);
            Assert.True(text == back, $"{length} characters came back as {back.Length}, or as others.");
        }
    }

    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task A_client_reconnects_after_a_cut_or_a_server_restart_and_not_after_a_dismissal(EngineKind? kind)
    {
        await using SampleSite first = await SampleSite.StartAsync("stock"),
            second = await SampleSite.StartAsync("inline");
        await using HubCaller caller = new(AddressOf(first, isTls: false),
            kind, static builder => builder.WithAutomaticReconnect(new Often()),
            static options => options.SkipNegotiation = true);
        HubConnection hub = caller.Hub;
        Channel<Exception?> lost = Channel.CreateUnbounded<Exception?>();
        Channel<bool> back = Channel.CreateUnbounded<bool>();
        hub.Reconnecting += why =>
        {
            lost.Writer.TryWrite(why);
            return Task.CompletedTask;
        };
        hub.Reconnected += _ =>
        {
            back.Writer.TryWrite(true);
            return Task.CompletedTask;
        };
        await hub.StartAsync(Token);
        await hub.SendAsync("Vanish", Token);
        await NextAsync(lost);
        await NextAsync(back);
        Assert.Equal("ba", await hub.InvokeAsync<string>("Reverse", "ab", Token));

        // A connect in the last moment of the listener is accepted, and served until the server's drain times out.
        using CancellationTokenSource patience = new(TimeSpan.FromSeconds(1));
        await first.StopAsync(patience.Token);
        for (int i = 0; i < 3; i++) Assert.True(await caller.Failures.WaitAsync(s_patience, Token));
        while (back.Reader.TryRead(out _))
        {
        }

        caller.Elsewhere = AddressOf(second, isTls: false);
        await NextAsync(back);
        Assert.Equal("dc", await hub.InvokeAsync<string>("Reverse", "cd", Token));
        while (lost.Reader.TryRead(out _))
        {
        }

        await hub.SendAsync("Leave", Token);
        Assert.Null(await caller.Closed.Task.WaitAsync(s_patience, Token));
        Assert.Null(await NextAsync(second.Journal.Ends));
        Assert.False(lost.Reader.TryRead(out _));
        while (caller.Sessions.Reader.TryRead(out WebSocketSession? session)) await HasEndedAsync(session);
    }

    // If the connection is cut while messages are in transit, SignalR's client loses some of them with .NET's own
    // WebSocket as well: so it is cut after all have arrived.
    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task A_stateful_client_stays_the_same_one_over_cuts_and_its_stop_is_not_waited_for(EngineKind? kind)
    {
        await using SampleSite site = await SampleSite.StartAsync("pool");
        await using HubCaller caller = new(AddressOf(site, isTls: false), kind,
            static builder => builder.WithAutomaticReconnect(new Often()).WithStatefulReconnect());
        HubConnection hub = caller.Hub;
        await hub.StartAsync(Token);
        string id = hub.ConnectionId!;
        Action cut = await NextAsync(caller.Cuts);
        for (int i = 0; i < 5; i++)
        {
            for (int j = 0; j < 20; j++) Assert.Equal("ba", await hub.InvokeAsync<string>("Reverse", "ab", Token));
            cut();
            cut = await NextAsync(caller.Cuts);
        }

        Assert.Equal("dc", await hub.InvokeAsync<string>("Reverse", "cd", Token));
        Assert.Equal(id, hub.ConnectionId);
        await hub.StopAsync(Token);
        // The hub keeps a client that it considers lost for longer than this.
        Assert.Null(await site.Journal.Ends.Reader.ReadAsync(Token).AsTask()
            .WaitAsync(TimeSpan.FromSeconds(10), Token));
    }

    // ------------------------------------------------------------------ servers that are not hubs

    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task A_silent_server_is_disconnected(EngineKind? kind)
    {
        await using HttpServer web = new("http://127.0.0.1:0");
        Channel<bool> ended = Channel.CreateUnbounded<bool>();
        web.WebSocket("/mute", async (socket, _) => ended.Writer.TryWrite(await EndOf(socket)));
        web.WebSocket("/still", async (socket, stop) =>
        {
            await ShakeAsync(socket, stop);
            ended.Writer.TryWrite(await EndOf(socket));
        });
        await web.StartAsync();
        await using HubCaller mute = new(new Uri($"http://{web.EndPoint}/mute"), kind,
            connect: static options => options.SkipNegotiation = true);
        mute.Hub.HandshakeTimeout = TimeSpan.FromMilliseconds(300);
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => mute.Hub.StartAsync(Token));
        await NextAsync(ended);
        await using HubCaller still = new(new Uri($"http://{web.EndPoint}/still"), kind,
            connect: static options => options.SkipNegotiation = true);
        still.Hub.ServerTimeout = TimeSpan.FromMilliseconds(500);
        await still.Hub.StartAsync(Token);
        Task<string> call = still.Hub.InvokeAsync<string>("Reverse", "ab", Token);
        Assert.IsType<TimeoutException>(await still.Closed.Task.WaitAsync(s_patience, Token));
        await Assert.ThrowsAnyAsync<Exception>(() => call);
        await NextAsync(ended);
    }

    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task An_end_is_reported_with_its_cause_and_pending_calls_fail(EngineKind? kind)
    {
        await using HttpServer web = new("http://127.0.0.1:0");
        Dictionary<string, Func<WebSocketSession, Task>> ends = new()
        {
            ["abort"] = static socket =>
            {
                socket.Abort();
                return Task.CompletedTask;
            },
            ["normal"] = static async socket => await socket.CloseAsync(WebSocketStatus.Normal),
            ["error"] = static async socket => await socket.CloseAsync(WebSocketStatus.InternalError, "went wrong"),
            ["half"] = static async socket =>
            {
                await socket.SendPieceAsync("{\"type\":6"u8.ToArray(), isText: true, isLast: false);
                socket.Abort();
            },
            ["garbage"] = static async socket =>
            {
                await socket.SendTextAsync("no message of a hub\u001e"u8.ToArray());
                await EndOf(socket);
            },
        };
        foreach ((string name, Func<WebSocketSession, Task> end) in ends)
        {
            web.WebSocket("/" + name, async (socket, stop) =>
            {
                await ShakeAsync(socket, stop);
                // Sent after the client's first ping. If a call is still unsent, SignalR's client notices that it
                // cannot send, and reports no cause.
                while (!(await socket.ReceiveMessageAsync(stop))!.Value.Text.Contains("Reverse",
                    StringComparison.Ordinal))
                {
                }

                await end(socket);
            });
        }

        await web.StartAsync();
        foreach (string name in ends.Keys)
        {
            await using HubCaller caller = new(new Uri($"http://{web.EndPoint}/{name}"), kind,
                connect: static options => options.SkipNegotiation = true);
            await caller.Hub.StartAsync(Token);
            Task<string> call = caller.Hub.InvokeAsync<string>("Reverse", "ab", Token);
            Exception? why = await caller.Closed.Task.WaitAsync(s_patience, Token);
            await Assert.ThrowsAnyAsync<Exception>(() => call);
            Type? expected = name switch
            {
                "normal" => null,
                "error" => typeof(InvalidOperationException),
                "garbage" => typeof(InvalidDataException),
                _ => typeof(System.Net.WebSockets.WebSocketException),
            };
            Assert.True(expected == why?.GetType(), $"{name}: {why}");
            if (kind is not null) await HasEndedAsync(await NextAsync(caller.Sessions));
        }
    }

    [Theory]
    [MemberData(nameof(Kinds))]
    public async Task A_client_disposed_during_traffic_leaves_nothing_open(EngineKind? kind)
    {
        await using SampleSite site = await SampleSite.StartAsync("inline");
        for (int round = 0; round < 10; round++)
        {
            HubCaller caller = new(AddressOf(site, isTls: false), kind);
            await using (caller)
            {
                HubConnection hub = caller.Hub;
                SemaphoreSlim came = new(0);
                await hub.StartAsync(Token);
                Task reading = ReadAsync(hub, came);
                Task[] calls = [.. Enumerable.Range(0, 4)
                    .Select(_ => hub.InvokeAsync<string>("Echo", new string('x', 1_000_000), Token))];
                for (int i = 0; i < 50 * round; i++) Assert.True(await came.WaitAsync(s_patience, Token));
                await hub.DisposeAsync();
                await Assert.ThrowsAnyAsync<Exception>(() => reading.WaitAsync(s_patience, Token));
                foreach (Task call in calls) await Task.WhenAny(call).WaitAsync(s_patience, Token);
                await NextAsync(site.Journal.Ends);
                if (kind is not null) await HasEndedAsync(await NextAsync(caller.Sessions));
            }
        }

        static async Task ReadAsync(HubConnection hub, SemaphoreSlim came)
        {
            await foreach (string _ in hub.StreamAsync<string>("Count", 0, int.MaxValue, Token)) came.Release();
        }
    }

    // ------------------------------------------------------------------ helpers

    private static Uri AddressOf(SampleSite site, bool isTls) => new(isTls ? site.Tls : site.Plain, "/clerk");

    private static async Task<T> NextAsync<T>(Channel<T> channel) =>
        await channel.Reader.ReadAsync(Token).AsTask().WaitAsync(s_patience, Token);

    private static async Task HasEndedAsync(WebSocketSession session)
    {
        await session.CloseAsync(Token).AsTask().WaitAsync(s_patience, Token);
        Assert.False(session.IsConnected);
    }

    // SignalR's own handshake, and the message after it.
    private static async Task ShakeAsync(WebSocketSession socket, CancellationToken stop)
    {
        Assert.Contains("\"json\"", (await socket.ReceiveMessageAsync(stop))!.Value.Text, StringComparison.Ordinal);
        await socket.SendTextAsync("{}\u001e"u8.ToArray(), stop);
    }

    // False: by a failure.
    private static async Task<bool> EndOf(WebSocketSession socket)
    {
        try
        {
            while (await socket.ReceiveMessageAsync(CancellationToken.None) is not null)
            {
            }

            return true;
        }
        catch (Http.WebSocketException)
        {
            return false;
        }
    }

    /// <summary>Retries immediately, and then every 20 ms, without limit.</summary>
    private sealed class Often : IRetryPolicy
    {
        public TimeSpan? NextRetryDelay(RetryContext retryContext) =>
            retryContext.PreviousRetryCount == 0 ? TimeSpan.Zero : TimeSpan.FromMilliseconds(20);
    }
}
