using Whimbrel.Http.Tests.Serving;

namespace Whimbrel.Http.Tests.WebSockets;

// A close by this side sends a close frame, whatever type the caller sees the session as, and also if a callback of the
// session blocks on it.
public sealed class WsCloseTests
{
    public static TheoryData<string> Forms => ["Close", "CloseWithoutLingering", "CloseAsync", "ShutdownSend"];

    [Theory, MemberData(nameof(Forms))]
    public void A_caller_that_knows_only_the_base_class_closes_with_a_frame_too(string form)
    {
        using Web web = new();
        Session? session = null;
        web.Server.WebSocket("/ws", () => (WebSocketSession)(session = new WsSession()));
        WsPeer peer = new(web);
        Task<CloseReason>? closing = null;
        switch (form)
        {
            case "Close":
                session!.Close();
                break;
            case "CloseWithoutLingering":
                session!.CloseWithoutLingering();
                break;
            case "CloseAsync":
                closing = session!.CloseAsync().AsTask();
                break;
            default:
                session!.ShutdownSend();
                break;
        }

        web.Network.Run();
        Assert.Equal(["Close \x03\xE8"], peer.Read());
        Assert.False(peer.Peer.IsSessionFinished);
        peer.Send("88 \\03\\E8");
        Assert.True(peer.Peer.IsSessionFinished);
        peer.Peer.Finish();
        web.Network.Run();
        Assert.Equal("disconnected LocalClose 1000", ((WsSession)session).Events[^1]);
        Assert.True(closing is null || SpinWait.SpinUntil(() => closing.IsCompletedSuccessfully, WsSite.Patience));
    }

    [Fact]
    public void A_peer_that_is_gone_without_a_frame_gets_no_close_frame()
    {
        using Web web = new();
        WsSession? session = null;
        web.Server.WebSocket("/ws", () => session = new WsSession());
        WsPeer peer = new(web);
        peer.Peer.Finish();
        web.Network.Run();
        Assert.Empty(peer.Read());
        Assert.True(peer.Peer.IsSessionFinished);
        Assert.Equal("disconnected PeerClosed 1006", session!.Events[^1]);
    }

    [Theory]
    [InlineData("connected", false)]
    [InlineData("connected", true)]
    [InlineData("text close", false)]
    [InlineData("text close", true)]
    [InlineData("pong close", false)]
    public async Task A_callback_on_the_pool_that_blocks_on_its_own_end_sends_the_frame_and_comes_to_an_end(
        string callback, bool isTask)
    {
        TaskCompletionSource<CloseReason> closed = new(TaskCreationOptions.RunContinuationsAsynchronously);
        await using WsSite site = new(EngineKind.Epoll, scheduling: Scheduling.ThreadPool);
        WebSocketOptions options = new() { CloseTimeout = TimeSpan.FromMilliseconds(isTask ? 200 : 60_000) };
        site.Server.WebSocket("/ws", () => new WsSession((s, what) =>
        {
            // Blocking on the task waits until the limit. The blocking overload detects the callback and does not wait
            // for a response that could not be delivered.
            if (what == callback)
                closed.SetResult(isTask
                    ? s.CloseAsync((WebSocketStatus)4001).AsTask().Result : s.CloseAndWait(Timeout.InfiniteTimeSpan));
        }), options);
        await site.Server.StartAsync(TestContext.Current.CancellationToken);
        CancellationToken stop = TestContext.Current.CancellationToken;
        WebSocketSession client = await site.ConnectAsync(null, stop);
        if (callback.StartsWith("text", StringComparison.Ordinal)) client.SendText("close");
        if (callback.StartsWith("pong", StringComparison.Ordinal)) client.SendPong("close"u8);
        Assert.Null(await client.ReceiveMessageAsync(stop).AsTask().WaitAsync(WsSite.Patience, stop));
        Assert.Equal(isTask ? (WebSocketStatus)4001 : WebSocketStatus.Normal, client.CloseStatus);
        Assert.Equal(CloseCause.LocalClose, (await closed.Task.WaitAsync(WsSite.Patience, stop)).Cause);
    }
}
