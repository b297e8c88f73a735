using System.Buffers;
using System.Text.Json;

namespace Whimbrel.Conformance;

/// <summary>Data written by serializers through a <see cref="MessageWriter"/> is one message, accepted as a whole or
/// not at all, whatever happens while it is written.</summary>
public abstract class WritingSuite(Transport transport) : TrafficSuite(transport)
{
    [Theory, Contract(5, 21)]
    [InlineData(50)]
    [InlineData(1024 * 1024)]
    public void A_document_written_by_Utf8JsonWriter_arrives_as_one_message(int length) => Run(rig =>
    {
        if (rig.IsVirtual) length = Math.Min(length, 100_000);
        string text = new('x', length - 2);
        using ManualResetEventSlim isQueued = new();
        MessageWriter message = new();
        ServerOptions options =
            new() { Engine = rig.Engine, EndPoint = rig.NewAddress(), Limits = new() { SendBytes = 4 * 1024 * 1024 } };
        RecordingServer server = rig.Serve(
            s => s.AtReceived = (session, _) =>
            {
                using Utf8JsonWriter json = new(message);
                json.WriteStartArray();
                // Sent while the document is being written.
                session.Send("<"u8);
                foreach (char[] part in text.Chunk(1_000)) json.WriteStringValue(part);
                json.WriteEndArray();
                json.Flush();
                int written = message.Length;
                Assert.Equal(SendResult.Queued, session.Send(Outgoing.Written(message)));
                Assert.Equal(0, message.Length);
                session.Send(">"u8);
                Assert.True(written > length, $"{written} bytes");
            },
            options);
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        byte[] expected = [(byte)'<', .. Document(text), (byte)'>', (byte)'<', .. Document(text), (byte)'>'];
        // Twice: the second document is written into blocks that the first one returned.
        peer.Write("x");
        byte[] arrived = peer.Read(expected.Length / 2);
        peer.Write("x");
        byte[] rest = peer.Read(expected.Length / 2);
        Assert.Equal(expected, (byte[])[.. arrived, .. rest]);
    });

    private static byte[] Document(string text) =>
        JsonSerializer.SerializeToUtf8Bytes(text.Chunk(1_000).Select(static part => new string(part)));

