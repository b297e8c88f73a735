using Whimbrel.Conformance;
using Whimbrel.Http.Tests.Serving;

namespace Whimbrel.Http.Tests.WebSockets;

// Limits of WebSockets that no option sets: at the number, and one past it.
public sealed class WsLimitTests
{
    [Theory]
    [InlineData(125, true)]
    [InlineData(126, false)]
    public void A_control_frame_has_up_to_125_bytes_in_both_directions(int length, bool isTaken)
    {
        using Web web = new();
        WsSession? session = null;
        web.Server.WebSocket("/ws", () => session = new WsSession());
        WsPeer peer = new(web);
        peer.Peer.OnLoop(() =>
        {
            byte[] payload = new byte[length];
            Array.Fill(payload, (byte)'y');
            foreach (Func<SendResult> send in (Func<SendResult>[])[
                () => session!.SendPing(payload), () => session!.SendPong(payload)])
            {
                if (isTaken) Assert.Equal(SendResult.Queued, send());
                else Assert.Throws<ArgumentOutOfRangeException>(() => send());
            }
        });
        string sent = new('y', length);
        Assert.Equal(isTaken ? [$"Ping {sent}", $"Pong {sent}"] : [], peer.Read());
        peer.Send($"89 {length}*x");
        string[] events = peer.Read();
        if (isTaken) Assert.Equal([$"Pong {new string('x', length)}"], events);
        else Assert.StartsWith("Close \x03\xEA", Assert.Single(events), StringComparison.Ordinal);
        Assert.Equal(isTaken, peer.Peer.IsConnected && !peer.Peer.IsSessionFinished);
    }

    [Theory]
    [InlineData(64 * 1024, 1)]
    [InlineData(64 * 1024 + 1, 2)]
    public async Task A_write_with_compression_is_messages_of_up_to_64_KiB(int length, int count)
    {
        await using WsSite site = new(EngineKind.Portable);
        await site.ServeAsync(async (socket, stop) =>
        {
            await using WebSocketStream stream = new(socket);
            await stream.WriteAsync(new byte[length], stop);
            await stream.WriteAsync(new byte[1], stop);
        }, new WebSocketOptions { Deflate = new WebSocketDeflate() });
        using CancellationTokenSource limit = new(WsSite.Patience);
        WebSocketSession client = await site.ConnectAsync(new WebSocketOptions { Deflate = new WebSocketDeflate() },
            limit.Token);
        List<int> lengths = [];
        while (await client.ReceiveMessageAsync(limit.Token) is { } message) lengths.Add(message.Data.Length);
        Assert.Equal((count + 1, length + 1, 1), (lengths.Count, lengths.Sum(), lengths[^1]));
        Assert.InRange(lengths.Max(), 1, 64 * 1024);
    }

    private sealed class Counted(byte[] data) : MemoryStream(data)
    {
        internal int Most { get; private set; }

        public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default)
        {
            Most = Math.Max(Most, buffer.Length);
            return base.ReadAsync(buffer, cancellationToken);
        }
    }

    [Fact]
    public async Task A_stream_is_read_16_KiB_at_a_time_and_only_while_there_is_room_for_it()
    {
        using Web web = new();
        WsSession? session = null;
        web.Server.WebSocket("/ws", () => session = new WsSession());
        WsPeer peer = new(web) { Peer = { IsReading = false } };
        Counted source = new(new byte[8 * 1024 * 1024]);
        Task<SendResult> sending = session!.SendBinaryAsync(source).AsTask();
        web.Network.Run();
        Assert.False(sending.IsCompleted);
        Assert.Equal(16 * 1024, source.Most);
        Assert.InRange(source.Position, 16 * 1024, 2 * 1024 * 1024);
        peer.Peer.IsReading = true;
        web.Network.Run();
        Assert.True(sending.IsCompletedSuccessfully);
        Assert.Equal(SendResult.Queued, await sending);
        Assert.Equal(source.Length, source.Position);
    }
}
