using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;
using System.Text;
using NetCoreServer;
using HttpClient = NetCoreServer.HttpClient;
using HttpRequest = NetCoreServer.HttpRequest;
using HttpResponse = NetCoreServer.HttpResponse;

namespace Whimbrel.Compat.Tests.Http;

// Calls of programs written for the original, and results they rely on. Expected values are those of the original,
// unless a comment says otherwise.
public sealed class OldCallsTests
{
    private const string Upgrade = WebSocketConnectionTests.Asking;

    [Fact]
    public void A_request_of_an_original_client_has_no_Host_and_is_served_unless_RequireHost_is_set()
    {
        using WebHost host = new();
        string request = new HttpRequest().MakeGetRequest("/x").Cache.ToString();
        Assert.Equal("GET /x HTTP/1.1\r\nContent-Length: 0\r\n\r\n", request);
        using Socket socket = host.ConnectPeer();
        for (int i = 0; i < 2; i++)
        {
            socket.Send(Encoding.ASCII.GetBytes(request));
            Assert.StartsWith("HTTP/1.1 200 OK\r\n", WebHost.Read(socket, "GET /x "), StringComparison.Ordinal);
        }

        CompatOptions.RequireHost = true;
        try
        {
            string answer = host.Ask(request);
            Assert.StartsWith("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n", answer, StringComparison.Ordinal);
            Assert.EndsWith("Host is missing", answer.TrimEnd('.'), StringComparison.Ordinal);
            Assert.EndsWith("GET /y ", host.Ask("GET /y HTTP/1.1\r\nHost: h\r\n\r\n", "GET /y "),
                StringComparison.Ordinal);
        }
        finally
        {
            CompatOptions.RequireHost = false;
        }
    }

    [Fact]
    public void The_header_callbacks_of_both_sides_know_the_length_of_the_body()
    {
        using LengthServer server = new();
        using LengthClient client = new(server.PortNumber);
        Assert.True(client.ConnectAsync());
        WebHost.Until(() => client.IsConnected);
        Assert.True(client.SendRequestAsync(client.Request.SetBegin("PUT", "/x").SetHeader("Host", "h")
            .SetBodyLength(6)));
        WebHost.Until(() => server.Told.Contains("header 6 "));
        Assert.True(client.SendRequestBodyAsync("abc"));
        Assert.True(client.SendRequestBodyAsync("def"));
        WebHost.Until(() => client.Told.Contains("whole 4 done"));
        Assert.Equal(["header 6 ", "whole 6 abcdef"], server.Told);
        Assert.Equal(["header 4 ", "whole 4 done"], client.Told);

        // A length that only the end of the body determines is 0 until then.
        using Socket socket = server.ConnectPeer();
        socket.Send("PUT /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"u8);
        WebHost.Read(socket, "done");
        Assert.Equal(["header 0 ", "whole 2 hi"], server.Told.Skip(2));
    }

    [Fact]
    public void OnReceivedRequest_comes_for_an_upgrade_too_after_OnWsConnected_and_no_response_is_sent_to_it()
    {
        using UpgradeServer server = new();
        using Socket socket = server.ConnectPeer();
        // A frame follows the request immediately: an empty text, masked.
        socket.Send([.. Encoding.ASCII.GetBytes(Upgrade), 0x81, 0x80, 0, 0, 0, 0]);
        string answer = WebHost.Read(socket, "\u0081\u0002ok");
        WebHost.Until(() => server.Told.Count == 4);
        Assert.Equal(["connecting /raw", "connected /raw", "request /raw", "message 0"], server.Told);
        // The original also sends the response when the peer already reads frames.
        Assert.StartsWith("HTTP/1.1 101 ", answer, StringComparison.Ordinal);
        Assert.DoesNotContain("HTTP/1.1 200", answer, StringComparison.Ordinal);
        Assert.Equal((false, 0L), server.Sent);
    }

