using System.Text;
using Whimbrel.Http.Tests.Serving;

namespace Whimbrel.Http.Tests.WebSockets;

// Messages sent in pieces, and closes by this side, in virtual time.
public sealed class WsPiecesTests
{
    private static (Web Web, WsPeer Peer, WsSession Session) Open(WebSocketOptions? options = null,
        Action<WsSession, string>? onEvent = null)
    {
        Web web = new();
        WsSession? session = null;
        web.Server.WebSocket("/ws", () => session = new WsSession(onEvent), options);
        WsPeer peer = new(web);
        return (web, peer, session!);
    }

    private static T Get<T>(Web web, ValueTask<T> task)
    {
        Task<T> done = task.AsTask();
        web.Network.Run();
        Assert.True(done.IsCompleted, "It waits.");
        return done.GetAwaiter().GetResult();
    }

    private static SendResult Send(Web web, WsSession session, string piece, bool isLast) =>
        Get(web, session.SendPieceAsync(Encoding.UTF8.GetBytes(piece), isText: true, isLast));

    [Fact]
    public void A_message_in_pieces_is_one_message_and_only_control_frames_go_between()
    {
        (Web web, WsPeer peer, WsSession session) = Open();
        using (web)
        {
            Assert.Equal(SendResult.Queued, session.SendText("before"));
            Assert.Equal(SendResult.Queued, Send(web, session, "a", isLast: false));
            Assert.Equal(SendResult.Refused, session.SendText("between"));
            Assert.Equal(SendResult.Refused, Get(web, session.SendBinaryAsync("between"u8.ToArray())));
            Assert.Equal(SendResult.Refused, Get(web, session.SendBinaryAsync(new MemoryStream(new byte[9]))));
            Assert.Equal(SendResult.Queued, session.SendPing("p"u8));
            Assert.Equal(["Text before", "Ping p"], peer.Read());
            peer.Send("89 q");
            Assert.Equal(["Pong q"], peer.Read());
            Assert.Equal(SendResult.Queued, Send(web, session, "", isLast: false));
            Assert.Equal(SendResult.Queued, Send(web, session, "b", isLast: true));
            Assert.Equal(SendResult.Queued, session.SendText("after"));
            Assert.Equal(SendResult.Queued, Send(web, session, "alone", isLast: true));
            Assert.Equal(["Text ab", "Text after", "Text alone"], peer.Read());
        }
    }

    [Fact]
    public void A_broadcast_waits_until_the_message_has_ended()
    {
        (Web web, WsPeer peer, WsSession session) = Open();
        using (web)
        {
            SessionGroup room = new();
            room.Join(session);
            web.Network.Run();
            Send(web, session, "a", isLast: false);
            room.BroadcastText("news"u8);
            web.Network.Run();
            Assert.Empty(peer.Read());
            Send(web, session, "b", isLast: true);
            web.Network.Run();
            Assert.Equal(["Text ab", "Text news"], peer.Read());
        }
    }

    [Fact]
    public void A_piece_of_the_other_kind_throws_and_the_message_continues()
    {
        (Web web, WsPeer peer, WsSession session) = Open();
        using (web)
        {
            Send(web, session, "a", isLast: false);
            Assert.Throws<InvalidOperationException>(
                () => Get(web, session.SendPieceAsync(default, isText: false, isLast: true)));
            Send(web, session, "b", isLast: true);
            Assert.Equal(["Text ab"], peer.Read());
        }
    }

    [Fact]
    public void A_close_may_come_inside_a_message_and_pieces_are_refused_from_there_on()
    {
        (Web web, WsPeer peer, WsSession session) = Open();
        using (web)
        {
            Send(web, session, "a", isLast: false);
            session.Close((WebSocketStatus)4000);
            Assert.Equal(SendResult.Closed, Send(web, session, "b", isLast: true));
            Assert.Equal(["Close \x0F\xA0"], peer.Read());
        }
    }

    [Fact]
    public void A_stream_is_sent_to_its_end_as_one_message()
    {
        (Web web, WsPeer peer, WsSession session) = Open();
        using (web)
        {
            byte[] data = new byte[100_000];
            data.AsSpan().Fill((byte)'x');
            Assert.Equal(SendResult.Queued, Get(web, session.SendBinaryAsync(new MemoryStream(data))));
            Assert.Equal(SendResult.Queued, Get(web, session.SendTextAsync(new MemoryStream("t"u8.ToArray()))));
            Assert.Equal(SendResult.Queued, Get(web, session.SendTextAsync(Stream.Null)));
            Assert.Equal(SendResult.Queued, session.SendText("after"));
            Assert.Equal([$"Binary {new string('x', data.Length)}", "Text t", "Text ", "Text after"], peer.Read());
        }
    }

    private sealed class Broken(int good) : MemoryStream
    {
        private int _left = good;

