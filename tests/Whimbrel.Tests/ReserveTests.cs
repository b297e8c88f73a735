using System.Buffers;
using Whimbrel.Connections;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// Reserve and Commit mixed with all other forms of sending, in random order: the accepted bytes arrive unchanged.
public sealed class ReserveTests
{
    private const int Rounds = 60;

    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void Random_sequences_of_sends_and_reserved_room_arrive_as_a_model_says(Scheduling scheduling)
    {
        // Some MiB each, created once.
        List<byte>[] models = [[], []];
        List<byte>[] arrived = [[], []];
        foreach (int seed in Seeds.Some(200))
        {
            foreach (List<byte> list in (List<byte>[])[.. models, .. arrived]) list.Clear();
            List<Sender> sessions = [];
            using TestNetwork network = new(seed);
            SessionGroup everyone = new("everyone");
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
                    Sender sender = new(new Random(seed + sessions.Count), everyone, sessions, models[sessions.Count]);
                    sessions.Add(sender);
                    return sender;
                });
            // Two writers: blocks move from one to the other.
            TestPeer[] peers = [network.Connect(server), network.Connect(server)];
            for (int round = 0; round < Rounds; round++)
            {
                peers[round % 2].Send("x");
                for (int i = 0; i < 2; i++) arrived[i].AddRange(peers[i].Receive());
            }

            for (int i = 0; i < 2; i++)
            {
                Assert.True(sessions[i].Model.SequenceEqual(arrived[i]), $"seed {seed}, peer {i}: "
                    + $"{sessions[i].Model.Count} bytes were taken and {arrived[i].Count} arrived, or others");
                Assert.True(peers[i].IsConnected, $"seed {seed}");
                Assert.All(sessions[i].Waiting, t =>
                    Assert.True(t is { IsCompletedSuccessfully: true, Result: SendResult.Queued }, $"seed {seed}"));
            }
        }
    }

    private sealed class Sender(Random random, SessionGroup everyone, List<Sender> all, List<byte> model) : Session
    {
        // Each byte is one more than the previous byte.
        private static readonly byte[] s_ramp = [.. Enumerable.Range(0, 256 + 70_000).Select(static i => (byte)i)];

        private byte _next;

        internal List<byte> Model { get; } = model;

        internal List<Task<SendResult>> Waiting { get; } = [];

        protected override void OnConnected() => everyone.Join(this);

        protected override void OnReceived(ReadOnlySpan<byte> data)
        {
            for (int i = random.Next(1, 12); i > 0; i--) Step();
        }

        private void Step()
        {
            if (random.Next(3) > 0)
            {
                SendSomething();
                return;
            }

            int reserved = random.Next(1, 3) == 1 ? random.Next(1, 200) : random.Next(1, 32 * 1024);
            Span<byte> room = Reserve(reserved);
            if (room.IsEmpty) return;
            for (int i = random.Next(6) - 3; i > 0; i--) SendSomething();
            byte[] written = Bytes(random.Next(reserved) + 1);
            written.CopyTo(room);
            switch (random.Next(4))
            {
                case 0:
                    Commit(0);
                    break;
                case 1:
                    // Not committed: the callback's end releases it.
                    room.Fill(0xEE);
                    break;
                default:
                    Commit(written.Length);
                    Model.AddRange(written);
                    break;
            }
        }

        // The message is queued when the call returns; with much pending the task completes later.
        private void Awaited(ValueTask<SendResult> sending)
        {
            if (sending.IsCompleted) Assert.Equal(SendResult.Queued, sending.Result);
            else Waiting.Add(sending.AsTask());
        }

        private void SendSomething()
        {
            byte[] data =
                Bytes(random.Next(4) switch { 0 => 0, 1 => random.Next(30_000, 70_000), _ => random.Next(1, 3_000) });
            switch (random.Next(8))
            {
                case 0:
                    Taken(Send(Outgoing.Pieces(data.AsSpan(0, data.Length / 2), data.AsSpan(data.Length / 2))), data);
                    break;
                case 1:
                    Taken(Send(Outgoing.Owned(new Owner([.. data]), data.Length)), data);
                    break;
                case 2 when data.Length > 0:
                    // The mailbox, which only the pool uses, may refuse it.
                    if (everyone.Broadcast(data) != SendResult.Queued) break;
                    foreach (Sender sender in all) sender.Model.AddRange(data);
                    break;
                case 3:
                    ValueTask<SendResult> sending = SendAsync(data);
                    Model.AddRange(data);
                    Awaited(sending);
                    break;
                case 4:
                    Taken(Send(Outgoing.Pieces(Pieces(data))), data);
                    break;
                case 5:
                    ValueTask<SendResult> two =
                        SendAsync(Outgoing.Pieces([data.AsMemory(0, data.Length / 3), data.AsMemory(data.Length / 3)]));
                    Model.AddRange(data);
                    Awaited(two);
                    break;
                case 6 when PoolSession.Exchange(null) is { } strand:
                    // A send of another thread in the middle of it.
                    Taken(Send(data), data);
                    PoolSession.Exchange(strand);
                    break;
                default:
                    Taken(Send(data), data);
                    break;
            }
        }

        private ReadOnlyMemory<byte>[] Pieces(byte[] data)
        {
            List<ReadOnlyMemory<byte>> pieces = [];
            int most = random.Next(2) == 0 ? 20_000 : 400;
            for (int at = 0; at < data.Length;)
            {
                int count = Math.Min(random.Next(most), data.Length - at);
                pieces.Add(data.AsMemory(at, count));
                at += count;
            }

            return [.. pieces];
        }

        private void Taken(SendResult result, byte[] data)
        {
            if (result == SendResult.Queued) Model.AddRange(data);
        }

        private byte[] Bytes(int count)
        {
            byte[] bytes = s_ramp.AsSpan(_next, count).ToArray();
            _next += (byte)count;
            return bytes;
        }
    }

    private sealed class Owner(byte[] bytes) : IMemoryOwner<byte>
    {
        public Memory<byte> Memory => bytes;

        public void Dispose() => Array.Fill(bytes, (byte)0xDD);
    }
}