    [Theory]
    // the original sends no response
    [InlineData(Refusal.Silent, "HTTP/1.1 403 Forbidden\r\n", "The server has refused this WebSocket.")]
    [InlineData(Refusal.Composed, "HTTP/1.1 401 Unauthorized\r\n", "who are you")] // the same
    // the same
    [InlineData(Refusal.ComposedHead, "HTTP/1.1 429 Too Many Requests\r\n", "\r\nContent-Length: 0\r\n\r\n")]
    [InlineData(Refusal.SentThere, "HTTP/1.1 402 Payment Required\r\n", "pay")]
    [InlineData(Refusal.SentInRequest, "HTTP/1.1 404 Not Found\r\n", "no socket here")]
    public void An_upgrade_that_OnWsConnecting_refuses_is_answered_once(Refusal refusal, string start, string end)
    {
        using UpgradeServer server = new() { Refusal = refusal };
        using Socket socket = server.ConnectPeer();
        socket.Send(Encoding.ASCII.GetBytes(Upgrade));
        bool staysOpen = refusal is Refusal.SentThere or Refusal.SentInRequest;
        string answer = WebHost.Read(socket, staysOpen ? end : null);
        Assert.StartsWith(start, answer, StringComparison.Ordinal);
        Assert.EndsWith(end, answer, StringComparison.Ordinal);
        Assert.Equal(!staysOpen, answer.Contains("Connection: close\r\n", StringComparison.Ordinal));
        if (staysOpen)
        {
            socket.Send("GET /next HTTP/1.0\r\n\r\n"u8);
            Assert.StartsWith("HTTP/1.1 200 OK\r\n", WebHost.Read(socket, null), StringComparison.Ordinal);
        }

        Assert.Equal(["connecting /raw", "request /raw"], server.Told.Take(2));
        Assert.DoesNotContain(server.Told, static t => t.StartsWith("connected", StringComparison.Ordinal));
    }

    [Fact]
    public void A_request_for_an_upgrade_with_a_mistake_gets_400_and_OnReceivedRequest_comes_for_it()
    {
        using UpgradeServer server = new();
        using Socket socket = server.ConnectPeer();
        socket.Send(Encoding.ASCII.GetBytes(Upgrade.Replace("Version: 13", "Version: 7", StringComparison.Ordinal)));
        string answer = WebHost.Read(socket, null);
        Assert.StartsWith("HTTP/1.1 400 Bad Request\r\n", answer, StringComparison.Ordinal);
        Assert.DoesNotContain("HTTP/1.1 200", answer, StringComparison.Ordinal);
        Assert.Equal(["request /raw"], server.Told);
    }

    // Bytes that the original produces. The letter before each says whether they are the original's or ours; ours are
    // used where no reader could read the original's.
    [Fact]
    public void Builders_accept_what_those_of_the_original_accept_and_make_its_bytes()
    {
        HttpRequest q = new();
        Is("GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", q.SetBegin("GET", "/").SetBody((string)null!));
        Is("POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", q.MakePostRequest("/", (byte[])null!));
        Is("POST / HTTP/1.1\r\nContent-Type: text/plain; charset=UTF-8\r\nContent-Length: 0\r\n\r\n",
            q.MakePostRequest("/", (string)null!));
        Is("POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\nx", q.MakePostRequest("/", "x", null!));
        Is("GET / HTTP/1.1\r\nContent-Length: 5\r\nA: \u0001\u007f\t\r\n",
            q.SetBegin("GET", "/").SetHeader("Content-Length", "5").SetHeader("A", "\u0001\u007f\t"));
        Is("GET / HTTP/1.1\r\nCookie: a b=1 2,\"3\"\r\nCookie: =x\r\n",
            q.SetBegin("GET", "/").SetCookie("a b", "1 2,\"3\"").SetCookie("", "x"));
        Is("GET / X Y\r\n", q.SetBegin("GET", "/", "X Y"));
        HttpResponse a = new();
        Is("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", a.MakeGetResponse((byte[])null!));
        Is("HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain; charset=UTF-8\r\nContent-Length: 0\r\n\r\n",
            a.MakeErrorResponse((string)null!));
        Is("HTTP/1.1 200 OK\r\nContent-Type: message/http\r\nContent-Length: 0\r\n\r\n",
            a.MakeTraceResponse((string)null!));
        Is("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n",
            a.SetBegin(200).SetHeader("Transfer-Encoding", "chunked"));
        foreach ((int status, string phrase) in ((int, string)[])[(306, "Switch Proxy"), (413, "Payload Too Large"),
            (414, "URI Too Long"), (416, "Range Not Satisfiable"), (425, "Too Early"), (427, "Unassigned"),
            (505, "HTTP Version Not Supported"), (600, "Unknown"), (999, "Unknown")])
        {
            Is($"HTTP/1.1 {status} {phrase}\r\n", a.SetBegin(status));
        }

        a.SetBegin(200).SetHeader("Content-Length", "2").Cache.Append("\r\nhi");
        Is("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", a);

        // Accepted as in the original; the bytes are ours.
        Is("GET / HTTP/1.1\r\n", q.SetBegin("GET", ""));
        Is("GET /a%20b?k=%C3%A9%0D%0A HTTP/1.1\r\n", q.SetBegin("GET", "/a b?k=é\r\n"));
        Is("GET / HTTP/1.1\r\nCookie: a%3Db=1%3Bx\r\n", q.SetBegin("GET", "/").SetCookie("a=b", "1;x"));
        Is("HTTP/1.1 204 No Content\r\n\r\n", a.SetBegin(204).SetBody("none"));
        Is("HTTP/1.1 304 Not Modified\r\nETag: 1\r\n\r\n",
            a.SetBegin(304).SetHeader("Content-Length", "9").SetHeader("ETag", "1").SetBody());
        Is("GET / HTTP/1.1\r\nA: 1\r\nB: 2\r\nContent-Length: 2\r\n\r\nhi",
            q.SetBegin("GET", "/").SetHeader("content-length", "7").SetHeader("A", "1")
                .SetHeader("Transfer-Encoding", "chunked").SetHeader("B", "2").SetBody("hi"));
        Assert.Equal((3L, ("A", "1"), ("B", "2"), ("Content-Length", "2"), "hi"),
            (q.Headers, q.Header(0), q.Header(1), q.Header(2), q.Body));

        static void Is(string expected, object message) => Assert.Equal(expected,
            (message is HttpRequest request ? request.Cache : ((HttpResponse)message).Cache).ToString());
    }