        public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default) =>
            _left-- > 0 ? new(1) : throw new InvalidDataException("mine");
    }

    [Fact]
    public void A_stream_that_fails_closes_only_when_some_of_it_was_sent()
    {
        (Web web, WsPeer peer, WsSession session) = Open();
        using (web)
        {
            Assert.Throws<InvalidDataException>(() => Get(web, session.SendBinaryAsync(new Broken(0))));
            Assert.Equal(SendResult.Queued, session.SendText("fine"));
            Assert.Equal(["Text fine"], peer.Read());
            Assert.Throws<InvalidDataException>(() => Get(web, session.SendBinaryAsync(new Broken(1))));
            Assert.Equal(["Close \x03\xF3"], peer.Read());
        }
    }

    [Fact]
    public void An_awaited_close_ends_when_the_peer_has_answered_and_not_before()
    {
        (Web web, WsPeer peer, WsSession session) = Open();
        using (web)
        {
            Task<CloseReason> closing = session.CloseAsync((WebSocketStatus)4002, "done").AsTask();
            Assert.Equal(["Close \x0F\xA2" + "done"], peer.Read());
            Assert.False(closing.IsCompleted);
            Assert.False(peer.Peer.IsSessionFinished);
            peer.Send("88 \\0F\\A2");
            peer.Peer.Finish();
            Until(web, closing);
            Assert.Equal("disconnected LocalClose 4002", session.Events[^1]);
            Assert.Equal(4002, (int)session.CloseStatus);
            Until(web, session.CloseAsync().AsTask()); // a second close completes immediately
        }
    }

    [Fact]
    public void An_awaited_close_without_an_answer_ends_at_its_limit()
    {
        (Web web, WsPeer peer, WsSession session) =
            Open(new WebSocketOptions { CloseTimeout = TimeSpan.FromSeconds(3) });
        using (web)
        {
            Task<CloseReason> closing = session.CloseAsync().AsTask();
            Assert.Equal(["Close \x03\xE8"], peer.Read());
            peer.Peer.Advance(TimeSpan.FromSeconds(2.9));
            Assert.False(peer.Peer.IsSessionFinished);
            peer.Peer.Advance(TimeSpan.FromSeconds(0.2));
            Assert.True(peer.Peer.IsSessionFinished);
            peer.Peer.Finish();
            Until(web, closing);
        }
    }

    [Fact]
    public void The_wait_of_an_awaited_close_may_be_cancelled()
    {
        (Web web, WsPeer peer, WsSession session) = Open();
        using (web)
        {
            using CancellationTokenSource stop = new();
            Task<CloseReason> closing = session.CloseAsync(stop.Token).AsTask();
            peer.Read();
            stop.Cancel();
            SpinUntil(web, () => closing.IsCompleted);
            Assert.True(closing.IsCanceled);
            Assert.Equal("disconnected LocalAbort 1000", session.Events[^1]);
        }
    }

    [Fact]
    public void After_ShutdownSend_messages_are_received_until_the_peer_ends_too()
    {
        (Web web, WsPeer peer, WsSession session) = Open();
        using (web)
        {
            session.ShutdownSend();
            web.Network.Run();
            Assert.Equal(SendResult.Closed, session.SendText("late"));
            Assert.Equal(["Close \x03\xE8"], peer.Read());
            peer.Peer.Advance(TimeSpan.FromMinutes(10)); // no time limit, and no ping is sent
            peer.Send("81 still here|88 \\03\\E8");
            Assert.True(peer.Peer.IsSessionFinished);
            peer.Peer.Finish();
            Assert.Equal(["connected", "text still here", "closing 1000 ", "disconnected LocalClose 1000"],
                session.Events);
        }
    }

    [Fact]
    public void All_WebSockets_of_a_server_are_closed_and_its_requests_are_not()
    {
        using Web web = new();
        web.Server.WebSocket("/ws", static () => new WsSession());
        web.Server.Get("/", static (_, response) => response.Text("hello"));
        WsPeer first = new(web), second = new(web);
        Testing.TestPeer plain = web.Connect();
        Task closing = web.Server.Sessions.CloseAllAsync((WebSocketStatus)4100, "later").AsTask();
        web.Network.Run();
        Assert.True(closing.IsCompletedSuccessfully);
        Assert.Equal(["Close \x10\x04" + "later"], first.Read());
        Assert.Equal(["Close \x10\x04" + "later"], second.Read());
        plain.Send(Web.Get("/"));
        Assert.Equal(["200 hello"], Web.Answers(plain));
        Assert.Throws<ArgumentOutOfRangeException>(() => web.Server.Sessions.CloseAllAsync(WebSocketStatus.Abnormal));
    }

    private static void Until(Web web, Task task)
    {
        SpinUntil(web, () => task.IsCompleted);
        task.GetAwaiter().GetResult();
    }

    // A continuation on the thread pool returns to the network by a post.
    private static void SpinUntil(Web web, Func<bool> isDone)
    {
        Assert.True(SpinWait.SpinUntil(() =>
        {
            web.Network.Run();
            return isDone();
        }, TimeSpan.FromSeconds(30)), "It did not come.");
    }
}
