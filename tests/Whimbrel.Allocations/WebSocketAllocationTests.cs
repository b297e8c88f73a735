using System.Net;
using System.Net.Sockets;
using System.Text;
using Whimbrel.Http;

namespace Whimbrel.Allocations;

// A message, a frame, a read and a write of a stream allocate nothing: plain and compressed, told and pulled, on the loop and on the pool.
public sealed class WebSocketAllocationTests
{
    private const int Rounds = 300;

    public static TheoryData<string> Engines => Rig.Engines;

    private sealed class Echo : WebSocketSession
    {
        protected override void OnText(ReadOnlySpan<byte> utf8) => SendText(utf8);

        protected override void OnBinary(ReadOnlySpan<byte> data) => SendBinary(data);
    }

    private static async Task PulledEcho(WebSocketSession socket, CancellationToken stop)
    {
        byte[] part = new byte[200_000];
        while (true)
        {
            WebSocketReceived got = await socket.ReceiveAsync(part, CancellationToken.None);
            if (got.IsEnd) return;
            await socket.SendBinaryAsync(part.AsMemory(0, got.Count), CancellationToken.None);
        }
    }

    private static async Task StreamEcho(WebSocketSession socket, CancellationToken stop)
    {
        await using WebSocketStream stream = new(socket);
        byte[] part = new byte[10_000];
        for (int count; (count = await stream.ReadAsync(part, CancellationToken.None)) > 0;) await stream.WriteAsync(part.AsMemory(0, count), CancellationToken.None);
    }