    public enum Refusal
    {
        None,
        Silent,
        Composed,
        ComposedHead,
        SentThere,
        SentInRequest,
    }

    private sealed class LengthServer : HttpServer
    {
        internal LengthServer()
            : base(IPAddress.Loopback, 0) => Assert.True(Start());

        internal ConcurrentQueue<string> Told { get; } = new();

        internal int PortNumber => ((IPEndPoint)Endpoint).Port;

        internal Socket ConnectPeer() => OldCallsTests.ConnectPeer(PortNumber);

        protected override TcpSession CreateSession() => new LengthSession(this);

        private sealed class LengthSession(LengthServer server) : HttpSession(server)
        {
            protected override void OnReceivedRequestHeader(HttpRequest request) =>
                server.Told.Enqueue($"header {request.BodyLength} {request.Body}");

            protected override void OnReceivedRequest(HttpRequest request)
            {
                server.Told.Enqueue($"whole {request.BodyLength} {request.Body}");
                SendResponseAsync(Response.Clear().SetBegin(200).SetBodyLength(4));
                SendResponseBodyAsync("do");
                SendResponseBodyAsync("ne");
            }
        }
    }

    private sealed class LengthClient(int port) : HttpClient(IPAddress.Loopback, port)
    {
        internal ConcurrentQueue<string> Told { get; } = new();

        protected override void OnReceivedResponseHeader(HttpResponse response) =>
            Told.Enqueue($"header {response.BodyLength} {(response.Body.Length == 0 ? "" : "?")}");

        protected override void OnReceivedResponse(HttpResponse response) =>
            Told.Enqueue($"whole {response.BodyLength} {response.Body}");
    }

    private sealed class UpgradeServer : WsServer
    {
        internal UpgradeServer()
            : base(IPAddress.Loopback, 0) => Assert.True(Start());

        internal ConcurrentQueue<string> Told { get; } = new();

        internal Refusal Refusal { get; init; }

        internal (bool, long) Sent { get; private set; } = (true, 1);

        internal Socket ConnectPeer() => OldCallsTests.ConnectPeer(((IPEndPoint)Endpoint).Port);

        protected override TcpSession CreateSession() => new UpgradeSession(this);

        private sealed class UpgradeSession(UpgradeServer server) : WsSession(server)
        {
            public override bool OnWsConnecting(HttpRequest request, HttpResponse response)
            {
                server.Told.Enqueue($"connecting {request.Url}");
                if (server.Refusal == Refusal.Composed) response.MakeErrorResponse(401, "who are you");
                if (server.Refusal == Refusal.ComposedHead) response.SetBegin(429).SetHeader("Retry-After", "9");
                if (server.Refusal == Refusal.SentThere) SendResponseAsync(response.MakeErrorResponse(402, "pay"));
                return server.Refusal == Refusal.None;
            }

            public override void OnWsConnected(HttpRequest request) => server.Told.Enqueue($"connected {request.Url}");

            public override void OnWsReceived(byte[] buffer, long offset, long size)
            {
                server.Told.Enqueue($"message {size}");
                SendTextAsync("ok");
            }

            protected override void OnReceivedRequest(HttpRequest request)
            {
                server.Told.Enqueue($"request {request.Url}");
                bool answers = request.Url != "/raw" || server.Refusal is Refusal.None or Refusal.SentInRequest;
                if (answers && server.Refusal == Refusal.SentInRequest && request.Url == "/raw")
                    SendResponseAsync(Response.MakeErrorResponse(404, "no socket here"));
                else if (answers) server.Sent = (SendResponseAsync(Response.MakeOkResponse()), SendResponse(Response));
                base.OnReceivedRequest(request);
            }
        }
    }

    private static Socket ConnectPeer(int port)
    {
        Socket socket =
            new(SocketType.Stream, ProtocolType.Tcp) { ReceiveTimeout = (int)WebHost.Deadline.TotalMilliseconds };
        socket.Connect(IPAddress.Loopback, port);
        return socket;
    }
}
