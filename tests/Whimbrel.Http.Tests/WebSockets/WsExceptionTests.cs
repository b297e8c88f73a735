using System.Net.WebSockets;
using Whimbrel.Conformance;

namespace Whimbrel.Http.Tests.WebSockets;

// After an exception in any callback or post, the peer receives status 1011.
public sealed class WsExceptionTests
{
    private sealed class Throwing(string where) : WebSocketSession
    {
        internal TaskCompletionSource<string> Told { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);

        internal TaskCompletionSource<CloseReason> Ended { get; } =
            new(TaskCreationOptions.RunContinuationsAsynchronously);

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

    private sealed class ThrowingReader : WebSocketSession
    {
        protected override void OnText(ReadOnlySpan<byte> utf8) => throw new InvalidOperationException("mine");

        protected override void OnBinary(ReadOnlySpan<byte> data) => throw new InvalidOperationException("mine");

        protected override void OnPiece(ReadOnlySpan<byte> piece, bool isText, bool isLast) =>
            throw new InvalidOperationException("mine");

        protected override void OnPing(ReadOnlySpan<byte> payload) => throw new InvalidOperationException("mine");

        protected override void OnPong(ReadOnlySpan<byte> payload) => throw new InvalidOperationException("mine");

        protected override void OnClosing(WebSocketStatus status, string reason) =>
            throw new InvalidOperationException("mine");
    }

    [Theory]
    [InlineData("81 text", false, "OnText")]
    [InlineData("82 bytes", false, "OnBinary")]
    [InlineData("81 text", true, "OnPiece")]
    [InlineData("89 ping", false, "OnPing")]
    [InlineData("8A pong", false, "OnPong")]
    [InlineData("88 \\03\\E8", false, "OnClosing")]
    public void The_diagnostic_event_names_the_callback_and_what_the_peer_gets(string frame, bool inPieces,
        string callback)
    {
        using Serving.Web web = new();
        web.Network.RethrowsExceptions = false;
        web.Server.WebSocket("/ws", static () => new ThrowingReader(), new WebSocketOptions { InPieces = inPieces });
        WsPeer peer = new(web);
        peer.Send(frame);
        DiagnosticEvent notice = Assert.Single(web.Notices, static n => n.Kind == DiagnosticEventKind.UserException);
        Assert.StartsWith($"{callback} of ThrowingReader", notice.Message, StringComparison.Ordinal);
        Assert.Contains("The peer gets the close status 1011. Override OnError", notice.Message,
            StringComparison.Ordinal);
    }

    [Fact]
    public void The_handler_of_a_route_that_throws_is_named_so()
    {
        using Serving.Web web = new();
        web.Network.RethrowsExceptions = false;
        web.Server.WebSocket("/ws", static (socket, stop) => throw new InvalidOperationException("mine"));
        WsPeer peer = new(web);
        Assert.Equal(["Close \x03\xF3"], peer.Read());
        DiagnosticEvent notice = Assert.Single(web.Notices, static n => n.Kind == DiagnosticEventKind.UserException);
        Assert.StartsWith("The handler of a WebSocket route of WebSocketSession", notice.Message,
            StringComparison.Ordinal);
        Assert.Contains("The peer gets the close status 1011.", notice.Message, StringComparison.Ordinal);
        Assert.DoesNotContain("Override", notice.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_connect_fails_with_the_exception_that_the_clients_OnConnected_throws()
    {
        await using WsSite site = new(EngineKind.Portable);
        site.Server.WebSocket("/ws", static () => new Throwing("nowhere"));
        await site.Server.StartAsync();
        await using WebSocketClient client = new(site.Address.ToString(),
            new ClientOptions { Engine = site.Engine, EndPoint = site.Server.EndPoint },
            static () => new Throwing("OnConnected"));
        NetworkException error = await Assert.ThrowsAsync<NetworkException>(
            async () => await client.ConnectAsync(TestContext.Current.CancellationToken));
        Assert.Equal("mine", Assert.IsType<InvalidOperationException>(error.InnerException).Message);
    }

    private sealed class ThrowingPlain : Session
    {
        protected override void OnConnected() => throw new InvalidOperationException("mine");
    }

    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public async Task A_connect_of_a_plain_client_fails_with_the_exception_that_OnConnected_throws(
        Scheduling scheduling)
    {
        await using WsSite site = new(EngineKind.Portable);
        await site.Server.StartAsync();
        ClientOptions options =
            new() { Engine = site.Engine, EndPoint = site.Server.EndPoint, Scheduling = scheduling };
        await using Client client = new(options, static () => new ThrowingPlain());
        await using Connector connector = new(options);
        CancellationToken stop = TestContext.Current.CancellationToken;
        foreach (Func<Task> connect in (Func<Task>[])[async () => await client.ConnectAsync(stop),
            async () => await connector.ConnectAsync(static () => new ThrowingPlain(), cancellationToken: stop)])
        {
            NetworkException error = await Assert.ThrowsAsync<NetworkException>(connect);
            Assert.Contains("user code threw InvalidOperationException: mine", error.Message, StringComparison.Ordinal);
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
    public async Task An_exception_closes_with_1011_after_earlier_messages(string where, Scheduling scheduling)
    {
        await using WsSite site = new(EngineKind.Portable, scheduling: scheduling);
        Throwing? session = null;
        site.Server.WebSocket("/ws", () => session = new Throwing(where));
        await site.Server.StartAsync();
        using CancellationTokenSource limit = new(WsSite.Patience);
        using ClientWebSocket client = await site.ConnectNetAsync(limit.Token);
        byte[] got = new byte[100];
        Assert.Equal(6, (await client.ReceiveAsync(got, limit.Token)).Count);
        Assert.Equal(12, (await client.ReceiveAsync(got, limit.Token)).Count);
        WebSocketReceiveResult end = await client.ReceiveAsync(got, limit.Token);
        Assert.Equal((WebSocketMessageType.Close, WebSocketCloseStatus.InternalServerError),
            (end.MessageType, end.CloseStatus!.Value));
        Assert.Equal("mine", await session!.Told.Task.WaitAsync(limit.Token));
        await client.CloseAsync(WebSocketCloseStatus.NormalClosure, null, limit.Token);
        Assert.Equal(CloseCause.LocalClose, (await session.Ended.Task.WaitAsync(limit.Token)).Cause);
        Assert.Equal(WebSocketStatus.InternalError, session.CloseStatus);
        Assert.Equal(1, site.Engine.UserExceptionCount);
    }

    [Fact]
    public async Task A_client_sends_1011_to_its_server_too()
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
        await using WebSocketClient client = new(site.Address.ToString(),
            new ClientOptions { Engine = site.Engine, EndPoint = site.Server.EndPoint },
            static () => new Throwing("OnConnected"));
        using CancellationTokenSource limit = new(WsSite.Patience);
        _ = client.ConnectAsync(limit.Token);
        Assert.Equal(WebSocketStatus.InternalError, await told.Task.WaitAsync(limit.Token));
    }
}
