namespace Whimbrel.Conformance;

/// <summary>Contracts 8 and 9, if one callback has more responses than the queue holds.</summary>
public abstract class PipeliningSuite(Transport transport) : TrafficSuite(transport)
{
    private const int AnswerBytes = 50_000;

    /// <summary>Each byte requests a response, which contains its number.</summary>
    private static byte[] Answer(int number)
    {
        byte[] answer = new byte[AnswerBytes];
        answer.AsSpan().Fill((byte)(number * 7));
        return answer;
    }

    /// <summary>A client that reads all the time.</summary>
    private static void ReadAnswers(Rig rig, Peer peer, int count)
    {
        byte[] buffer = new byte[256 * 1024];
        long read = 0;
        rig.Until(
            () =>
            {
                int got;
                while (read < (long)count * AnswerBytes && (got = peer.TryRead(buffer)) > 0)
                {
                    for (int i = 0; i < got; i++)
                    {
                        if (buffer[i] != (byte)((read + i) / AnswerBytes * 7))
                            Assert.Fail($"a wrong byte at {read + i}");
                    }

                    read += got;
                }

                return read == (long)count * AnswerBytes;
            },
            $"{count} answers");
    }

    [Theory, Contract(8, 9)]
    [InlineData(false)]
    [InlineData(true)]
    public void A_client_that_pipelines_22_requests_and_reads_is_not_judged_slow(bool inOnePiece) => Run(rig =>
    {
        int queued = 0, refused = 0;
        RecordingServer server = rig.Serve(
            s => s.AtReceived = (x, data) =>
            {
                foreach (byte number in data)
                {
                    byte[] answer = Answer(number);
                    SendResult result = inOnePiece
                        ? x.Send(answer)
                        : x.Send(Outgoing.Pieces(answer.AsSpan(0, 100), answer.AsSpan(100)));
                    if (result == SendResult.Queued) Volatile.Write(ref queued, queued + 1);
                    else Volatile.Write(ref refused, refused + 1);
                }
            },
            new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        byte[] requests = [.. Enumerable.Range(0, 22).Select(static i => (byte)i)];
        for (int at = 0; at < requests.Length;) at += peer.TryWrite(requests.AsSpan(at));
        ReadAnswers(rig, peer, 22);
        // The peer may have the last response before the callback that sent it has counted it.
        rig.Until(() => Volatile.Read(ref queued) + Volatile.Read(ref refused) == 22, "all answers to be counted");
        Assert.Equal(0, Volatile.Read(ref refused));
        Assert.True(session.IsConnected);
    });

    [Theory, Contract(3, 9)]
    [InlineData("IsAboveHighWaterMark", 0)]
    [InlineData("IsAboveHighWaterMark", 256 * 1024)]
    [InlineData("IsAboveHighWaterMark and FIN", 0)]
    [InlineData("BytesPending", 0)]
    [InlineData("a little pending", 0)]
    [InlineData("anything pending", 0)]
    [InlineData("refused", 256 * 1024)]
    public void A_session_that_leaves_requests_unread_while_much_is_pending_gets_them_again(string sign, int limit) =>
        Run(rig =>
        {
            int count = rig.IsVirtual ? 60 : 200;
            int answered = 0;
            ServerOptions options = limit == 0
                ? new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() }
                : new ServerOptions
                {
                    Engine = rig.Engine,
                    EndPoint = rig.NewAddress(),
                    Limits = new() { SendBytes = limit, SlowConsumer = SlowConsumer.DropNewest }
                };
            RecordingServer server = rig.Serve(
                s => s.AtData = (x, unread) =>
                {
                    int taken = 0;
                    while (taken < unread.Length && !Stops(x, sign))
                    {
                        if (x.Send(Answer(unread[taken])) != SendResult.Queued) break;
                        taken++;
                        answered++;
                    }

                    return taken;
                },
                options);
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            RecordingSession session = server.Connected();
            byte[] requests = [.. Enumerable.Range(0, count).Select(static i => (byte)i)];
            for (int at = 0; at < requests.Length;) at += peer.TryWrite(requests.AsSpan(at));
            if (sign.EndsWith("FIN", StringComparison.Ordinal)) peer.ShutdownSend();
            ReadAnswers(rig, peer, count);
            // The peer may have the last response before the callback that sent it has counted it.
            rig.Until(() => Volatile.Read(ref answered) == count, "all answers to be counted");
            if (sign.EndsWith("FIN", StringComparison.Ordinal)) Assert.Equal(CloseCause.PeerClosed, session.End());
            else Assert.True(session.IsConnected);
        });

