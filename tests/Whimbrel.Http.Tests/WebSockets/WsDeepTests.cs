using System.Net;
using System.Net.Sockets;
using System.Text;
using Whimbrel.Http.Parsing;
using Whimbrel.Http.Tests.WebSockets.Cases;

namespace Whimbrel.Http.Tests.WebSockets;

// Large amounts: a message larger than memory, and a room with very many members. Small without WHIMBREL_DEEP=1.
public sealed class WsDeepTests
{
    private static readonly TimeSpan _patience = Depth.IsDeep ? TimeSpan.FromMinutes(5) : WsSite.Patience;

    // Bytes with a prime period, so that losing or repeating a block of a usual size is detected. Generated on demand.
    private sealed class Pattern(long length) : MemoryStream
    {
        internal const int Period = 65_521;

        private static readonly byte[] _twice = Make();

        private long _at;

        private static byte[] Make()
        {
            byte[] twice = new byte[2 * Period];
            new Random(5).NextBytes(twice.AsSpan(0, Period));
            twice.AsSpan(0, Period).CopyTo(twice.AsSpan(Period));
            return twice;
        }

        /// <summary>The bytes at an offset, at most one period.</summary>
        internal static ReadOnlySpan<byte> At(long offset, int count) => _twice.AsSpan((int)(offset % Period), count);

        public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default)
        {
            int count = (int)Math.Min(length - _at, Math.Min(buffer.Length, Period));
            At(_at, count).CopyTo(buffer.Span);
            _at += count;
            return new(count);
        }
    }

    [Theory]
    [InlineData(EngineKind.Epoll, false, Scheduling.Inline)]
    [InlineData(EngineKind.Uring, false, Scheduling.Inline)]
    [InlineData(EngineKind.Epoll, true, Scheduling.ThreadPool)]
    public async Task A_message_of_a_GiB_is_streamed_both_ways_and_neither_end_keeps_it(EngineKind kind, bool isTls,
        Scheduling scheduling)
    {
        long length = Depth.IsDeep ? 1L << 30 : 16 << 20;
        await using WsSite site = new(kind, isTls, scheduling);
        await site.ServeAsync(static async (socket, stop) =>
        {
            byte[] part = new byte[40_000];
            while (true)
            {
                WebSocketReceived got = await socket.ReceiveAsync(part, stop);
                if (got.IsEnd) return;
                Assert.Equal(SendResult.Queued,
                    await socket.SendPieceAsync(part.AsMemory(0, got.Count), got.IsText, got.IsLast, stop));
            }
        });
        using CancellationTokenSource limit = new(_patience);
        WebSocketSession client = await site.ConnectAsync(null, limit.Token);
        long allocated = GC.GetTotalAllocatedBytes(precise: true);
        Task<SendResult> sending = Task.Run(async () => await client.SendBinaryAsync(new Pattern(length), limit.Token),
            limit.Token);
        byte[] into = new byte[Pattern.Period];
        long at = 0, most = 0;
        for (bool isLast = false; !isLast;)
        {
            WebSocketReceived got = await client.ReceiveAsync(into, limit.Token);
            Assert.False(got.IsEnd || got.IsText);
            Assert.True(into.AsSpan(0, got.Count).SequenceEqual(Pattern.At(at, got.Count)),
                $"other bytes from {at} on");
            at += got.Count;
            most = Math.Max(most, client.BytesPending);
            isLast = got.IsLast;
        }

        Assert.Equal(length, at);
        Assert.Equal(SendResult.Queued, await sending);
        Assert.InRange(most, 0, client.SendLimitBytes + 100_000);
        // Buffers, blocks and one-time allocations; SslStream, or async states on many threads, take some more. Nothing
        // grows with the message.
        Assert.InRange(GC.GetTotalAllocatedBytes(precise: true) - allocated, 0, 10_000_000 + (length / 20));
        client.SendText("and on");
        Assert.Equal("and on", (await client.ReceiveMessageAsync(limit.Token))!.Value.Text);
        await client.CloseAsync(limit.Token);
    }

    private sealed class Member(SessionGroup room) : WebSocketSession
    {
        protected override void OnConnected() => room.Join(this);

        protected override void OnText(ReadOnlySpan<byte> utf8) => room.BroadcastText(utf8);
    }

    [Fact]
    public async Task Each_of_up_to_10_000_in_a_room_receives_every_line_once_in_sender_order_and_all_close_at_once()
    {
        const int Speakers = 4, Lines = 25;
        await using WsSite site = new(EngineKind.Epoll);
        // Both ends are in this process.
        string limit = File.ReadLines("/proc/self/limits")
            .First(static l => l.StartsWith("Max open files", StringComparison.Ordinal))
            .Split(' ', StringSplitOptions.RemoveEmptyEntries)[3];
        int descriptors = int.TryParse(limit, out int most) ? most - 500 : int.MaxValue;
        int count = Math.Min(Depth.IsDeep ? 10_000 : 100, descriptors / 2);
        TestContext.Current.TestOutputHelper!.WriteLine($"{count} members");
        SessionGroup room = new();
        site.Server.WebSocket("/ws", () => new Member(room));
        await site.Server.StartAsync(TestContext.Current.CancellationToken);
        List<Socket> members = [];
        try
        {
            byte[] buffer = new byte[4096];
            for (int i = 0; i < count; i++)
            {
                Socket member = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp)
                {
                    ReceiveTimeout = (int)_patience.TotalMilliseconds
                };
                members.Add(member);
                member.Connect(site.Server.EndPoint!);
                member.Send(Encoding.ASCII.GetBytes(WsPeer.Ask()));
                int head = 0;
                while (!buffer.AsSpan(0, head).EndsWith("\r\n\r\n"u8)) head += Take(member, buffer.AsSpan(head));
            }

            Assert.True(SpinWait.SpinUntil(() => room.Count == count, _patience));
            for (int line = 0; line < Lines; line++)
            {
                for (int speaker = 0; speaker < Speakers; speaker++)
                    members[speaker * count / Speakers].Send(new CaseFrame(0x81,
                        Encoding.ASCII.GetBytes($"{speaker} {line:00}")).Bytes(WebSocketRole.Server, (uint)line));
            }

            int[] next = new int[Speakers];
            byte[] frame = new byte[6];
            foreach (Socket member in members)
            {
                Array.Clear(next);
                for (int i = 0; i < Speakers * Lines; i++)
                {
                    TakeAll(member, frame);
                    Assert.Equal((0x81, 4), (frame[0], frame[1]));
                    Assert.Equal($"{next[frame[2] - '0']++:00}", Encoding.ASCII.GetString(frame, 4, 2));
                }

                Assert.All(next, static n => Assert.Equal(Lines, n));
            }

            await room.CloseAllAsync(WebSocketStatus.ServiceRestart).AsTask()
                .WaitAsync(_patience, TestContext.Current.CancellationToken);
            byte[] close = new byte[4];
            foreach (Socket member in members)
            {
                TakeAll(member, close);
                Assert.Equal([0x88, 2, 0x03, 0xF4], close);
                member.Dispose();
            }

            Assert.True(SpinWait.SpinUntil(() => room.Count == 0 && site.Server.SessionCount == 0, _patience),
                $"{room.Count} are left");
        }
        finally
        {
            foreach (Socket member in members) member.Dispose();
        }
    }

    private static int Take(Socket member, Span<byte> into)
    {
        int count = member.Receive(into);
        Assert.NotEqual(0, count);
        return count;
    }

    private static void TakeAll(Socket member, Span<byte> into)
    {
        for (int have = 0; have < into.Length;) have += Take(member, into[have..]);
    }
}
