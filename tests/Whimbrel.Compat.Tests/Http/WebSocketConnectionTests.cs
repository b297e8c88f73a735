using System.Net.Sockets;
using System.Net.WebSockets;
using System.Text;
using Whimbrel.Compat.Tests.Connections;
using Whimbrel.Http;

namespace Whimbrel.Compat.Tests.Http;

// WebSockets through connections: our client, .NET's, and peers that write plain bytes. W1 to W9 are rows of the known
// defects of the old library.
public sealed class WebSocketConnectionTests
{
    internal const string Asking = "GET /raw HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: keep-alive, "
        + "Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

    [Fact]
    public void Messages_go_both_ways_and_a_close_ends_them()
    {
        using WsHost host = new();
        using Talking client = new(host.PortNumber);
        Assert.False(client.SendTextAsync("too early"));
        Assert.True(client.ConnectAsync());
        WebHost.Until(() => client.Told.Contains("connected yes"));
        Assert.True(client.SendTextAsync("né"));
        Assert.True(client.SendBinary([1, 2, 3]) > 3);
        Assert.True(client.SendBinaryAsync(new byte[100_000]));
        Assert.True(client.SendPingAsync(new byte[125]));
        WebHost.Until(() => client.Told.Contains("pong 125"));
        Assert.Contains("message né", client.Told);
        WebHost.Until(() => client.Told.Any(static t => t.EndsWith("... 100000", StringComparison.Ordinal)));
        byte[] nonce = client.WsNonce;
        Assert.True(client.CloseAsync(1000, "done"));
        Assert.False(client.SendTextAsync("too late"));
        WebHost.Until(() => client.Told.Contains("gone") && host.Told.Contains("disconnected"));
        Assert.Contains("close 1000 done", host.Told);
        Assert.Equal(["connected /chat", "request /chat", "message 3", "message 3", "message 100000", "close 1000 done",
            "disconnecting", "disconnected"], host.Told);

        Assert.NotEqual(nonce, client.WsNonce);
        client.Told.Clear();
        Assert.True(client.ConnectAsync());
        WebHost.Until(() => client.Told.Contains("connected yes"));
    }

    // Long frames are sent in two pieces, which is not observable. As in the original, frames pass no override of
    // SendAsync.
    [Theory]
    [InlineData(Scheduling.ThreadPool)]
    [InlineData(Scheduling.Inline)]
    public async Task Messages_of_all_sizes_are_echoed_and_an_own_SendAsync_sees_the_handshake_only(
        Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        using Echoing server = new();
        Assert.True(server.Start());
        int[] sizes = [0, 1, 125, 126, 4095, 4096, 20_000, 65_535, 65_536, 300_000];
        for (int own = 0; own < 2; own++)
        {
            using Socket socket = Cost.Connect(((System.Net.IPEndPoint)server.Endpoint).Port);
            socket.Send(Encoding.ASCII.GetBytes(Asking));
            WebHost.Read(socket, "\r\n\r\n");
            foreach (int size in sizes)
            {
                byte[] payload = new byte[size];
                new Random(size).NextBytes(payload);
                byte[] asked = new byte[WebSocketFrames.LengthOf(size, ofClient: true)];
                WebSocketFrames.Write(asked, WebSocketPart.Binary, payload, ofClient: true);
                byte[] expected = new byte[WebSocketFrames.LengthOf(size, ofClient: false)];
                WebSocketFrames.Write(expected, WebSocketPart.Binary, payload, ofClient: false);
                Task sending = Task.Run(() => socket.Send(asked), TestContext.Current.CancellationToken);
                byte[] got = new byte[expected.Length];
                Cost.Read(socket, got);
                Assert.True(got.AsSpan().SequenceEqual(expected), $"{size} bytes");
                await sending.WaitAsync(Log.Patience, TestContext.Current.CancellationToken);
            }

            // The response to its handshake.
            if (own == 1) Assert.Single(server.Seen);
        }
    }

