using System.Text;
using Whimbrel.Testing;

namespace Whimbrel.Tests.Framing;

// Frames as messages of a session: one override, with actions that take effect between two frames.
public sealed class FramedSessionTests
{
    [Fact]
    public void Each_line_is_one_message_whole_or_byte_by_byte()
    {
        foreach (bool isSplit in new[] { false, true })
        {
            using TestPeer peer = TestPeer.Connect(
                static () => new Lines { WhenFrame = static (s, text) => s.SendFrame(Encoding.UTF8.GetBytes(text)) });
            peer.SplitEveryByte = isSplit;
            peer.Send("one\r\ntwo\n\nre");
            Assert.Equal("one\ntwo\n\n", peer.ReceiveText());
            peer.Send("st\n");
            Assert.Equal("rest\n", peer.ReceiveText());
        }
    }

    [Fact]
    public void A_pause_in_a_message_holds_the_next_ones_back()
    {
        Lines session = new() { WhenFrame = static (s, _) => s.PauseReceiving() };
        using TestPeer peer = TestPeer.Connect(() => session);
        peer.Send("one\ntwo\nthree\n");
        Assert.Equal(["one"], session.Messages);
        peer.OnLoop(session.ResumeReceiving);
        Assert.Equal(["one", "two"], session.Messages);
    }

    [Fact]
    public void A_close_in_a_message_ends_the_messages()
    {
        Lines session = new() { WhenFrame = static (s, _) => s.Close() };
        using TestPeer peer = TestPeer.Connect(() => session);
        peer.Send("one\ntwo\n");
        Assert.Equal(["one"], session.Messages);
    }

    [Fact]
    public void A_hand_over_in_a_message_gives_the_rest_to_the_next_session()
    {
        Lines next = new(), session = new() { WhenFrame = (s, _) => s.Give(next) };
        using TestPeer peer = TestPeer.Connect(() => session);
        peer.Send("one\ntwo\nth");
        peer.Send("ree\n");
        Assert.Equal(["one"], session.Messages);
        Assert.Equal(["two", "three"], next.Messages);
    }