    [Theory, Contract(5, 21)]
    [InlineData(1_000)]
    [InlineData(40_000)]
    public void A_message_that_does_not_fit_stays_in_its_writer_and_is_sent_when_there_is_room(int length) => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig);
        byte[] clog = Clog(rig, session);
        byte[] filler = FillTo(rig, session, length - 1);
        byte[] data = Pattern(length, 3);
        MessageWriter message = new();
        rig.OnLoop(session, () =>
        {
            message.Write(data);
            Assert.Equal(SendResult.Full, session.Send(Outgoing.Written(message)));
            Assert.Equal(length, message.Length);
        });
        Assert.Equal(SendResult.Full, session.Send(Outgoing.Written(message)));
        Assert.Equal(data, message.Written.ToArray());
        Assert.Equal([.. clog, .. filler], peer.Read(clog.Length + filler.Length));
        rig.Until(() => session.BytesPending == 0, "the queue to drain");
        rig.OnLoop(session, () => Assert.Equal(SendResult.Queued, session.Send(Outgoing.Written(message))));
        Assert.Equal(data, peer.Read(length));
        Assert.Equal(0, message.Length);
    });

    [Theory, Contract(5, 7, 21)]
    [InlineData(100)]
    [InlineData(32 * 1024)]
    [InlineData((32 * 1024) + 1)]
    [InlineData(150_000)]
    public void Messages_of_other_threads_keep_their_order_and_nothing_comes_between_their_blocks(int length) =>
        Run(rig =>
        {
            const int Count = 6;
            (RecordingSession session, Peer peer) = Pair(rig, limit: 4 * 1024 * 1024);
            for (int thread = 0; thread < 2; thread++)
            {
                byte mine = (byte)('a' + thread);
                MessageWriter message = new();
                int done = 0;
                Repeat(rig, () =>
                {
                    // With a size hint that leaves unused space in a block.
                    message.GetSpan(10)[0] = (byte)'[';
                    message.Advance(1);
                    for (int left = length - 2; left > 0;)
                    {
                        int part = Math.Min(left, 7_001);
                        message.GetSpan(part)[..part].Fill(mine);
                        message.Advance(part);
                        left -= part;
                    }

                    message.Write("]"u8);
                    if (session.Send(Outgoing.Written(message)) != SendResult.Queued) return false;
                    return ++done == Count;
                });
            }

            byte[] arrived = peer.Read(2 * Count * length);
            rig.Join();
            int[] seen = new int[2];
            for (int at = 0; at < arrived.Length; at += length)
            {
                ReadOnlySpan<byte> message = arrived.AsSpan(at, length);
                Assert.Equal((byte)'[', message[0]);
                Assert.Equal((byte)']', message[^1]);
                Assert.False(message[1..^1].ContainsAnyExcept(message[1]),
                    $"something else lies in the message at {at}");
                seen[message[1] - 'a']++;
            }

            Assert.Equal([Count, Count], seen);
        });

    [Theory, Contract(1, 5, 21)]
    [InlineData(100, false)]
    [InlineData(100_000, false)]
    [InlineData(100, true)]
    [InlineData(100_000, true)]
    public void A_session_that_ends_while_a_message_is_written_leaves_it_to_its_writer(int length, bool isHandOver) =>
        Run(rig =>
        {
            byte[] data = Pattern(length, 4);
            MessageWriter message = new();
            RecordingSession next = new(rig) { IsSuccessor = true };
            RecordingServer server = rig.Serve(s => s.AtReceived = (session, _) =>
            {
                message.Write(data.AsSpan(0, length / 2));
                if (isHandOver) session.CallHandOver(next);
                else session.Abort();
            });
            Peer peer = rig.ConnectPeer(server.EndPoint!);
            RecordingSession first = server.Connected();
            peer.Write("x");
            first.End();
            // Earlier data is still there, and so is the space after it.
            message.Write(data.AsSpan(length / 2));
            Assert.Equal(SendResult.Closed, first.Send(Outgoing.Written(message)));
            Assert.Equal(data, message.Written.ToArray());
            // Nothing of it was sent, and another session may send it.
            if (isHandOver) next.Until("connected");
            Peer other = isHandOver ? peer : rig.ConnectPeer(server.EndPoint!);
            RecordingSession heir = next;
            if (!isHandOver) rig.Until(() => (heir = rig.Sessions[^1]) is { IsConnected: true }, "the second session");
            rig.OnLoop(heir, () => Assert.Equal(SendResult.Queued, heir.Send(Outgoing.Written(message))));
            Assert.Equal(data, other.Read(length));
        });

    [Fact, Contract(5, 21)]
    public void A_long_message_that_was_taken_and_never_sent_gives_its_blocks_back() => Run(rig =>
    {
        (RecordingSession session, Peer peer) = Pair(rig, limit: 4 * 1024 * 1024);
        Clog(rig, session);
        int before = Buffers.WriterBlocks.Outstanding;
        MessageWriter message = new();
        message.Write(Pattern(500_000));
        Assert.Equal(SendResult.Queued, session.Send(Outgoing.Written(message)));
        rig.OnLoop(session, () =>
        {
            message.Write(Pattern(300_000));
            Assert.Equal(SendResult.Queued, session.Send(Outgoing.Written(message)));
        });
        session.Abort();
        session.End();
        // The writer has no blocks: it has passed all of them on.
        rig.Until(() => Buffers.WriterBlocks.Outstanding == before, "the blocks to come back");
        peer.Close();
    });

    [Fact, Contract(21)]
    public void A_refused_message_stays_and_OnSending_may_not_use_its_writer() => Run(rig =>
    {
        byte[] data = Pattern(70_000);
        MessageWriter message = new();
        Exception? thrown = null;
        AskedSession? asked = null;
        Server server =
            rig.Keep(new Server(rig.Scheduled(new ServerOptions { Engine = rig.Engine, EndPoint = rig.NewAddress() }),
                () => asked = new AskedSession(() =>
                {
                    thrown = Record.Exception(() => message.GetSpan());
                    return false;
                })));
        rig.Await(server.StartAsync());
        Peer peer = rig.ConnectPeer(server.EndPoint!);
        rig.Until(() => Volatile.Read(ref asked) is { IsConnected: true }, "the session");
        message.Write(data);
        Assert.Equal(SendResult.Refused, asked!.Send(Outgoing.Written(message)));
        Assert.IsType<InvalidOperationException>(thrown);
        Assert.Equal(data, message.Written.ToArray());
        message.Clear();
        Assert.Equal(0, message.Length);
        peer.Close();
    });

    private sealed class AskedSession(Func<bool> mayBeSent) : Session
    {
        protected override bool OnSending(long bytes) => mayBeSent();
    }
}
