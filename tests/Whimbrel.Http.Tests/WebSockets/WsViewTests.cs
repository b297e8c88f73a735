using System.Net.WebSockets;
using System.Text;
using System.Threading.Channels;

namespace Whimbrel.Http.Tests.WebSockets;

// One program written for .NET's abstract class WebSocket, with .NET's client and with ours; the server side is ours.
public sealed class WsViewTests
{
    public static TheoryData<EngineKind, bool, bool> Ends()
    {
        TheoryData<EngineKind, bool, bool> ends = [];
        foreach (EngineKind kind in (EngineKind[])[EngineKind.Epoll, EngineKind.Uring, EngineKind.Portable])
        {
            foreach (bool isTls in (bool[])[false, true])
            {
                foreach (bool isNets in (bool[])[false, true]) ends.Add(kind, isTls, isNets);
            }
        }

        return ends;
    }

    public static TheoryData<bool> Clients() => [false, true];

    private static async Task<WebSocket> ConnectAsync(WsSite site, bool isNets, CancellationToken stop) =>
        isNets ? await site.ConnectNetAsync(stop) : (await site.ConnectAsync(null, stop)).AsWebSocket();

    // Typical code for the abstract class: fragments in, the same fragments out, until a close frame.
    private static async Task Echo(WebSocketSession session, CancellationToken stop)
    {
        using WebSocket socket = session.AsWebSocket();
        byte[] buffer = new byte[4096];
        while (true)
        {
            ValueWebSocketReceiveResult got = await socket.ReceiveAsync(buffer.AsMemory(), stop);
            if (got.MessageType == WebSocketMessageType.Close) break;
            await socket.SendAsync(buffer.AsMemory(0, got.Count), got.MessageType, got.EndOfMessage, stop);
        }

        Assert.Equal(WebSocketState.CloseReceived, socket.State);
        await socket.CloseAsync(socket.CloseStatus!.Value, socket.CloseStatusDescription, stop);
        Assert.Equal(WebSocketState.Closed, socket.State);
    }

    private static async Task<(byte[] Data, WebSocketMessageType Type)> ReceiveAsync(WebSocket socket,
        CancellationToken stop)
    {
        MemoryStream all = new();
        byte[] buffer = new byte[3000];
        while (true)
        {
            WebSocketReceiveResult got = await socket.ReceiveAsync(new ArraySegment<byte>(buffer), stop);
            all.Write(buffer, 0, got.Count);
            if (got.EndOfMessage) return (all.ToArray(), got.MessageType);
        }
    }

    [Theory, MemberData(nameof(Ends))]
    public async Task NETs_own_stream_goes_over_it_both_ways_at_once(EngineKind kind, bool isTls, bool isNets)
    {
        await using WsSite site = new(kind, isTls);
        await site.ServeAsync(Echo);
        using CancellationTokenSource limit = new(WsSite.Patience);
        WebSocket socket = await ConnectAsync(site, isNets, limit.Token);
        byte[] data = new byte[300_000], got = new byte[data.Length];
        new Random(2).NextBytes(data);
        Stream stream = System.Net.WebSockets.WebSocketStream.Create(socket, WebSocketMessageType.Binary,
            WsSite.Patience);
        Task reading = stream.ReadExactlyAsync(got, limit.Token).AsTask();
        for (int at = 0, next = 1; at < data.Length; next = (next * 3) % 20_011)
        {
            int count = Math.Min(next, data.Length - at);
            await stream.WriteAsync(data.AsMemory(at, count), limit.Token);
            at += count;
        }

        await reading;
        Assert.True(got.AsSpan().SequenceEqual(data));
        await stream.DisposeAsync(); // sends a close frame, and waits for the response
        Assert.Equal(WebSocketState.Closed, socket.State);
    }