    [Theory]
    [InlineData(Scheduling.ThreadPool)]
    [InlineData(Scheduling.Inline)]
    public void A_multicast_right_after_the_answer_to_the_handshake_is_not_missed_and_none_comes_before_it(
        Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        using Echoing server = new();
        Assert.True(server.Start());
        using CancellationTokenSource stop = new();
        Thread flood = new(() =>
        {
            while (!stop.IsCancellationRequested)
            {
                server.MulticastText("flood");
                Thread.Yield();
            }
        });
        flood.Start();
        try
        {
            for (int i = 0; i < 150; i++)
            {
                using Socket socket = Cost.Connect(((System.Net.IPEndPoint)server.Endpoint).Port);
                socket.Send(Encoding.ASCII.GetBytes(Asking));
                string answer = ReadUntil(socket, "\r\n\r\n");
                Assert.StartsWith("HTTP/1.1 101", answer, StringComparison.Ordinal);
                string mine = $"<{i}>";
                server.MulticastText(mine);
                if (!answer.Contains(mine, StringComparison.Ordinal)) ReadUntil(socket, mine);
            }
        }
        finally
        {
            stop.Cancel();
            flood.Join();
        }
    }

    // The loop stands from the first multicast on, so the second is collected. When the loop continues, it has
    // processed neither the join of the new session nor the answer to its handshake.
    [Fact]
    public async Task A_collected_multicast_follows_the_answer_to_the_handshake()
    {
        await using Engine engine = new(new EngineOptions { Loops = 1, BlockedLoopMs = 60_000 });
        await engine.StartAsync();
        using Setting setting = new(Scheduling.ThreadPool);
        CompatOptions.Engine = engine;
        try
        {
            using Echoing server = new();
            Assert.True(server.Start());
            int port = ((System.Net.IPEndPoint)server.Endpoint).Port;
            using Socket plain = Opened(port), first = Opened(port), second = Cost.Connect(port);
            using ManualResetEventSlim isAsked = new(), mayAnswer = new(), isOpen = new();
            object? asked = null;
            server.AtConnecting = session =>
            {
                asked = session;
                isAsked.Set();
                mayAnswer.Wait(Log.Patience);
            };
            server.AtConnected = session =>
            {
                // The callback of an earlier session may come after its answer.
                if (ReferenceEquals(session, asked)) isOpen.Set();
            };
            second.Send(Encoding.ASCII.GetBytes(Asking));
            Assert.True(isAsked.Wait(Log.Patience));
            using Standing standing = new(engine.GetLoop(0));
            server.MulticastText("<1>");
            mayAnswer.Set();
            Assert.True(isOpen.Wait(Log.Patience));
            server.MulticastText("<2>");
            standing.Dispose();
            Assert.StartsWith("HTTP/1.1 101", ReadUntil(second, "<2>"), StringComparison.Ordinal);
            foreach (Socket old in (Socket[])[plain, first])
                Assert.Contains("<1>", ReadUntil(old, "<2>"), StringComparison.Ordinal);
        }
        finally
        {
            CompatOptions.Engine = null;
        }
    }

    private static Socket Opened(int port)
    {
        Socket socket = Cost.Connect(port);
        socket.Send(Encoding.ASCII.GetBytes(Asking));
        ReadUntil(socket, "\r\n\r\n");
        return socket;
    }

    // Returns the received bytes as Latin-1 text, which may be longer than the expected text.
    private static string ReadUntil(Socket socket, string text)
    {
        socket.ReceiveTimeout = (int)Log.Patience.TotalMilliseconds;
        StringBuilder all = new();
        byte[] buffer = new byte[4096];
        while (!all.ToString().Contains(text, StringComparison.Ordinal))
        {
            int count = socket.Receive(buffer, SocketFlags.None, out SocketError error);
            Assert.True(error == SocketError.Success && count > 0, $"{error} after '{all}', before '{text}'");
            all.Append(Encoding.Latin1.GetString(buffer, 0, count));
        }

        return all.ToString();
    }

    private sealed class Echoing() : NetCoreServer.WsServer(System.Net.IPAddress.Loopback, 0)
    {
        private int _made;

        internal List<int> Seen { get; } = [];

        internal Action<Plain> AtConnecting { get; set; } = static _ => { };

        internal Action<Plain> AtConnected { get; set; } = static _ => { };

        protected override NetCoreServer.TcpSession CreateSession() =>
            Interlocked.Increment(ref _made) == 1 ? new Plain(this) : new Looking(this);

        internal class Plain(NetCoreServer.WsServer server) : NetCoreServer.WsSession(server)
        {
            public override bool OnWsConnecting(NetCoreServer.HttpRequest request, NetCoreServer.HttpResponse response)
            {
                ((Echoing)Server).AtConnecting(this);
                return true;
            }

            public override void OnWsConnected(NetCoreServer.HttpRequest request) =>
                ((Echoing)Server).AtConnected(this);

            public override void OnWsReceived(byte[] buffer, long offset, long size) =>
                SendBinaryAsync(buffer, offset, size);
        }

