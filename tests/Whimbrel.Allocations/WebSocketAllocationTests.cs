using System.Net;
using System.Net.Sockets;
using System.Text;
using Whimbrel.Http;

namespace Whimbrel.Allocations;

// A message, a frame, and a read or write of a stream allocate nothing: plain and compressed, pushed and pulled, whole
// and in pieces, on the loop and on every pool thread.
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
        for (int count; (count = await stream.ReadAsync(part, CancellationToken.None)) > 0;)
            await stream.WriteAsync(part.AsMemory(0, count), CancellationToken.None);
    }

    private static async Task ViewEcho(WebSocketSession session, CancellationToken stop)
    {
        using System.Net.WebSockets.WebSocket socket = session.AsWebSocket();
        byte[] part = new byte[200_000];
        while (true)
        {
            System.Net.WebSockets.ValueWebSocketReceiveResult got = await socket.ReceiveAsync(part.AsMemory(),
                CancellationToken.None);
            if (got.MessageType == System.Net.WebSockets.WebSocketMessageType.Close) return;
            await socket.SendAsync(part.AsMemory(0, got.Count), System.Net.WebSockets.WebSocketMessageType.Binary,
                got.EndOfMessage, CancellationToken.None);
        }
    }

    // Each received part is sent as a piece of one message.
    private static async Task PiecesEcho(WebSocketSession socket, CancellationToken stop)
    {
        byte[] part = new byte[30_000];
        while (true)
        {
            WebSocketReceived got = await socket.ReceiveAsync(part, CancellationToken.None);
            if (got.IsEnd) return;
            await socket.SendPieceAsync(part.AsMemory(0, got.Count), got.IsText, got.IsLast, CancellationToken.None);
        }
    }

    private static async Task StreamedEcho(WebSocketSession socket, CancellationToken stop)
    {
        byte[] part = new byte[200_000];
        using MemoryStream message = new(part);
        while (true)
        {
            WebSocketReceived got = await socket.ReceiveAsync(part, CancellationToken.None);
            if (got.IsEnd) return;
            if (!got.IsLast) continue;
            message.Position = 0;
            message.SetLength(100_000);
            await socket.SendBinaryAsync(message, CancellationToken.None);
        }
    }

    // Messages that are delivered in pieces, and answered by one message of their size at their end.
    private sealed class Counting : WebSocketSession
    {
        private static readonly byte[] s_answer = new byte[100_000];

        private int _length;

        protected override void OnPiece(ReadOnlySpan<byte> piece, bool isText, bool isLast)
        {
            _length += piece.Length;
            if (!isLast) return;
            SendBinary(s_answer.AsSpan(0, _length));
            _length = 0;
        }
    }

    // A callback on the pool sends pieces concurrently with the reading: the begin and the end of a message are posts
    // to the session.
    private sealed class Telling : WebSocketSession, IThreadPoolWorkItem
    {
        private static readonly byte[] s_half = new byte[50_000];

        protected override void OnBinary(ReadOnlySpan<byte> data) =>
            ThreadPool.UnsafeQueueUserWorkItem(this, preferLocal: false);

        public void Execute()
        {
            // Blocks as a dedicated thread would. The client may receive the end of a message before the session
            // accepts the next.
            while (Piece(isLast: false) == SendResult.Refused) Thread.Yield();
            Piece(isLast: true);
        }

        private SendResult Piece(bool isLast)
        {
            ValueTask<SendResult> sending = SendPieceAsync(s_half, isText: false, isLast);
            while (!sending.IsCompleted) Thread.Yield();
            return sending.Result;
        }
    }

    [Theory]
    [MemberData(nameof(Engines))]
    public void Messages_and_reads_and_writes_of_streams_allocate_nothing(string engine)
    {
        foreach (Scheduling scheduling in (Scheduling[])[Scheduling.Inline, Scheduling.ThreadPool])
        {
            using Rig rig = new(engine, static () => new Echo());
            HttpServer server = new(new ServerOptions
            {
                Engine = rig.Engine,
                EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
                Scheduling = scheduling
            }, new HttpOptions());
            server.WebSocket("/told", static () => new Echo());
            server.WebSocket("/deflated", static () => new Echo(),
                new WebSocketOptions { Deflate = new WebSocketDeflate() });
            server.WebSocket("/context", static () => new Echo(),
                new WebSocketOptions { Deflate = new WebSocketDeflate { Forgets = false, PeerForgets = false } });
            server.WebSocket("/pulled", PulledEcho);
            server.WebSocket("/stream", StreamEcho);
            server.WebSocket("/view", ViewEcho);
            server.WebSocket("/pieces", PiecesEcho);
            server.WebSocket("/streamed", StreamedEcho);
            server.WebSocket("/telling", static () => new Telling());
            server.WebSocket("/counting", static () => new Counting(), new WebSocketOptions { InPieces = true });
            Rig.Wait(server.StartAsync().AsTask());
            try
            {
                foreach (string path in (string[])["/told", "/pulled", "/stream", "/view"])
                {
                    // a ping between messages
                    Measure(rig, server.EndPoint!, scheduling, path, [Frame(0x82, 30), Frame(0x89, 5)], 32 + 7);
                    Measure(rig, server.EndPoint!, scheduling, path + " that is cut", [Frame(0x82, 100_000)], 0);
                    Measure(rig, server.EndPoint!, scheduling, path + " in fragments",
                        [Frame(0x02, 20), Frame(0x80, 10)], 32);
                }

                byte[][] large = [Frame(0x02, 60_000), Frame(0x89, 5), Frame(0x00, 30_000), Frame(0x80, 10_000)];
                foreach (string path in (string[])["/pieces", "/streamed", "/counting", "/telling"])
                {
                    // Its own messages in pieces, or received messages in pieces; the response to the ping is counted
                    // with it.
                    Measure(rig, server.EndPoint!, scheduling, path + " in frames", large, 0);
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

    // 1,000 compressible bytes in the format of RFC 7692.
    private static byte[] Deflated()
    {
        MemoryStream packed = new();
        using (System.IO.Compression.DeflateStream stream = new(packed, System.IO.Compression.CompressionLevel.Fastest,
            leaveOpen: true))
        {
            stream.Write(Encoding.ASCII.GetBytes(string.Concat(Enumerable.Repeat("hello ", 170))));
            stream.Flush(); // a sync flush: its trailing 00 00 FF FF is omitted
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
        else frame.Write([0xFF, 0, 0, 0, 0, (byte)(length >> 24), (byte)(length >> 16), (byte)(length >> 8),
            (byte)length]);
        frame.Write([1, 2, 3, 4]);
        for (int i = 0; i < length; i++) frame.WriteByte((byte)(payload[i] ^ (1 + (i & 3))));
        return frame.ToArray();
    }

    private static void Measure(Rig rig, EndPoint server, Scheduling scheduling, string what, byte[][] frames,
        int answerBytes)
    {
        string path = what.Split(' ')[0];
        using Socket client = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp)
        {
            NoDelay = true,
            ReceiveTimeout = (int)LoopMeter.Patience.TotalMilliseconds
        };
        client.Connect(server);
        string extension = path is "/deflated"
            ? "Sec-WebSocket-Extensions: permessage-deflate; client_no_context_takeover\r\n"
            : path is "/context" ? "Sec-WebSocket-Extensions: permessage-deflate\r\n" : "";
        client.Send(Encoding.ASCII.GetBytes(
            $"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: "
            + $"13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{extension}\r\n"));
        byte[] buffer = new byte[300_000];
        int head = 0;
        while (!buffer.AsSpan(0, head).EndsWith("\r\n\r\n"u8))
            head += client.Receive(buffer, head, buffer.Length - head, SocketFlags.None);
        byte[] message = [.. frames.SelectMany(static f => f)];
        int want = answerBytes == 0 ? 100_000 : 0;
        // About twenty awaits, each on another thread; the runtime's reuse of their states depends on thread
        // scheduling. The test on the loop shows what they allocate themselves.
        bool isManySteps = scheduling == Scheduling.ThreadPool && want > 0;
        void Round()
        {
            client.Send(message);
            if (want > 0) ReadPayload(client, buffer, want);
            else if (answerBytes < 0) ReadFrame(client, buffer);
            else rig.Read(client, answerBytes);
        }

        rig.Meter.ExpectNoneAnywhere($"{what}, {scheduling}", Rounds, Round, fewerThan: isManySteps ? 8 : 1);
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

    // Number of payload bytes: zero for a pong.
    private static int ReadFrame(Socket client, byte[] buffer)
    {
        ReadExactly(client, buffer, 0, 2);
        bool isControl = (buffer[0] & 8) != 0;
        int length = buffer[1];
        if (length >= 126)
        {
            int digits = length == 126 ? 2 : 8;
            ReadExactly(client, buffer, 0, digits);
            length = 0;
            for (int i = 0; i < digits; i++) length = (length << 8) | buffer[i];
        }

        ReadExactly(client, buffer, 0, length);
        return isControl ? 0 : length;
    }

    private static void ReadPayload(Socket client, byte[] buffer, int count)
    {
        while (count > 0) count -= ReadFrame(client, buffer);
        Assert.Equal(0, count);
    }
}