    // A stream for one message leaves the socket open when it ends.
    [Theory, MemberData(nameof(Ends))]
    public async Task NETs_streams_of_single_messages_go_over_it_one_after_the_other(EngineKind kind, bool isTls,
        bool isNets)
    {
        await using WsSite site = new(kind, isTls);
        await site.ServeAsync(static async (session, stop) =>
        {
            WebSocket socket = session.AsWebSocket();
            for (int round = 0; round < 3; round++)
            {
                byte[] got = await ReadAllAsync(socket, stop);
                await using Stream message = System.Net.WebSockets.WebSocketStream.CreateWritableMessageStream(socket,
                    WebSocketMessageType.Text);
                for (int at = 0; at < got.Length; at += 7_001)
                    await message.WriteAsync(got.AsMemory(at, Math.Min(7_001, got.Length - at)), stop);
            }
        });
        using CancellationTokenSource limit = new(WsSite.Patience);
        using WebSocket socket = await ConnectAsync(site, isNets, limit.Token);
        foreach (int length in (int[])[0, 1, 1_000_000])
        {
            byte[] data = Encoding.ASCII.GetBytes(
                string.Concat(Enumerable.Range(0, length).Select(static i => (char)('a' + (i % 23)))));
            await using (Stream message = System.Net.WebSockets.WebSocketStream.CreateWritableMessageStream(socket,
                WebSocketMessageType.Binary))
            {
                for (int at = 0; at < length; at += 10_000)
                    await message.WriteAsync(data.AsMemory(at, Math.Min(10_000, length - at)), limit.Token);
            }

            byte[] back = await ReadAllAsync(socket, limit.Token);
            Assert.True(back.AsSpan().SequenceEqual(data));
            Assert.Equal(WebSocketState.Open, socket.State);
        }

        await socket.CloseAsync(WebSocketCloseStatus.NormalClosure, null, limit.Token);

        static async Task<byte[]> ReadAllAsync(WebSocket socket, CancellationToken stop)
        {
            await using Stream message = System.Net.WebSockets.WebSocketStream.CreateReadableMessageStream(socket);
            using MemoryStream all = new();
            await message.CopyToAsync(all, 3000, stop);
            return all.ToArray();
        }
    }

    [Theory, MemberData(nameof(Ends))]
    public async Task The_same_program_runs_on_both(EngineKind kind, bool isTls, bool isNets)
    {
        await using WsSite site = new(kind, isTls);
        await site.ServeAsync(Echo);
        using CancellationTokenSource limit = new(WsSite.Patience);
        using WebSocket socket = await ConnectAsync(site, isNets, limit.Token);
        Assert.Equal(WebSocketState.Open, socket.State);
        Assert.Null(socket.CloseStatus);
        byte[] data = new byte[100_000];
        new Random(1).NextBytes(data);
        Task<(byte[] Data, WebSocketMessageType Type)> receiving = ReceiveAsync(socket, limit.Token);
        await socket.SendAsync(new ArraySegment<byte>(data, 0, 40_000), WebSocketMessageType.Binary,
            endOfMessage: false, limit.Token);
        await socket.SendAsync(data.AsMemory(40_000, 60_000), WebSocketMessageType.Binary,
            WebSocketMessageFlags.EndOfMessage, limit.Token);
        (byte[] got, WebSocketMessageType type) = await receiving;
        Assert.True(got.AsSpan().SequenceEqual(data));
        Assert.Equal(WebSocketMessageType.Binary, type);
        await socket.SendAsync("h\u00E4llo"u8.ToArray().AsMemory(), WebSocketMessageType.Text, true, limit.Token);
        (got, type) = await ReceiveAsync(socket, limit.Token);
        Assert.Equal((WebSocketMessageType.Text, "h\u00E4llo"), (type, Encoding.UTF8.GetString(got)));
        await socket.CloseAsync((WebSocketCloseStatus)4001, "bye", limit.Token);
        Assert.Equal((WebSocketState.Closed, (WebSocketCloseStatus)4001, "bye"),
            (socket.State, socket.CloseStatus, socket.CloseStatusDescription));
    }

