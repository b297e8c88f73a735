using System.Buffers;
using System.Buffers.Binary;

namespace Whimbrel.Conformance;

/// <summary>Contract 7: what one caller does to one session takes effect in call order.</summary>
public abstract class OrderSuite(Transport transport) : TrafficSuite(transport)
{
    private const int MessageBytes = 12;

    [Fact, Contract(7)]
    public void Every_kind_of_send_of_several_threads_arrives_in_the_order_of_each_thread() => Run(rig =>
    {
        const int Threads = 4;
        const int Messages = 1500;
        RecordingServer server = rig.Serve();
        Peer peer = rig.Dial(server.EndPoint!);
        RecordingSession session = server.Connected();
        SessionGroup group = new();
        rig.OnLoop(session, () => group.Join(session));
        for (int t = 0; t < Threads; t++)
        {
            int thread = t;
            int next = 0;
            Repeat(rig, () =>
            {
                for (int i = 0; i < 40 && next < Messages; i++)
                {
                    if (!TrySend(session, group, thread, next)) return false;
                    next++;
                }

                return next == Messages;
            });
        }

        int[] expected = new int[Threads];
        for (int i = 0; i < Threads * Messages; i++)
        {
            byte[] message = peer.Read(MessageBytes);
            int thread = BinaryPrimitives.ReadInt32LittleEndian(message);
            Assert.InRange(thread, 0, Threads - 1);
            Assert.Equal(expected[thread]++, BinaryPrimitives.ReadInt32LittleEndian(message.AsSpan(4)));
            Assert.Equal(0x5A5A5A5A, BinaryPrimitives.ReadInt32LittleEndian(message.AsSpan(8)));
        }

        rig.Join();
    });

    [Fact, Contract(7)]
    public void The_same_holds_for_a_thread_of_another_loop() => Run(rig =>
    {
        const int Messages = 2000;
        RecordingServer server = rig.Serve();
        Peer peer = rig.Dial(server.EndPoint!);
        RecordingSession session = server.Connected();
        SessionGroup group = new();
        rig.OnLoop(session, () => group.Join(session));
        Loop other = rig.Engine.GetLoop(1 - session.Loop.Index);
        int next = 0;
        Step();
        for (int i = 0; i < Messages; i++)
        {
            Assert.Equal(i, BinaryPrimitives.ReadInt32LittleEndian(peer.Read(MessageBytes).AsSpan(4)));
        }

        void Step() => other.Post(() =>
        {
            for (int i = 0; i < 50 && next < Messages && TrySend(session, group, 0, next); i++) next++;
            if (next < Messages) Step();
        });
    });

