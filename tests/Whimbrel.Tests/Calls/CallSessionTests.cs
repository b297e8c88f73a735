using System.Text;
using Whimbrel.Testing;

namespace Whimbrel.Tests.Calls;

// The answering side: each call once, in any order, at most as many concurrent calls as its limit.
public sealed class CallSessionTests
{
    [Fact]
    public void Calls_are_answered_in_any_order_from_anywhere()
    {
        Asked session = new();
        using TestPeer peer = TestPeer.Connect(() => session);
        peer.Send([.. CallRig.FrameOf(7, "one"), .. CallRig.FrameOf(0, "aside"), .. CallRig.FrameOf(9, "two")]);
        Assert.Equal(["7 one", "push aside", "9 two"], session.Seen);
        Assert.Equal(SendResult.Queued, session.Answer(9, "2"u8));
        Assert.Equal(SendResult.Queued, session.Push("news"u8));
        peer.Run();
        peer.OnLoop(() => Assert.Equal(SendResult.Queued, session.Answer(7, "1"u8)));
        byte[] expected = [.. CallRig.FrameOf(9, "2"), .. CallRig.FrameOf(0, "news"), .. CallRig.FrameOf(7, "1")];
        Assert.Equal(expected, peer.Receive());
        Assert.Equal(0, session.OpenCalls);
    }

    [Fact]
    public void A_call_is_answered_once_and_an_answer_that_was_not_taken_leaves_it_open()
    {
        Asked session = new();
        using TestPeer peer = TestPeer.Connect(() => session);
        peer.Send(CallRig.FrameOf(7, "one"));
        Assert.Throws<InvalidOperationException>(() => session.Answer(8, "?"u8));
        Assert.Throws<ArgumentException>(() => session.Answer(7, new byte[100_000]));
        Assert.Equal(1, session.OpenCalls);
        Assert.Equal(SendResult.Queued, session.Answer(7, "1"u8));
        Assert.Throws<InvalidOperationException>(() => session.Answer(7, "1"u8));
        // After the response its id may be used again.
        peer.Send(CallRig.FrameOf(7, "again"));
        peer.Reset();
        Assert.Equal(SendResult.Closed, session.Answer(7, "1"u8));
        Assert.Equal(["7 one", "7 again"], session.Seen);
    }

    [Fact]
    public void At_the_limit_of_open_calls_nothing_more_is_received_until_one_is_answered()
    {
        Asked session = new();
        using TestPeer peer = TestPeer.Connect(() => session);
        for (ulong id = 1; id <= 5; id++) peer.Send(CallRig.FrameOf(id, ""));
        Assert.Equal((3, 3), (session.OpenCalls, session.Seen.Count));
        session.Answer(2, default);
        peer.Run();
        Assert.Equal((3, 4), (session.OpenCalls, session.Seen.Count));
        peer.OnLoop(() =>
        {
            session.Answer(1, default);
            session.Answer(3, default);
        });
        Assert.Equal((2, 5), (session.OpenCalls, session.Seen.Count));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_session_that_answers_no_call_for_ten_seconds_gives_a_diagnostic_event(bool answers)
    {
        List<DiagnosticEvent> notices = [];
        using TestNetwork network = new();
        Asked session = new();
        Server server = new(new ServerOptions
        {
            Engine = network.Engine,
            EndPoint = network.NewEndPoint(),
            OnDiagnosticEvent = notices.Add
        }, () => session);
        TestPeer peer = network.Connect(server);
        for (ulong id = 1; id <= 3; id++) peer.Send(CallRig.FrameOf(id, ""));
        network.Advance(TimeSpan.FromSeconds(9));
        if (answers)
        {
            peer.OnLoop(() => Assert.Equal(SendResult.Queued, session.Answer(1, default)));
            peer.Send(CallRig.FrameOf(4, ""));
        }

        network.Advance(TimeSpan.FromSeconds(9));
        Assert.Equal(answers ? 0 : 1, notices.Count);
        network.Advance(TimeSpan.FromSeconds(9));
        DiagnosticEvent notice = Assert.Single(notices);
        Assert.Equal((DiagnosticEventKind.Protocol, "protocol-mismatch.md"), (notice.Kind, notice.Page));
        Assert.Contains("has 3 calls without an answer (openLimit) and has answered none for 10 s", notice.Message,
            StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void A_peer_that_uses_an_id_twice_or_sends_no_id_is_reset(bool isTwice)
    {
        Asked session = new();
        using TestPeer peer = TestPeer.Connect(() => session);
        peer.Send(CallRig.FrameOf(7, "one"));
        peer.Send(isTwice ? CallRig.FrameOf(7, "two") : [0, 0, 0, 1, 1]);
        Assert.True(peer.IsReset);
        Assert.Equal(["7 one"], session.Seen);
        Assert.Equal(CloseCause.ProtocolError, peer.CloseReason!.Value.Cause);
        Assert.Contains(isTwice ? "called twice with the id 7" : "neither a call nor a push",
            peer.CloseReason.Value.ToString(), StringComparison.Ordinal);
    }

    private sealed class Asked() : CallSession(CallFormat.LengthPrefix(), openLimit: 3)
    {
        internal List<string> Seen { get; } = [];

        protected override void OnCall(ulong id, ReadOnlySpan<byte> request) =>
            Seen.Add($"{id} {Encoding.UTF8.GetString(request)}");

        protected override void OnPush(ReadOnlySpan<byte> body) => Seen.Add($"push {Encoding.UTF8.GetString(body)}");
    }
}