    [Theory, MemberData(nameof(Clients))]
    public async Task States_and_errors_are_the_same_on_both(bool isNets)
    {
        await using WsSite site = new(EngineKind.Portable);
        TaskCompletionSource mayEnd = new(TaskCreationOptions.RunContinuationsAsynchronously);
        await site.ServeAsync(async (session, _) =>
        {
            using WebSocket socket = session.AsWebSocket();
            byte[] buffer = new byte[100];
            Assert.Equal(WebSocketMessageType.Close,
                (await socket.ReceiveAsync(buffer.AsMemory(), CancellationToken.None)).MessageType);
            Assert.Equal((WebSocketState.CloseReceived, WebSocketCloseStatus.NormalClosure),
                (socket.State, socket.CloseStatus));
            await Assert.ThrowsAsync<System.Net.WebSockets.WebSocketException>(
                () => socket.ReceiveAsync(buffer.AsMemory(), CancellationToken.None).AsTask());
            await socket.SendAsync("after your end"u8.ToArray(), WebSocketMessageType.Text, true,
                CancellationToken.None);
            await mayEnd.Task;
            await socket.CloseOutputAsync(WebSocketCloseStatus.EndpointUnavailable, "me too", CancellationToken.None);
            Assert.Equal(WebSocketState.Closed, socket.State);
        });
        using CancellationTokenSource limit = new(WsSite.Patience);
        using WebSocket socket = await ConnectAsync(site, isNets, limit.Token);
        await Assert.ThrowsAsync<ArgumentException>(() => socket.SendAsync(default, WebSocketMessageType.Close, true,
            limit.Token));
        await Assert.ThrowsAsync<ArgumentException>(() => socket.CloseAsync((WebSocketCloseStatus)1006, null,
            limit.Token));
        await socket.CloseOutputAsync(WebSocketCloseStatus.NormalClosure, null, limit.Token);
        Assert.Equal(WebSocketState.CloseSent, socket.State);
        await Assert.ThrowsAsync<System.Net.WebSockets.WebSocketException>(
            () => socket.SendAsync(new byte[1].AsMemory(), WebSocketMessageType.Text, true, limit.Token).AsTask());
        (byte[] got, _) = await ReceiveAsync(socket, limit.Token);
        Assert.Equal("after your end", Encoding.ASCII.GetString(got));
        mayEnd.SetResult();
        (_, WebSocketMessageType type) = await ReceiveAsync(socket, limit.Token);
        Assert.Equal((WebSocketMessageType.Close, WebSocketState.Closed), (type, socket.State));
        Assert.Equal((WebSocketCloseStatus.EndpointUnavailable, "me too"),
            (socket.CloseStatus, socket.CloseStatusDescription));
        await Assert.ThrowsAsync<System.Net.WebSockets.WebSocketException>(
            () => socket.ReceiveAsync(new byte[1].AsMemory(), limit.Token).AsTask());
        socket.Dispose();
        await Assert.ThrowsAsync<ObjectDisposedException>(
            () => socket.SendAsync(new byte[1].AsMemory(), WebSocketMessageType.Text, true, limit.Token).AsTask());
    }

