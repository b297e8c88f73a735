using System.Net.WebSockets;
using Whimbrel.Conformance;

namespace Whimbrel.Http.Tests.WebSockets;

// An exception of any callback, or of what was posted, is told to the peer as 1011.
public sealed class WsExceptionTests
{
    private sealed class Throwing(string where) : WebSocketSession
    {
        internal TaskCompletionSource<string> Told { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);

        internal TaskCompletionSource<CloseReason> Ended { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);

        protected override void OnConnected()
        {
            SendText("before");
            if (where == "OnConnected") throw new InvalidOperationException("mine");
            if (where == "OnTimer") StartTimer(TimeSpan.FromMilliseconds(1));
            if (where == "Post") Post(static () => throw new InvalidOperationException("mine"));
        }

        protected override void OnTimer(LoopTimer timer) => throw new InvalidOperationException("mine");

        protected override void OnDrained()
        {
            if (where == "OnDrained") throw new InvalidOperationException("mine");
        }

        protected override void OnError(Exception exception)
        {
            SendText("from OnError");
            Told.TrySetResult(exception.Message);
        }

        protected override void OnDisconnected(CloseReason reason)
        {
            base.OnDisconnected(reason);
            Ended.TrySetResult(reason);
        }
    }

    public static TheoryData<string, Scheduling> Places()
    {
        TheoryData<string, Scheduling> all = [];
        foreach (string where in (string[])["OnConnected", "OnTimer", "OnDrained", "Post"])
        {
            all.Add(where, Scheduling.Inline);
            all.Add(where, Scheduling.ThreadPool);
        }

        return all;
    }

    [Theory, MemberData(nameof(Places))]
    public async Task An_exception_closes_with_1011_behind_what_was_sent(string where, Scheduling scheduling)
    {
        await using WsSite site = new(EngineKind.Portable, scheduling: scheduling);
        Throwing? session = null;
        site.Server.WebSocket("/ws", () => session = new Throwing(where));
        await site.Server.StartAsync();
        using CancellationTokenSource limit = new(WsSite.Patience);
        using ClientWebSocket client = await site.DialNetAsync(limit.Token);
        byte[] got = new byte[100];
        Assert.Equal(6, (await client.ReceiveAsync(got, limit.Token)).Count);
        Assert.Equal(12, (await client.ReceiveAsync(got, limit.Token)).Count);
        WebSocketReceiveResult end = await client.ReceiveAsync(got, limit.Token);
        Assert.Equal((WebSocketMessageType.Close, WebSocketCloseStatus.InternalServerError), (end.MessageType, end.CloseStatus!.Value));
        Assert.Equal("mine", await session!.Told.Task.WaitAsync(limit.Token));
        await client.CloseAsync(WebSocketCloseStatus.NormalClosure, null, limit.Token);
        Assert.Equal(CloseCause.LocalClose, (await session.Ended.Task.WaitAsync(limit.Token)).Cause);
        Assert.Equal(WebSocketStatus.InternalError, session.CloseStatus);
        Assert.Equal(1, site.Engine.UserExceptionCount);
    }

    [Fact]
    public async Task A_client_tells_its_server_too()
    {
        await using WsSite site = new(EngineKind.Portable);
        TaskCompletionSource<WebSocketStatus> told = new(TaskCreationOptions.RunContinuationsAsynchronously);
        await site.ServeAsync(async (socket, stop) =>
        {
            while (await socket.ReceiveMessageAsync(CancellationToken.None) is not null)
            {
            }

            told.SetResult(socket.CloseStatus);
        });
        await using WebSocketClient client = new(site.Address.ToString(), new ClientOptions { Engine = site.Engine, EndPoint = site.Server.EndPoint }, static () => new Throwing("OnConnected"));
        using CancellationTokenSource limit = new(WsSite.Patience);
        _ = client.ConnectAsync(limit.Token);
        Assert.Equal(WebSocketStatus.InternalError, await told.Task.WaitAsync(limit.Token));
    }
}