    [Fact]
    public void Bytes_that_are_no_frames_reset_the_connection_and_say_why()
    {
        Lines session = new();
        using TestPeer peer = TestPeer.Connect(() => session);
        peer.Send("fine\n0123456789abcdefg\nafter\n");
        Assert.Equal(["fine"], session.Messages);
        Assert.Equal(FrameError.TooLong, session.FrameError);
        Assert.True(peer.IsReset);
        CloseReason reason = peer.CloseReason!.Value;
        Assert.Equal((CloseCause.ProtocolError, FrameError.TooLong, CloseInitiator.Library, false),
            (reason.Cause, reason.FrameError, reason.Initiator, reason.IsGraceful));
        Assert.Equal("the peer broke the rules of the protocol: a message is longer than 16 bytes "
            + "(FrameFormat.LimitBytes)", reason.ToString());
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_session_that_sends_a_last_message_for_bytes_that_are_no_frames_gets_the_same_error(bool peerIsFirst)
    {
        Lines session = new() { WhenError = static s => s.Send("too long\n"u8) };
        using TestPeer peer = TestPeer.Connect(() => session);
        if (!peerIsFirst) session.WhenError += static s => s.Close();
        peer.Send("0123456789abcdefg\n");
        Assert.Equal("too long\n", Encoding.ASCII.GetString(peer.Receive()));
        peer.Finish();
        Assert.False(peer.IsReset);
        Assert.Equal((CloseCause.ProtocolError, FrameError.TooLong),
            (peer.CloseReason!.Value.Cause, peer.CloseReason.Value.FrameError));
    }

    [Fact]
    public void Each_frame_error_has_words_of_its_own()
    {
        string[] all = [.. Enum.GetValues<FrameError>().Skip(1)
            .Select(static e => FrameCutter.ExceptionOf(e, FrameFormat.Line(), default).Message)];
        Assert.Equal(all.Length, all.Distinct().Count());
    }

    [Theory]
    [InlineData("GET / HTTP/1.1\r\n\r\n", "look like text: does the peer send lines or HTTP?")]
    [InlineData("\u0016\u0003\u0001\u0002\u0000\u0001", "look like TLS")]
    public void Bytes_of_another_protocol_give_one_diagnostic_event_that_names_the_likely_cause(string sent,
        string expected)
    {
        List<DiagnosticEvent> notices = [];
        using TestNetwork network = new();
        ServerOptions options =
            new() { Engine = network.Engine, EndPoint = network.NewEndPoint(), OnDiagnosticEvent = notices.Add };
        Server server = new(options, static () => new Prefixed());
        for (int i = 0; i < 3; i++)
        {
            TestPeer peer = network.Connect(server);
            peer.Send(sent);
            Assert.True(peer.IsReset);
        }

        DiagnosticEvent notice = Assert.Single(notices);
        Assert.Equal((DiagnosticEventKind.Protocol, "protocol-mismatch.md"), (notice.Kind, notice.Page));
        Assert.StartsWith("Prefixed (session ", notice.Message, StringComparison.Ordinal);
        Assert.Contains(expected, notice.Message, StringComparison.Ordinal);
        Assert.Contains("FrameFormat", notice.Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(false, "\0\0\u0001\0rest", 8)]
    [InlineData(true, "no end", 6)]
    [InlineData(true, "one\ntwo", 3)]
    [InlineData(true, "one\ntwo\n", 0)]
    [InlineData(false, "", 0)]
    public void A_peer_that_ends_inside_a_message_gives_one_diagnostic_event_with_the_bytes_dropped(bool isLine,
        string sent, int dropped)
    {
        foreach (Scheduling scheduling in Enum.GetValues<Scheduling>())
        {
            List<DiagnosticEvent> notices = [];
            using TestNetwork network = new();
            ServerOptions options = new()
            {
                Engine = network.Engine,
                EndPoint = network.NewEndPoint(),
                OnDiagnosticEvent = notices.Add,
                Scheduling = scheduling
            };
            Server server = new(options, () => isLine ? new Lines() : new Prefixed());
            for (int i = 0; i < 2; i++)
            {
                TestPeer peer = network.Connect(server);
                foreach (char c in sent) peer.Send([(byte)c]);
                peer.Finish();
                Assert.Equal(CloseCause.PeerClosed, peer.CloseReason!.Value.Cause);
            }

            Assert.Equal(dropped == 0 ? 0 : 1, notices.Count);
            if (dropped == 0) continue;
            Assert.Equal((DiagnosticEventKind.Protocol, "protocol-mismatch.md"), (notices[0].Kind, notices[0].Page));
            Assert.Contains($"{(isLine ? "Lines" : "Prefixed")} (session ", notices[0].Message,
                StringComparison.Ordinal);
            Assert.Contains($"has dropped {dropped} bytes", notices[0].Message, StringComparison.Ordinal);
        }
    }

    private sealed class Prefixed() : FramedSession(FrameFormat.LengthPrefix(4))
    {
        protected override void OnFrame(in Frame frame)
        {
        }
    }

    private sealed class Lines() : FramedSession(FrameFormat.Line(limitBytes: 16))
    {
        internal List<string> Messages { get; } = [];

        internal Action<Lines, string>? WhenFrame { get; init; }

        internal Action<Lines>? WhenError { get; set; }

        internal void Give(Session next) => HandOver(next);

        protected override void OnFrame(in Frame frame)
        {
            Messages.Add(Encoding.UTF8.GetString(frame.Message));
            WhenFrame?.Invoke(this, Messages[^1]);
        }

        protected override void OnFrameError(FrameError error)
        {
            if (WhenError is null) base.OnFrameError(error);
            else WhenError(this);
        }
    }
}