        private sealed class Looking(Echoing server) : Plain(server)
        {
            public override bool SendAsync(ReadOnlySpan<byte> buffer)
            {
                lock (server.Seen) server.Seen.Add(buffer.Length);
                return base.SendAsync(buffer);
            }
        }
    }

    // W4: frames in one segment with the handshake response were lost. Typical for a server that sends first.
    [Fact]
    public void W4_a_greeting_in_the_same_segment_as_the_answer_is_reported()
    {
        using WsHost host = new() { Greeting = "hello" };
        for (int i = 0; i < 20; i++)
        {
            using Talking client = new(host.PortNumber);
            client.ConnectAsync();
            WebHost.Until(() => client.Told.Contains("message hello"));
        }

        using Socket socket = ConnectPeer(host);
        socket.Send([.. Encoding.ASCII.GetBytes(Asking), 0x81, 0x81, 0, 0, 0, 0, (byte)'x']);
        Assert.EndsWith("\u0082\u0001x", WebHost.Read(socket, "\u0082\u0001x"), StringComparison.Ordinal);
    }

    // W8: a close was lost together with the queue, and a stop sent no close.
    [Fact]
    public void W8_the_close_arrives_after_earlier_messages_also_when_the_server_stops()
    {
        using WsHost host = new() { Greeting = "hello" };
        using Talking client = new(host.PortNumber);
        client.ConnectAsync();
        WebHost.Until(() => client.Told.Contains("message hello"));
        Assert.True(host.MulticastText("to all"));
        Assert.True(host.CloseAll(1012, "restart"));
        WebHost.Until(() => client.Told.Contains("gone"));
        Assert.Equal(["message to all", "close 1012 restart"], client.Told.Where(static t =>
            t.Contains("to all", StringComparison.Ordinal) || t.StartsWith("close", StringComparison.Ordinal)));

        using Talking other = new(host.PortNumber);
        other.ConnectAsync();
        WebHost.Until(() => other.Told.Contains("message hello"));
        host.Stop();
        WebHost.Until(() => other.Told.Contains("gone"));
        Assert.Contains("close 1001 ", other.Told);
    }

    // A multicast goes to open sessions. A session that has reported OnWsConnected gets its handshake response before
    // any multicast, and nothing is sent after a close.
    [Theory]
    [InlineData(Scheduling.Inline)]
    [InlineData(Scheduling.ThreadPool)]
    public void A_multicast_reaches_sessions_from_their_handshake_up_to_their_close(Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        using WsHost host = new() { Announces = true };
        using Socket plain = ConnectPeer(host);
        using Talking first = new(host.PortNumber), second = new(host.PortNumber);
        first.ConnectAsync();
        WebHost.Until(() => first.Told.Contains("message one more"));
        Assert.Equal(["connected yes", "message one more"], first.Told);
        second.ConnectAsync();
        WebHost.Until(() => second.Told.Contains("message one more")
            && first.Told.Count(static t => t == "message one more") == 2);
        Assert.Equal(2, host.OpenSockets.Count);

        using CancellationTokenSource done = new();
        Task flood = Task.Run(() =>
        {
            for (int sent = 0; !done.IsCancellationRequested;)
            {
                // Limits how far a client lags, so that it is not disconnected as a slow one.
                if (sent - first.Messages > 1000 || (second.IsConnected && sent - second.Messages > 1000))
                {
                    Thread.Yield();
                    continue;
                }

                host.MulticastText("flood");
                sent++;
            }
        });
        WebHost.Until(() => second.Told.Contains("message flood"));
        second.SendTextAsync("end"); // its session closes with 1001
        WebHost.Until(() => second.Told.Contains("gone"));
        done.Cancel();
        WebHost.Until(() => flood.IsCompletedSuccessfully);
        Assert.Equal("close 1001 bye", second.Told.Last(static t => !t.StartsWith("gone", StringComparison.Ordinal)
            && !t.StartsWith("disc", StringComparison.Ordinal)));
        Assert.DoesNotContain(second.Told, static t => t.StartsWith("wrong", StringComparison.Ordinal)
            || t.StartsWith("failure", StringComparison.Ordinal));
        WebHost.Until(() => host.OpenSockets.Count == 1);
        plain.Send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"u8);
        Assert.StartsWith("HTTP/1.1 200", WebHost.Read(plain, null), StringComparison.Ordinal); // no frame before it
    }