    private static async Task ViewEcho(WebSocketSession session, CancellationToken stop)
    {
        using System.Net.WebSockets.WebSocket socket = session.AsWebSocket();
        byte[] part = new byte[200_000];
        while (true)
        {
            System.Net.WebSockets.ValueWebSocketReceiveResult got = await socket.ReceiveAsync(part.AsMemory(), CancellationToken.None);
            if (got.MessageType == System.Net.WebSockets.WebSocketMessageType.Close) return;
            await socket.SendAsync(part.AsMemory(0, got.Count), System.Net.WebSockets.WebSocketMessageType.Binary, got.EndOfMessage, CancellationToken.None);
        }
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void Messages_and_reads_and_writes_of_streams_allocate_nothing(string engine)
    {
        foreach (Scheduling scheduling in (Scheduling[])[Scheduling.Inline, Scheduling.ThreadPool])
        {
            using Rig rig = new(engine, static () => new Echo());
            HttpServer server = new(new ServerOptions { Engine = rig.Engine, EndPoint = new IPEndPoint(IPAddress.Loopback, 0), Scheduling = scheduling }, new HttpOptions());
            server.WebSocket("/told", static () => new Echo());
            server.WebSocket("/deflated", static () => new Echo(), new WebSocketOptions { Deflate = new WebSocketDeflate() });
            server.WebSocket("/context", static () => new Echo(), new WebSocketOptions { Deflate = new WebSocketDeflate { Forgets = false, PeerForgets = false } });
            server.WebSocket("/pulled", PulledEcho);
            server.WebSocket("/stream", StreamEcho);
            server.WebSocket("/view", ViewEcho);
            Rig.Wait(server.StartAsync().AsTask());
            try
            {
                foreach (string path in (string[])["/told", "/pulled", "/stream", "/view"])
                {
                    Measure(rig, server.EndPoint!, scheduling, path, [Frame(0x82, 30), Frame(0x89, 5)], 32 + 7); // a ping between messages
                    if (path != "/view") Measure(rig, server.EndPoint!, scheduling, path + " that is cut", [Frame(0x82, 100_000)], 0); // a view's would be sent in pieces
                    Measure(rig, server.EndPoint!, scheduling, path + " in fragments", [Frame(0x02, 20), Frame(0x80, 10)], 32);
                }

                byte[] packed = Frame(0xC2, Deflated());
                Measure(rig, server.EndPoint!, scheduling, "/deflated", [packed], -1);
                Measure(rig, server.EndPoint!, scheduling, "/context", [packed], -1);
            }
            finally
            {
                Rig.Wait(server.StopAsync(TimeSpan.Zero).AsTask());
            }
        }
    }

    // 1,000 bytes that can be compressed, as RFC 7692 has them.
    private static byte[] Deflated()
    {
        MemoryStream packed = new();
        using (System.IO.Compression.DeflateStream stream = new(packed, System.IO.Compression.CompressionLevel.Fastest, leaveOpen: true))
        {
            stream.Write(Encoding.ASCII.GetBytes(string.Concat(Enumerable.Repeat("hello ", 170))));
            stream.Flush(); // a sync flush: 00 00 FF FF at its end, which is left out
            return packed.ToArray()[..^4];
        }
    }

    private static byte[] Frame(byte first, int length) => Frame(first, new byte[length]);

    private static byte[] Frame(byte first, byte[] payload)
    {
        MemoryStream frame = new();
        frame.WriteByte(first);
        int length = payload.Length;
        if (length < 126) frame.WriteByte((byte)(0x80 | length));
        else if (length <= ushort.MaxValue) frame.Write([0xFE, (byte)(length >> 8), (byte)length]);
        else frame.Write([0xFF, 0, 0, 0, 0, (byte)(length >> 24), (byte)(length >> 16), (byte)(length >> 8), (byte)length]);
        frame.Write([1, 2, 3, 4]);
        for (int i = 0; i < length; i++) frame.WriteByte((byte)(payload[i] ^ (1 + (i & 3))));
        return frame.ToArray();
    }

    private static void Measure(Rig rig, EndPoint server, Scheduling scheduling, string what, byte[][] frames, int answerBytes)
    {
        string path = what.Split(' ')[0];
        using Socket client = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true, ReceiveTimeout = (int)LoopMeter.Patience.TotalMilliseconds };
        client.Connect(server);
        string extension = path is "/deflated" ? "Sec-WebSocket-Extensions: permessage-deflate; client_no_context_takeover\r\n" : path is "/context" ? "Sec-WebSocket-Extensions: permessage-deflate\r\n" : "";
        client.Send(Encoding.ASCII.GetBytes($"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{extension}\r\n"));
        byte[] buffer = new byte[300_000];
        int head = 0;
        while (!buffer.AsSpan(0, head).EndsWith("\r\n\r\n"u8)) head += client.Receive(buffer, head, buffer.Length - head, SocketFlags.None);
        byte[] message = [.. frames.SelectMany(static f => f)];
        int want = answerBytes == 0 ? 100_000 : 0;
        void Round()
        {
            client.Send(message);
            if (want > 0) ReadPayload(client, buffer, want);
            else if (answerBytes < 0) ReadFrame(client, buffer);
            else rig.Read(client, answerBytes);
        }

        rig.Meter.ExpectNone($"{what}, {scheduling}", Rounds, Round);
    }

    private static void ReadExactly(Socket client, byte[] buffer, int from, int count)
    {
        for (int have = 0; have < count;)
        {
            int part = client.Receive(buffer, from + have, count - have, SocketFlags.None);
            Assert.NotEqual(0, part);
            have += part;
        }
    }

    private static int ReadFrame(Socket client, byte[] buffer)
    {
        ReadExactly(client, buffer, 0, 2);
        int length = buffer[1];
        if (length >= 126)
        {
            int digits = length == 126 ? 2 : 8;
            ReadExactly(client, buffer, 0, digits);
            length = 0;
            for (int i = 0; i < digits; i++) length = (length << 8) | buffer[i];
        }

        ReadExactly(client, buffer, 0, length);
        return length;
    }

    private static void ReadPayload(Socket client, byte[] buffer, int count)
    {
        while (count > 0) count -= ReadFrame(client, buffer);
        Assert.Equal(0, count);
    }
}
