using System.Buffers;

namespace Whimbrel.Conformance;

/// <summary>A <see cref="FramedSession"/> on a connection: bytes in any pieces become messages, and the actions of a
/// message take effect before the next.</summary>
public abstract class FramedSuite(Transport transport) : TrafficSuite(transport)
{
    private static FrameFormat FormatOf(string name) => name switch
    {
        "prefix" => FrameFormat.LengthPrefix(4, headerBytes: 2),
        "varint" => FrameFormat.VarintPrefix(),
        "delimiter" => FrameFormat.Delimited("--"u8),
        "line" => FrameFormat.Line(),
        _ => FrameFormat.FixedSize(33),
    };

    [Theory, Contract(3, 13)]
    [InlineData("prefix")]
    [InlineData("varint")]
    [InlineData("delimiter")]
    [InlineData("line")]
    [InlineData("fixed")]
    public void Every_message_is_echoed_unchanged_however_the_stream_is_cut(string name) => Run(rig =>
    {
        FrameFormat format = FormatOf(name);
        ArrayBufferWriter<byte> stream = new();
        for (int i = 0; i < 60; i++)
        {
            // Only letters, which are no delimiters. Each ninth message is larger than a receive of 8 KiB.
            byte[] message = Filled((char)('a' + (i % 26)), name == "fixed" ? 33 : i % 9 == 8 ? 9_000 + i : i);
            format.Write(stream, message, name == "prefix" ? [(byte)i, 7] : default);
        }

        Peer peer = rig.ConnectPeer(Serve(rig,
            () => new Messages(format, static (s, message, header) => s.SendFrame(message, header))).EndPoint!);
        byte[] all = stream.WrittenSpan.ToArray();
        for (int at = 0, piece = 1; at < all.Length; at += piece, piece = (piece * 3 % 1021) + 1)
        {
            piece = Math.Min(piece, all.Length - at);
            peer.Write(all.AsSpan(at, piece).ToArray());
        }

        Assert.Equal(all, peer.Read(all.Length));
    });

    [Fact, Contract(12)]
    public void A_message_over_the_limit_resets_after_the_ones_before_it_and_the_reason_stays() => Run(rig =>
    {
        Messages session = new(FrameFormat.LengthPrefix(2, limitBytes: 5), static (_, _, _) => { });
        Peer peer = rig.ConnectPeer(Serve(rig, () => session).EndPoint!);
        // No byte of the message itself needs to arrive.
        peer.Write([0, 5, .. "hello"u8, 0, 6]);
        rig.Until(() => session.Ended is not null, "the end");
        Assert.Equal(["hello"], session.All);
        Assert.Equal(FrameError.TooLong, session.FrameError);
        Assert.Equal((CloseCause.ProtocolError, FrameError.TooLong),
            (session.Ended!.Value.Cause, session.Ended.Value.FrameError));
    });

    [Fact, Contract(10)]
    public void A_pause_in_a_message_keeps_the_rest_until_the_resume() => Run(rig =>
    {
        Messages session = new(FrameFormat.Line(), static (s, _, _) => s.PauseReceiving());
        Peer peer = rig.ConnectPeer(Serve(rig, () => session).EndPoint!);
        peer.Write("one\ntwo\nthr");
        rig.Until(() => session.All.Length == 1, "the first message");
        peer.Write("ee\n");
        rig.Settle();
        Assert.Equal(["one"], session.All);
        rig.OnLoop(session, session.ResumeReceiving);
        rig.Until(() => session.All.Length == 2, "the second message");
        rig.OnLoop(session, session.ResumeReceiving);
        rig.Until(() => session.All.Length == 3, "the third message");
        Assert.Equal(["one", "two", "three"], session.All);
    });

    [Fact, Contract(9)]
    public void Answers_that_are_not_read_hold_the_next_messages_back_and_all_arrive_in_the_end() => Run(rig =>
    {
        const int Count = 50, Length = 20_000;
        byte[] answer = Filled('a', Length);
        Messages session = new(FrameFormat.Line(), (s, _, _) => Assert.Equal(SendResult.Queued, s.SendFrame(answer)));
        ServerOptions options = Narrow(rig, limit: 256 * 1024);
        Peer peer = rig.ConnectPeer(Serve(rig, () => session, options).EndPoint!);
        peer.Write(new string('\n', Count));
        rig.Until(() => session.IsAboveHighWaterMark, "the session to be held back");
        rig.Settle();
        Assert.True(session.All.Length < Count, "nothing was held back");
        byte[] arrived = peer.Read(Count * (Length + 1));
        Assert.Equal(Count, arrived.AsSpan().Count((byte)'\n'));
        Assert.Equal(Count, session.All.Length);
        Assert.True(session.IsConnected);
    });

    [Fact, Contract(3, 15)]
    public void A_hand_over_in_a_message_passes_on_the_unread_ones() => Run(rig =>
    {
        Messages next = new(FrameFormat.LengthPrefix(1), static (s, message, _) => s.SendFrame(message));
        Messages session = new(FrameFormat.Line(), (s, _, _) => s.Give(next));
        Peer peer = rig.ConnectPeer(Serve(rig, () => session).EndPoint!);
        peer.Write("go\n\u0003one\u0004tw");
        Assert.Equal("\u0003one", peer.ReadText(4));
        peer.Write("o!");
        Assert.Equal("\u0004two!", peer.ReadText(5));
        Assert.Equal(["go"], session.All);
        Assert.Equal(["one", "two!"], next.All);
    });

    private static Server Serve(Rig rig, Func<Session> factory, ServerOptions? options = null)
    {
        Server server = rig.Keep(new Server(
            rig.Scheduled(options ?? new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() }), factory));
        rig.Await(server.StartAsync());
        return server;
    }

    private delegate void FrameHook(Messages session, ReadOnlySpan<byte> message, ReadOnlySpan<byte> header);

    private sealed class Messages(FrameFormat format, FrameHook atFrame) : FramedSession(format)
    {
        private readonly Lock _gate = new();
        private readonly List<string> _all = [];
        private CloseReason? _ended;

        internal string[] All
        {
            get
            {
                lock (_gate) return [.. _all];
            }
        }

        internal CloseReason? Ended
        {
            get
            {
                lock (_gate) return _ended;
            }
        }

        internal void Give(Session next) => HandOver(next);

        protected override void OnFrame(in Frame frame)
        {
            lock (_gate) _all.Add(Text(frame.Message));
            atFrame(this, frame.Message, frame.Header);
        }

        protected override void OnDisconnected(CloseReason reason)
        {
            lock (_gate) _ended = reason;
        }
    }
}