    private static bool Stops(RecordingSession session, string sign) => sign switch
    {
        "BytesPending" => session.BytesPending > 512 * 1024,
        "a little pending" => session.BytesPending > 150_000,
        "anything pending" => session.BytesPending > 0,
        "refused" => false,
        _ => session.IsAboveHighWaterMark,
    };

    [Fact, Contract(3, 9)]
    public void Back_pressure_holds_and_drains_again_and_again() => Run(rig =>
    {
        const int Rounds = 5;
        int sent = 0;
        RecordingServer server = rig.Serve(
            s => s.AtData = (x, _) =>
            {
                while (!x.IsAboveHighWaterMark) Send(64 * 1024);
                Send(1024 * 1024); // more than the socket buffers hold, even with delayed acknowledgements
                return 1;

                void Send(int bytes)
                {
                    Assert.Equal(SendResult.Queued, x.Send(Outgoing.Owned(new Memory(new byte[bytes]), bytes)));
                    Interlocked.Add(ref sent, bytes);
                }
            },
            Narrow(rig, backPressure: true, limit: 8 * 1024 * 1024));
        Peer peer = rig.ConnectPeer(server.EndPoint!, SmallBuffer);
        RecordingSession session = server.Connected();
        for (int at = 0; at < Rounds;) at += peer.TryWrite(new byte[Rounds - at]);
        for (int round = 1; round <= Rounds; round++)
        {
            session.UntilReceived(round);
            rig.Settle();
            Assert.Equal(round, session.ReceivedCount);
            Assert.True(session.IsAboveHighWaterMark);
            peer.Read(Interlocked.Exchange(ref sent, 0));
        }

        rig.Until(() => !session.IsAboveHighWaterMark && session.BytesPending == 0, "the last round to drain");
        Assert.Equal(Rounds, session.ReceivedCount);
    });

    [Fact, Contract(9, 10)]
    public void A_paused_session_gets_unconsumed_data_when_it_resumes_and_not_when_its_queue_drains() => Run(rig =>
    {
        RecordingServer server = rig.Serve(
            static s => s.AtData = static (x, unread) =>
            {
                if (x.Offers.Count > 1) return unread.Length;
                x.Send(new byte[600_000]);
                x.PauseReceiving();
                return 0;
            },
            new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = rig.NewAddress(),
                Socket = new() { SendBufferBytes = 8192 }
            });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        peer.Write("left");
        peer.Read(600_000);
        rig.Until(() => session.BytesPending == 0, "the queue to drain");
        rig.Settle();
        Assert.Equal(0, session.ReceivedCount);
        rig.OnLoop(session, session.ResumeReceiving);
        session.UntilReceived(4);
        Assert.Equal("left", session.ReceivedText);
    });

    [Fact, Contract(3, 9)]
    public void A_session_that_waits_for_more_bytes_is_not_offered_the_same_again_and_again() => Run(rig =>
    {
        RecordingServer server = rig.Serve(static s => s.AtData = static (x, unread) =>
        {
            if (unread.Length >= 10) return unread.Length;
            // Sends a line each time and reads BytesPending, but still waits for more bytes.
            x.Send("more\n"u8);
            return x.BytesPending > 0 && x.IsAboveHighWaterMark ? 1 : 0;
        });
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        RecordingSession session = server.Connected();
        peer.Write("12345");
        Assert.Equal("more\n", peer.ReadText(5));
        rig.Settle();
        rig.Settle();
        Assert.InRange(session.Offers.Count, 1, 5);
        peer.Write("67890");
        session.UntilReceived(10);
    });
}
