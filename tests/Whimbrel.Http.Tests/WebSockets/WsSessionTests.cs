using Whimbrel.Http.Tests.Serving;

namespace Whimbrel.Http.Tests.WebSockets;

// A server's session in virtual time: its callbacks for received frames, and what its peer receives.
public sealed class WsSessionTests
{
    private static (Web Web, WsPeer Peer, WsSession Session) Open(Action<WsSession, string>? onEvent = null,
        WebSocketOptions? options = null, string fields = "", string frames = "")
    {
        Web web = new();
        WsSession? session = null;
        web.Server.WebSocket("/ws", () => session = new WsSession(onEvent), options);
        WsPeer peer = new(web, fields: fields, frames: frames);
        Assert.StartsWith("HTTP/1.1 101", peer.Head, StringComparison.Ordinal);
        return (web, peer, session!);
    }

    private static Action<WsSession, string> Echo => static (session, what) =>
    {
        if (what.StartsWith("text ", StringComparison.Ordinal)) session.SendText(what[5..]);
        if (what.StartsWith("binary ", StringComparison.Ordinal))
            session.SendBinary(System.Text.Encoding.Latin1.GetBytes(what[7..]));
    };

    [Fact]
    public void Messages_go_both_ways_whole_and_in_fragments()
    {
        (Web web, WsPeer peer, WsSession session) = Open(Echo);
        using (web)
        {
            Assert.Contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n", peer.Head,
                StringComparison.Ordinal);
            peer.Send("81 Hello|82 \\01\\02|01 a|00 b|89 hi|80 c");
            Assert.Equal(["Text Hello", "Binary \x01\x02", "Pong hi", "Text abc"], peer.Read());
            Assert.Equal(["connected", "text Hello", "binary \x01\x02", "ping hi", "text abc"], session.Events);
        }
    }

    [Fact]
    public void Frames_in_the_packet_of_the_request_and_a_greeting_in_that_of_the_answer_are_not_lost()
    {
        (Web web, WsPeer peer, _) = Open(static (s, what) =>
        {
            if (what == "connected") s.SendText("welcome");
            Echo(s, what);
        }, frames: "81 early");
        using (web) Assert.Equal(["Text welcome", "Text early"], peer.Read());
    }

    [Fact]
    public void Every_byte_alone_makes_no_difference()
    {
        (Web web, WsPeer peer, _) = Open(Echo);
        using (web)
        {
            peer.Peer.SplitEveryByte = true;
            peer.Send("81 Hello|01 \\F0\\9F|89|80 \\98\\80|82 300*x");
            Assert.Equal(["Text Hello", "Pong ", "Text \u00F0\u009F\u0098\u0080", $"Binary {new string('x', 300)}"],
                peer.Read());
        }
    }

    [Theory]
    [InlineData("81 ok|83", 1002, "The opcode of a frame is reserved")]
    [InlineData("81 ok|81 \\FF", 1007, "Text is not valid UTF-8")]
    [InlineData("81 ok|82 1001*x", 1009, "The message is too large")]
    [InlineData("81 ok|02 999*x|80 xx", 1009, "The message is too large")]
    [InlineData("81 ok|C1 x", 1002, "A reserved bit is set without an agreed extension")]
    public void A_broken_rule_gets_one_close_frame_after_the_answers_and_the_end(string frames, int status, string text)
    {
        (Web web, WsPeer peer, WsSession session) = Open(Echo, new WebSocketOptions { MessageLimitBytes = 1000 });
        using (web)
        {
            peer.Send(frames + "|81 late");
            Assert.Equal(["Text ok", $"Close {(char)(status >> 8)}{(char)(status & 255)}{text}"], peer.Read());
            Assert.True(peer.Peer.IsSessionFinished);
            peer.Peer.Finish();
            Assert.Equal(["connected", "text ok", $"disconnected ProtocolError {status}"], session.Events);
        }
    }

    [Fact]
    public void A_message_of_the_limit_is_taken()
    {
        (Web web, WsPeer peer, _) = Open(Echo, new WebSocketOptions { MessageLimitBytes = 1000 });
        using (web)
        {
            peer.Send("82 1000*x|02 999*x|80 x");
            Assert.Equal(2, peer.Read().Length);
        }
    }

    [Fact]
    public void A_close_of_the_peer_is_answered_with_its_status_and_ends_it()
    {
        (Web web, WsPeer peer, WsSession session) = Open(Echo);
        using (web)
        {
            peer.Send("81 last|88 \\0F\\A0bye|81 late");
            Assert.Equal(["Text last", "Close \x0F\xA0"], peer.Read());
            Assert.True(peer.Peer.IsSessionFinished);
            peer.Peer.Finish();
            Assert.Equal(["connected", "text last", "closing 4000 bye", "disconnected LocalClose 4000"],
                session.Events);
            Assert.Equal("bye", session.CloseText);
        }
    }

    [Fact]
    public void A_close_of_ours_waits_for_the_peers_and_drops_what_comes_before_it()
    {
        (Web web, WsPeer peer, WsSession session) = Open(static (s, what) =>
        {
            if (what != "text bye") return;
            s.SendText("so long");
            s.Close((WebSocketStatus)4001, "done");
            Assert.Equal(SendResult.Closed, s.SendText("late"));
            s.Close(); // the first counts
        });
        using (web)
        {
            peer.Send("81 bye|81 unheard");
            Assert.Equal(["Text so long", "Close \x0F\xA1" + "done"], peer.Read());
            Assert.False(peer.Peer.IsSessionFinished);
            peer.Send("81 unheard|89 x");
            Assert.Empty(peer.Read());
            peer.Send("88 \\0F\\A1");
            Assert.True(peer.Peer.IsSessionFinished);
            peer.Peer.Finish();
            Assert.Equal(["connected", "text bye", "closing 4001 ", "disconnected LocalClose 4001"], session.Events);
        }
    }

    [Fact]
    public void A_peer_that_does_not_answer_a_close_is_waited_for_no_longer_than_the_limit()
    {
        (Web web, WsPeer peer, WsSession session) = Open(static (s, what) => s.Close(),
            new WebSocketOptions { CloseTimeout = TimeSpan.FromSeconds(5) });
        using (web)
        {
            Assert.Equal(["Close \x03\xE8"], peer.Read());
            peer.Peer.Advance(TimeSpan.FromSeconds(4.9));
            Assert.False(peer.Peer.IsSessionFinished);
            peer.Peer.Advance(TimeSpan.FromSeconds(0.2));
            Assert.True(peer.Peer.IsSessionFinished);
            Assert.Equal("connected", session.Events[0]);
        }
    }

    [Fact]
    public void An_exception_of_an_override_closes_with_1011_and_affects_no_other_session()
    {
        (Web web, WsPeer peer, WsSession session) = Open(static (_, what) =>
        {
            if (what.StartsWith("text", StringComparison.Ordinal)) throw new InvalidOperationException("mine");
        });
        using (web)
        {
            WsPeer other = new(web);
            web.Network.RethrowsExceptions = false;
            peer.Send("81 a|81 b");
            Assert.Equal(["Close \x03\xF3"], peer.Read());
            peer.Peer.Finish();
            Assert.Equal(["connected", "text a", "error mine", "disconnected LocalClose 1011"], session.Events);
            other.Send("89 x");
            Assert.Equal(["Pong x"], other.Read());
        }
    }

    [Fact]
    public void A_silent_peer_gets_pings_and_is_aborted_when_two_were_not_answered()
    {
        (Web web, WsPeer peer, WsSession session) =
            Open(options: new WebSocketOptions { Heartbeat = TimeSpan.FromSeconds(30) });
        using (web)
        {
            peer.Peer.Advance(TimeSpan.FromSeconds(31)); // the handshake counts as received data
            Assert.Empty(peer.Read());
            peer.Peer.Advance(TimeSpan.FromSeconds(30));
            Assert.Equal(["Ping "], peer.Read());
            peer.Send("8A");
            peer.Peer.Advance(TimeSpan.FromSeconds(30));
            Assert.Empty(peer.Read());
            peer.Peer.Advance(TimeSpan.FromSeconds(60));
            Assert.Equal(["Ping ", "Ping "], peer.Read());
            Assert.True(peer.Peer.IsConnected);
            peer.Peer.Advance(TimeSpan.FromSeconds(30));
            Assert.Equal("disconnected LocalAbort 1006", session.Events[^1]);
        }
    }

    [Fact]
    public void In_pieces_a_message_may_be_larger_than_the_limit_and_text_is_judged_on_the_way()
    {
        (Web web, WsPeer peer, WsSession session) =
            Open(options: new WebSocketOptions { InPieces = true, MessageLimitBytes = 125 });
        using (web)
        {
            peer.Send("02 200*x|80 yy");
            peer.Send("01 \\CE|80 \\BA");
            peer.Send("81");
            peer.Send("01 a\\CE|80 b");
            Assert.Equal(["Close \x03\xEF" + "Text is not valid UTF-8"], peer.Read());
            Assert.Equal(["connected", $"piece {new string('x', 200)}", "piece yy.", "piece \u00CE", "piece \u00BA.",
                "piece .", "piece a\u00CE"], session.Events.Take(7));
        }
    }

    [Fact]
    public void Messages_after_one_that_paused_wait_for_the_resume_and_the_peer_is_not_dead_meanwhile()
    {
        (Web web, WsPeer peer, WsSession session) = Open(static (s, what) =>
        {
            if (what is "text stop" or "ping stop") s.PauseReceiving();
        }, new WebSocketOptions { Heartbeat = TimeSpan.FromSeconds(30) });
        using (web)
        {
            peer.Send("81 stop|81 a|89 stop|02 b|80 c|88 \\03\\E8");
            Assert.Equal(["connected", "text stop"], session.Events);
            Assert.True(session.IsReceivingPaused);
            peer.Peer.Advance(TimeSpan.FromMinutes(10));
            Assert.Equal(["connected", "text stop"], session.Events);
            peer.Peer.OnLoop(session.ResumeReceiving);
            Assert.Equal(["connected", "text stop", "text a", "ping stop"], session.Events);
            Assert.Equal(["Pong stop"], peer.Read());
            peer.Peer.OnLoop(session.ResumeReceiving);
            Assert.Equal(["binary bc", "closing 1000 "], session.Events.Skip(4).Take(2));
            Assert.Equal(["Close \x03\xE8"], peer.Read());
        }
    }

    [Fact]
    public void The_end_without_a_close_frame_is_1006()
    {
        (Web web, WsPeer peer, WsSession session) = Open();
        using (web)
        {
            peer.Peer.Finish();
            Assert.Equal(["connected", "disconnected PeerClosed 1006"], session.Events);
        }
    }

    [Fact]
    public void A_server_that_stops_says_that_it_goes_away()
    {
        (Web web, WsPeer peer, _) = Open();
        using (web)
        {
            ValueTask stopping = new(web.Server.StopAsync(TimeSpan.FromSeconds(10)).AsTask());
            web.Network.Run();
            Assert.Equal(["Close \x03\xE9"], peer.Read());
            peer.Send("88 \\03\\E9");
            peer.Peer.Finish();
            web.Network.Run();
            Assert.True(stopping.IsCompleted);
        }
    }

    [Fact]
    public void A_broadcast_is_framed_for_each_recipient()
    {
        using Web web = new();
        SessionGroup room = new("room");
        WebSocketOptions options = new() { Deflate = new WebSocketDeflate { LeastBytes = 10 } };
        web.Server.WebSocket("/ws", () => new WsSession((s, what) =>
        {
            if (what == "connected") room.Join(s);
        }), options);
        WsPeer plain = new(web), packed = new(web, fields: "Sec-WebSocket-Extensions: permessage-deflate\r\n");
        string text = string.Concat(Enumerable.Repeat("hello ", 100));
        room.BroadcastText(System.Text.Encoding.ASCII.GetBytes(text));
        room.BroadcastBinary("short"u8);
        room.BroadcastPing("p"u8);
        web.Network.Run();
        Assert.Equal([$"Text {text}", "Binary short", "Ping p"], plain.Read());
        string[] got = packed.Read();
        Assert.StartsWith("Text* ", got[0], StringComparison.Ordinal);
        Assert.InRange(got[0].Length, 10, 60);
        Assert.Equal(["Binary short", "Ping p"], got[1..]);
    }

    [Fact]
    public void A_broadcast_of_plain_bytes_to_a_member_of_WebSocket_throws_and_names_the_cure()
    {
        using Web web = new();
        SessionGroup room = new("room");
        web.Server.WebSocket("/ws", () => new WsSession((s, what) =>
        {
            if (what == "connected") room.Join(s);
        }));
        Assert.Equal(SendResult.Queued, room.Broadcast("nobody is there"));
        WsPeer peer = new(web);
        SharedBytes shared = new(new byte[100]);
        Action[] all =
        [
            () => room.Broadcast("text"), () => room.Broadcast("bytes"u8),
            () => room.Broadcast("bytes"u8, static _ => true), () => room.Broadcast(shared, 0, 100),
            () => room.BroadcastAsync(new byte[10]).AsTask().GetAwaiter().GetResult(),
            () => room.BroadcastAsync("text").AsTask().GetAwaiter().GetResult(),
        ];
        foreach (Action broadcast in all)
        {
            InvalidOperationException error = Assert.Throws<InvalidOperationException>(broadcast);
            Assert.Contains("Use BroadcastText or BroadcastBinary", error.Message, StringComparison.Ordinal);
        }

        // BroadcastText is no cure here: the group of all sessions rejects it as well.
        string ofAll = Assert.Throws<InvalidOperationException>(() => web.Server.Broadcast("text")).Message;
        Assert.Contains("join a SessionGroup", ofAll, StringComparison.Ordinal);
        Assert.DoesNotContain("BroadcastText", ofAll, StringComparison.Ordinal);
        Assert.Equal(SendResult.Queued, room.BroadcastText("text \u00E4"));
        Assert.Equal(SendResult.Queued, room.BroadcastText(new string('x', 600)));
        web.Network.Run();
        Assert.Equal(["Text text \u00C3\u00A4", $"Text {new string('x', 600)}"], peer.Read());
    }

    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void A_message_above_the_send_limit_names_the_members_that_send_it_in_parts(Scheduling scheduling)
    {
        using Web web = new(scheduling: scheduling);
        string large = new('x', 2_000_000);
        WsSession session = null!;
        List<string> thrown = [];
        web.Server.WebSocket("/ws", () => session = new WsSession((s, what) =>
        {
            if (what == "connected") thrown.Add(Assert.Throws<ArgumentException>(() => s.SendText(large)).Message);
        }));
        WsPeer peer = new(web);
        thrown.Add(Assert.Throws<ArgumentException>(() => session.SendBinary(new byte[2_000_000])).Message);
        Assert.Equal(2, thrown.Count);
        Assert.All(thrown, static text => Assert.Contains("Await SendTextAsync or SendBinaryAsync of the "
            + "WebSocketSession, which send a message of any length in parts", text, StringComparison.Ordinal));
        Task<SendResult> cure = session.SendTextAsync(large).AsTask();
        web.Network.Run();
        Assert.Equal([$"Text {large}"], peer.Read());
        Assert.True(SpinWait.SpinUntil(() => cure.IsCompletedSuccessfully, TimeSpan.FromSeconds(30)));
    }

    [Fact]
    public void A_WebSocket_does_not_join_the_class_that_gets_plain_bytes()
    {
        using Web web = new();
        SessionGroup room = new("room");
        string refused = "";
        web.Server.WebSocket("/ws", () => new WsSession((s, what) =>
        {
            if (what == "connected") refused = Assert.Throws<ArgumentException>(() => room.Join(s, 0)).Message;
        }));
        WsPeer peer = new(web);
        Assert.Contains("Use Join(session), which knows its class.", refused, StringComparison.Ordinal);
        Assert.Equal(SendResult.Queued, room.BroadcastText("text"));
        web.Network.Run();
        Assert.Empty(peer.Read());
    }

    [Fact]
    public void A_broadcast_to_all_sessions_of_a_site_throws()
    {
        using Web web = new();
        web.Server.Get("/", static (_, response) => response.Text("good"));
        Whimbrel.Testing.TestPeer peer = web.Connect();
        Assert.Contains("join a SessionGroup",
            Assert.Throws<InvalidOperationException>(() => web.Server.Broadcast("text")).Message,
            StringComparison.Ordinal);
        Assert.Contains("join a SessionGroup",
            Assert.Throws<InvalidOperationException>(() => web.Server.Sessions.BroadcastText("text")).Message,
            StringComparison.Ordinal);
        peer.Send(Web.Get("/"));
        Assert.Equal(["200 good"], Web.Answers(peer));
    }

    [Fact]
    public void Text_that_is_no_UTF8_throws_and_nothing_is_sent()
    {
        SessionGroup room = new("room");
        int refused = 0;
        (Web web, WsPeer peer, _) = Open((session, what) =>
        {
            if (what == "connected") room.Join(session);
            if (what != "text go") return;
            byte[] broken = [.. "abc"u8, 0xC3];
            foreach (Action send in (Action[])[() => session.SendText(broken), () => _ = session.SendTextAsync(broken),
                () => room.BroadcastText(broken)])
            {
                if (Assert.Throws<ArgumentException>(send).Message.Contains("not UTF-8", StringComparison.Ordinal))
                    refused++;
            }

            session.SendText("\uD800"); // an unpaired surrogate is replaced
            _ = session.SendTextAsync("\uD800");
        });
        using (web)
        {
            peer.Send("81 go");
            Assert.Equal(["Text \u00EF\u00BF\u00BD", "Text \u00EF\u00BF\u00BD"], peer.Read());
            Assert.Equal(3, refused);
        }
    }
}