    [Fact]
    public async Task The_client_of_the_platform_is_served_with_fragments_and_its_close_is_answered()
    {
        using WsHost host = new();
        using ClientWebSocket client = new();
        using CancellationTokenSource deadline = new(WebHost.Deadline);
        await client.ConnectAsync(new Uri($"ws://127.0.0.1:{host.PortNumber}/net"), deadline.Token);
        await client.SendAsync("ab"u8.ToArray(), WebSocketMessageType.Text, endOfMessage: false, deadline.Token);
        await client.SendAsync("c"u8.ToArray(), WebSocketMessageType.Text, endOfMessage: true, deadline.Token);
        byte[] buffer = new byte[100];
        WebSocketReceiveResult result = await client.ReceiveAsync(buffer, deadline.Token);
        Assert.Equal(("abc", WebSocketMessageType.Binary),
            (Encoding.UTF8.GetString(buffer, 0, result.Count), result.MessageType));
        await client.SendAsync("end"u8.ToArray(), WebSocketMessageType.Text, endOfMessage: true, deadline.Token);
        result = await client.ReceiveAsync(buffer, deadline.Token);
        Assert.Equal((WebSocketCloseStatus.EndpointUnavailable, "bye"),
            (result.CloseStatus, result.CloseStatusDescription));
    }

    [Theory]
    [InlineData("81 01 78", 1002)] // W9: no mask
    [InlineData("C1 81 00 00 00 00 78", 1002)] // a reserved bit
    [InlineData("81 81 00 00 00 00 FF", 1007)] // no UTF-8
    [InlineData("82 FF 7F FF FF FF FF FF FF FF", 1009)] // W3: a length that no message can have
    public void W3_W9_a_peer_that_breaks_a_rule_gets_its_status_and_the_others_continue(string frame, int status)
    {
        using WsHost host = new();
        using Talking other = new(host.PortNumber);
        other.ConnectAsync();
        WebHost.Until(() => other.Told.Contains("connected yes"));
        using Socket socket = ConnectPeer(host);
        socket.Send(Encoding.ASCII.GetBytes(Asking));
        WebHost.Read(socket, "\r\n\r\n");
        socket.Send(Convert.FromHexString(frame.Replace(" ", "", StringComparison.Ordinal)));
        string end = WebHost.Read(socket, until: null);
        Assert.Equal($"\u0088\u0002{(char)(status >> 8)}{(char)(status & 0xFF)}", end);
        socket.Dispose();
        WebHost.Until(() => host.Told.Contains("disconnected"));
        Assert.Contains(host.Told, static t => t.StartsWith("wrong Invalid WebSocket frame", StringComparison.Ordinal));
        Assert.True(other.SendTextAsync("still here"));
        WebHost.Until(() => other.Told.Contains("message still here"));
    }

    [Fact]
    public void A_wrong_upgrade_gets_one_answer_and_an_ordinary_request_is_served_by_HTTP()
    {
        using WsHost host = new();
        using (Socket socket = ConnectPeer(host))
        {
            socket.Send(Encoding.ASCII.GetBytes(Asking.Replace(": 13", ": 8", StringComparison.Ordinal)
                + "GET /behind HTTP/1.1\r\nHost: h\r\n\r\n"));
            string answer = WebHost.Read(socket, until: null);
            Assert.StartsWith("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n", answer, StringComparison.Ordinal);
            Assert.EndsWith("Invalid WebSocket request: 'Sec-WebSocket-Version' is not 13.", answer,
                StringComparison.Ordinal);
        }

        using (Socket socket = ConnectPeer(host))
        {
            socket.Send("GET /plain HTTP/1.0\r\n\r\n"u8);
            Assert.StartsWith("HTTP/1.1 200 OK\r\n", WebHost.Read(socket, until: null), StringComparison.Ordinal);
        }

        Assert.Equal(["request /raw", "request /plain"], host.Told);
        using WsHost unwilling = new() { Accepts = false };
        using Talking client = new(unwilling.PortNumber);
        client.ConnectAsync();
        WebHost.Until(() => client.Told.Contains("gone"));
        Assert.Equal(["wrong The server did not upgrade: 200 OK.", "gone"], client.Told);
        Assert.Equal(["request /chat"], unwilling.Told);
    }

    private static Socket ConnectPeer(WsHost host)
    {
        Socket socket =
            new(SocketType.Stream, ProtocolType.Tcp) { ReceiveTimeout = (int)WebHost.Deadline.TotalMilliseconds };
        socket.Connect("127.0.0.1", host.PortNumber);
        return socket;
    }
}