    [Theory, Contract(7)]
    [InlineData(true)]
    [InlineData(false)]
    public void Close_takes_effect_after_all_that_was_sent_before_it(bool onLoop) => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.Dial(server.EndPoint!);
        RecordingSession session = server.Connected();
        SessionGroup group = new();
        rig.OnLoop(session, () => group.Join(session));
        List<SendResult> late = [];
        At(rig, session, onLoop, () =>
        {
            session.Send("1"u8);
            group.Broadcast("2"u8);
            _ = session.SendAsync(Bytes("3"));
            session.Send("4"u8, "5"u8);
            server.Broadcast("6"u8);
            session.Send(new Owned(Bytes("7")), 1);
            session.Send("8");
            session.Close();
            late.Add(session.Send("late"u8));
            late.Add(session.Send("la"u8, "te"u8));
            late.Add(session.SendAsync(Bytes("late")).AsTask().GetAwaiter().GetResult());
            group.Broadcast("late"u8);
        });
        Assert.Equal("12345678", peer.ReadTextToEnd());
        Assert.All(late, static r => Assert.Equal(SendResult.Closed, r));
        peer.Close();
        Assert.Equal(CloseCause.LocalClose, session.End());
    });

    [Theory, Contract(7, 11)]
    [InlineData(true)]
    [InlineData(false)]
    public void The_end_of_sending_takes_effect_after_all_that_was_sent_before_it(bool onLoop) => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        byte[] first = Clog(rig, session);
        byte[] fill = FillTo(rig, session, room: 5);
        SendResult late = default;
        At(rig, session, onLoop, () =>
        {
            session.Send("1234"u8);
            session.Send("5"u8);
            session.FinishSending();
            late = session.Send("late"u8);
        });
        Assert.Equal(SendResult.Closed, late);
        Assert.Equal([.. first, .. fill, .. Bytes("12345")], peer.ReadToEnd());
        peer.Write("still here");
        session.UntilReceived(10);
        peer.FinishSending();
        session.End();
    });

    [Fact, Contract(7, 17)]
    public void The_members_on_one_loop_see_the_broadcasts_of_all_threads_in_one_order() => Run(rig =>
    {
        const int Threads = 3;
        const int Members = 6;
        const int Messages = 600;
        RecordingServer server = rig.Serve();
        SessionGroup group = new();
        List<Peer> peers = [];
        for (int i = 0; i < Members; i++)
        {
            peers.Add(rig.Dial(server.EndPoint!));
            RecordingSession member = server.Connected(i);
            rig.OnLoop(member, () => group.Join(member));
        }

        for (int t = 0; t < Threads; t++)
        {
            int thread = t;
            int next = 0;
            Repeat(rig, () =>
            {
                for (int i = 0; i < 30 && next < Messages; i++, next++) Assert.Equal(SendResult.Queued, group.Broadcast(Message(thread, next)));
                return next == Messages;
            });
        }

        byte[][] streams = [.. peers.Select(static p => p.Read(Threads * Messages * MessageBytes))];
        rig.Join();
        // The n-th peer is not always the n-th session: which loop a stream belongs to is told by the streams themselves.
        byte[][] different = [.. streams.DistinctBy(Convert.ToHexString)];
        Assert.True(different.Length <= rig.Engine.LoopCount, $"{different.Length} orders on {rig.Engine.LoopCount} loops");
        foreach (byte[] stream in different)
        {
            int[] expected = new int[Threads];
            for (int at = 0; at < stream.Length; at += MessageBytes)
            {
                int thread = BinaryPrimitives.ReadInt32LittleEndian(stream.AsSpan(at));
                Assert.Equal(expected[thread]++, BinaryPrimitives.ReadInt32LittleEndian(stream.AsSpan(at + 4)));
            }
        }
    });

    [Fact, Contract(7, 17)]
    public void Join_broadcast_leave_broadcast_of_one_thread_take_effect_in_that_order() => Run(rig =>
    {
        RecordingServer server = rig.Serve();
        Peer peer = rig.Dial(server.EndPoint!);
        RecordingSession session = server.Connected();
        SessionGroup group = new();
        At(rig, session, onLoop: false, () =>
        {
            for (int i = 0; i < 20; i++)
            {
                group.Broadcast("before"u8);
                group.Join(session);
                group.Broadcast("a"u8);
                session.Send("b"u8);
                group.Broadcast("c"u8);
                group.Leave(session);
                group.Broadcast("after"u8);
                session.Send("d"u8);
            }
        });
        Assert.Equal(string.Concat(Enumerable.Repeat("abcd", 20)), peer.ReadText(80));
        rig.Settle();
        Assert.Equal(-1, peer.TryRead(new byte[1]));
    });

    [Fact, Contract(7)]
    public void Sends_of_a_thread_keep_their_order_though_some_go_by_reference_and_some_by_copy() => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig, limit: 16 * 1024 * 1024);
        SessionGroup group = new();
        rig.OnLoop(session, () => group.Join(session));
        int[] lengths = [1, 17_000, 3, 1024, 40_000, 1023, 5, 16 * 1024, 100_000, 2];
        byte[] all = Pattern(lengths.Sum() * 3, 3);
        foreach (bool onLoop in (bool[])[true, false])
        {
            int at = 0;
            int next = 0;
            // On the pool a callback posts like any other thread, and meets the limit of the mailbox.
            if (onLoop && rig.IsPool) Repeat(rig, () => StepHere(rig, session));
            else if (onLoop) rig.OnLoop(session, () => Assert.True(Step()));
            else Repeat(rig, Step);
            Assert.Equal(all, peer.Read(all.Length));

            bool StepHere(Rig rig, RecordingSession session)
            {
                bool done = false;
                rig.OnLoop(session, () => done = Step());
                return done;
            }

            bool Step()
            {
                for (; next < lengths.Length * 3; next++)
                {
                    ReadOnlySpan<byte> piece = all.AsSpan(at, lengths[next % lengths.Length]);
                    SendResult result = (next % 3) switch
                    {
                        0 => session.Send(piece),
                        1 => group.Broadcast(piece),
                        _ => session.Send(new Owned(piece.ToArray()), piece.Length),
                    };
                    if (result == SendResult.Full) return false; // the mailbox is full; the loop gets to it
                    at += piece.Length;
                }

                return true;
            }
        }
    });

    private static byte[] Message(int thread, int number)
    {
        byte[] message = new byte[MessageBytes];
        BinaryPrimitives.WriteInt32LittleEndian(message, thread);
        BinaryPrimitives.WriteInt32LittleEndian(message.AsSpan(4), number);
        BinaryPrimitives.WriteInt32LittleEndian(message.AsSpan(8), 0x5A5A5A5A);
        return message;
    }

    [Theory, Contract(7, 12)]
    [InlineData("close")]
    [InlineData("finish")]
    [InlineData("fin of the peer")]
    public void A_send_of_another_thread_that_is_on_its_way_when_a_callback_ends_still_leaves(string end) => Run(
        rig =>
        {
            Assert.SkipWhen(rig.IsVirtual, "Another thread cannot send inside a callback there.");
            Assert.SkipWhen(rig.IsPool, "There the callback's own sends are on their way too, and the order between two threads is free.");
            SendResult foreign = SendResult.Refused;
            byte[] tail = Pattern(40_000);
            RecordingServer server = rig.Serve(s =>
            {
                s.AtReceived = (x, _) =>
                {
                    if (end != "fin of the peer") EndOn(x);
                };
                s.AtPeerFinished = EndOn;
            });
            Peer peer = rig.Dial(server.EndPoint!);
            RecordingSession session = server.Connected();
            if (end == "fin of the peer") peer.FinishSending();
            else peer.Write("x");
            Assert.Equal([.. Bytes("mine"), .. tail], peer.ReadToEnd());
            Assert.Equal(SendResult.Queued, foreign);
            peer.Close();
            session.End();

            void EndOn(RecordingSession x)
            {
                x.Send("mine"u8);
                // On the loop it is in the mailbox when the callback goes on, and nothing of it is in the queue.
                Thread other = new(() => foreign = x.Send(tail));
                other.Start();
                Assert.True(other.Join(TimeSpan.FromSeconds(15)));
                if (end == "finish") x.FinishSending();
                else x.Close();
            }
        });

    private static bool TrySend(Session session, SessionGroup group, int thread, int number)
    {
        byte[] message = Message(thread, number);
        switch (number % 5)
        {
            case 0:
                return session.Send(message) == SendResult.Queued;
            case 1:
                return session.Send(message.AsSpan(0, 5), message.AsSpan(5)) == SendResult.Queued;
            case 2:
                return group.Broadcast(message) == SendResult.Queued;
            case 3:
                return session.Send(new Owned(message), MessageBytes) == SendResult.Queued;
            default:
                ValueTask<SendResult> task = session.SendAsync(message);
                Assert.True(task.IsCompletedSuccessfully);
                return task.Result == SendResult.Queued;
        }
    }

    private sealed class Owned(byte[] bytes) : IMemoryOwner<byte>
    {
        public Memory<byte> Memory => bytes;

        // What is sent after this would be seen at the other end.
        public void Dispose() => bytes.AsSpan().Fill(0xEE);
    }
}