    [Theory, MemberData(nameof(Clients))]
    public async Task A_cancelled_receive_aborts_and_so_does_an_end_without_a_close_frame(bool isNets)
    {
        await using WsSite site = new(EngineKind.Portable);
        await site.ServeAsync(static async (session, _) =>
        {
            await session.ReceiveMessageAsync(CancellationToken.None);
            session.Abort();
        });
        using CancellationTokenSource limit = new(WsSite.Patience), stop = new();
        using WebSocket first = await ConnectAsync(site, isNets, limit.Token),
            second = await ConnectAsync(site, isNets, limit.Token);
        Task receiving = first.ReceiveAsync(new byte[1].AsMemory(), stop.Token).AsTask();
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => receiving);
        Assert.Equal(WebSocketState.Aborted, first.State);
        await second.SendAsync(new byte[1].AsMemory(), WebSocketMessageType.Binary, true, limit.Token);
        System.Net.WebSockets.WebSocketException e = await Assert.ThrowsAsync<System.Net.WebSockets.WebSocketException>(
            () => second.ReceiveAsync(new byte[1].AsMemory(), limit.Token).AsTask());
        Assert.Equal(WebSocketError.ConnectionClosedPrematurely, e.WebSocketErrorCode);
        Assert.Equal(WebSocketState.Aborted, second.State);
    }

    [Theory, MemberData(nameof(Ends))]
    public async Task A_close_frame_was_sent_when_its_sender_continues_and_aborts(EngineKind kind, bool isTls,
        bool isNets)
    {
        await using WsSite site = new(kind, isTls);
        Channel<string> seen = Channel.CreateUnbounded<string>();
        await site.ServeAsync(async (session, stop) =>
        {
            try
            {
                string text = "";
                while (await session.ReceiveMessageAsync(stop) is { } message) text += message.Text;
                seen.Writer.TryWrite($"{text}, {session.CloseStatus} {session.CloseText}");
            }
            catch (WebSocketException e)
            {
                seen.Writer.TryWrite(e.Message);
            }
        });
        using CancellationTokenSource limit = new(WsSite.Patience);
        for (int i = 0; i < 20; i++)
        {
            using WebSocket socket = await ConnectAsync(site, isNets, limit.Token);
            await socket.SendAsync("said"u8.ToArray().AsMemory(), WebSocketMessageType.Text, true, limit.Token);
            await socket.CloseOutputAsync(WebSocketCloseStatus.NormalClosure, "enough", limit.Token);
            if (i % 2 == 0) socket.Abort();
            else socket.Dispose();
            Assert.Equal("said, Normal enough", await seen.Reader.ReadAsync(limit.Token));
        }
    }

    [Fact]
    public async Task Messages_before_the_end_are_available_to_a_view_that_is_created_after_it()
    {
        await using WsSite site = new(EngineKind.Portable);
        await site.ServeAsync(
            static (session, _) =>
            {
                session.SendText("last words");
                session.Close((WebSocketStatus)4002, "gone");
                return Task.CompletedTask;
            },
            new WebSocketOptions { CloseTimeout = TimeSpan.FromMilliseconds(10) });
        using CancellationTokenSource limit = new(WsSite.Patience);
        WebSocketSession session = await site.ConnectAsync(null, limit.Token);
        // tidy: waits because a session in pull mode reports its end by a receive only
        while (session.IsConnected) await Task.Delay(10, limit.Token);
        using WebSocket socket = session.AsWebSocket();
        Assert.Equal(WebSocketState.Open, socket.State);
        (byte[] got, WebSocketMessageType type) = await ReceiveAsync(socket, limit.Token);
        Assert.Equal((WebSocketMessageType.Text, "last words"), (type, Encoding.ASCII.GetString(got)));
        Assert.Equal(WebSocketMessageType.Close, (await ReceiveAsync(socket, limit.Token)).Type);
        Assert.Equal((WebSocketState.CloseReceived, (WebSocketCloseStatus)4002, "gone"),
            (socket.State, socket.CloseStatus, socket.CloseStatusDescription));
        await socket.CloseOutputAsync(WebSocketCloseStatus.NormalClosure, null, limit.Token);
        Assert.Equal(WebSocketState.Closed, socket.State);
    }

    [Fact]
    public async Task A_view_of_a_lost_connection_is_aborted_and_not_closed()
    {
        await using WsSite site = new(EngineKind.Portable);
        await site.ServeAsync(static async (session, _) => await session.ReceiveMessageAsync(CancellationToken.None));
        using CancellationTokenSource limit = new(WsSite.Patience);
        WebSocketSession session = await site.ConnectAsync(null, limit.Token);
        session.Abort();
        // tidy: waits because a session in pull mode reports its end by a receive only
        while (session.IsConnected) await Task.Delay(10, limit.Token);
        using WebSocket socket = session.AsWebSocket();
        Assert.Equal((WebSocketState.Aborted, (WebSocketCloseStatus?)null), (socket.State, socket.CloseStatus));
        System.Net.WebSockets.WebSocketException e = await Assert.ThrowsAsync<System.Net.WebSockets.WebSocketException>(
            () => socket.ReceiveAsync(new byte[1].AsMemory(), limit.Token).AsTask());
        Assert.Equal(WebSocketError.ConnectionClosedPrematurely, e.WebSocketErrorCode);
        await Assert.ThrowsAsync<System.Net.WebSockets.WebSocketException>(
            () => socket.SendAsync(new byte[1].AsMemory(), WebSocketMessageType.Text, true, limit.Token).AsTask());
    }
}
