using System.Buffers;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// The writer compared with a model, and the invalidation of memory that is kept too long. The conformance suite tests
// sending.
public sealed class MessageWriterTests
{
    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void Random_sequences_of_writes_and_sends_arrive_as_a_model_says(Scheduling scheduling)
    {
        // Some MiB each, created once.
        List<byte>[] models = [[], []];
        List<byte>[] arrived = [[], []];
        foreach (int seed in Seeds.Some(100))
        {
            foreach (List<byte> list in (List<byte>[])[.. models, .. arrived]) list.Clear();
            using TestNetwork network = new(seed);
            MessageWriter shared = new();
            List<Writing> sessions = [];
            Server server = new(
                new ServerOptions
                {
                    Engine = network.Engine,
                    EndPoint = network.NewEndPoint(),
                    Limits = new() { SendBytes = 64 * 1024 * 1024 },
                    Scheduling = scheduling
                },
                () =>
                {
                    Writing session = new(new Random(seed + sessions.Count), shared, models[sessions.Count]);
                    sessions.Add(session);
                    return session;
                });
            // Two sessions and one writer: blocks move from one to the other.
            TestPeer[] peers = [network.Connect(server), network.Connect(server)];
            for (int round = 0; round < 40; round++)
            {
                peers[round % 2].Send("x");
                for (int i = 0; i < 2; i++) arrived[i].AddRange(peers[i].Receive());
            }

            for (int i = 0; i < 2; i++)
            {
                Assert.True(sessions[i].Model.SequenceEqual(arrived[i]), $"seed {seed}, peer {i}: "
                    + $"{sessions[i].Model.Count} bytes were taken and {arrived[i].Count} arrived, or others");
                Assert.True(peers[i].IsConnected, $"seed {seed}");
            }
        }
    }

    [Fact]
    public void Memory_that_was_kept_reaches_nothing_any_more_when_the_message_was_sent_or_cleared()
    {
        MessageWriter writer = new();
        Memory<byte> kept = writer.GetMemory(100);
        kept.Span[0] = 1;
        writer.Advance(1);
        kept.Span[1] = 2; // still valid for this message
        writer.Clear();
        Assert.Throws<InvalidOperationException>(() => kept.Span.Length);
        Assert.Throws<InvalidOperationException>(() => kept.Pin());
        // Requested again, the memory belongs to the new message only.
        writer.GetSpan(1)[0] = 7;
        Assert.Throws<InvalidOperationException>(() => kept.Span.Length);
    }

    [Fact]
    public void Memory_that_is_pinned_is_not_given_away()
    {
        MessageWriter writer = new();
        writer.Write(new byte[50_000]);
        MemoryHandle pin = writer.GetMemory(10).Pin();
        Assert.Throws<InvalidOperationException>(writer.Clear);
        Assert.Throws<InvalidOperationException>(() => new Silent().Send(Outgoing.Written(writer)));
        Assert.Equal(50_000, writer.Length);
        pin.Dispose();
        writer.Clear();
        Assert.Equal(0, writer.Length);
        // An empty block is not replaced by a larger one while its memory is pinned.
        pin = writer.GetMemory(10).Pin();
        Assert.Throws<InvalidOperationException>(() => writer.GetSpan(100_000));
        pin.Dispose();
        Assert.True(writer.GetSpan(100_000).Length >= 100_000);
        writer.Clear();
    }

    [Fact]
    public void The_limit_of_a_writer_holds_to_the_byte()
    {
        MessageWriter writer = new(limitBytes: 40_000);
        writer.Write(new byte[39_999]);
        Assert.Equal(1, writer.GetSpan(1).Length);
        Assert.Equal(1, writer.GetMemory().Length);
        Assert.Throws<ArgumentOutOfRangeException>(() => writer.Advance(2));
        writer.Advance(1);
        Assert.Throws<InvalidOperationException>(() => writer.GetSpan());
        Assert.Throws<InvalidOperationException>(() => writer.GetMemory(1));
        Assert.Equal(40_000, writer.Length);
        writer.Clear();
        Assert.Throws<InvalidOperationException>(() => writer.GetSpan(40_001));
        Assert.Equal(40_000, writer.GetSpan(40_000).Length);
        Assert.Throws<ArgumentOutOfRangeException>(() => writer.GetSpan(-1));
        Assert.Throws<ArgumentOutOfRangeException>(() => writer.Advance(-1));
        Assert.Throws<ArgumentOutOfRangeException>(static () => new MessageWriter(0));
        Assert.Throws<ArgumentOutOfRangeException>(static () => new MessageWriter((1 << 30) + 1));
    }

    [Fact]
    public void Only_what_was_asked_for_last_may_be_advanced_over()
    {
        MessageWriter writer = new();
        Assert.Throws<ArgumentOutOfRangeException>(() => writer.Advance(1));
        writer.Advance(0);
        int room = writer.GetSpan(5).Length;
        writer.Advance(room);
        Assert.Throws<ArgumentOutOfRangeException>(() => writer.Advance(1));
        writer.Clear();
        Assert.Throws<ArgumentOutOfRangeException>(() => writer.Advance(1));
    }

    private sealed class Silent : Session;

    private sealed class Writing(Random random, MessageWriter writer, List<byte> model) : Session
    {
        // Each byte is one more than the previous byte.
        private static readonly byte[] s_ramp = [.. Enumerable.Range(0, 256 + 200_000).Select(static i => (byte)i)];

        private byte _next;

        internal List<byte> Model { get; } = model;

        protected override void OnReceived(ReadOnlySpan<byte> data)
        {
            List<byte> message = [];
            for (int i = random.Next(1, 12); i > 0; i--)
            {
                switch (random.Next(8))
                {
                    case 0:
                        byte[] between = Bytes(random.Next(1, 3_000));
                        Assert.Equal(SendResult.Queued, Send(between));
                        Model.AddRange(between);
                        break;
                    case 1:
                        writer.Clear();
                        message.Clear();
                        break;
                    case 2:
                        Assert.True(writer.Written.ToArray().SequenceEqual(message));
                        SendWritten(message);
                        break;
                    default:
                        Write(message, random.Next(4) switch
                        {
                            0 => random.Next(20_000, 150_000),
                            1 => 0,
                            _ => random.Next(1, 5_000)
                        });
                        break;
                }
            }

            SendWritten(message);
        }

        private void Write(List<byte> message, int hint)
        {
            byte[] bytes = Bytes(random.Next(3) == 0 ? hint : random.Next(hint + 1));
            Span<byte> room = random.Next(2) == 0 ? writer.GetSpan(hint) : writer.GetMemory(hint).Span;
            Assert.True(room.Length >= Math.Max(1, hint));
            bytes.CopyTo(room);
            writer.Advance(bytes.Length);
            message.AddRange(bytes);
        }

        private void SendWritten(List<byte> message)
        {
            Assert.Equal(message.Count, writer.Length);
            Assert.Equal(SendResult.Queued, Send(Outgoing.Written(writer)));
            Assert.Equal(0, writer.Length);
            Model.AddRange(message);
            message.Clear();
        }

        private byte[] Bytes(int count)
        {
            byte[] bytes = s_ramp.AsSpan(_next, count).ToArray();
            _next += (byte)count;
            return bytes;
        }
    }
}
