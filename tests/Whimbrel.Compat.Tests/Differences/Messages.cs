using System.Net;
using System.Net.Sockets;
using System.Text;
using NetCoreServer;
using Whimbrel.Compat.Tests.Connections;
using HttpClient = NetCoreServer.HttpClient;

namespace Whimbrel.Compat.Tests.Differences;

/// <summary>HTTP servers and clients, WebSocket servers and clients.</summary>
internal static class Messages
{
    internal static IEnumerable<Behaviour> All =>
    [
        new(
            "HTTP: callbacks of a POST",
            static () => Asked("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\ntext"),
            "header POST /a 4 4, request POST /a text => HTTP/1.1 200 OK|Content-Type: text/plain; "
            + "charset=UTF-8|Content-Length: 2||/a",
            "header POST /a 4 0, request POST /a text => HTTP/1.1 200 OK|Content-Type: text/plain; "
            + "charset=UTF-8|Content-Length: 2||/a",
            "`Body` in the header callbacks"),
        new(
            "HTTP: a request without Host, SendResponse twice",
            static () => Seen.Lines(
                static () => Asked("GET /a HTTP/1.1\r\n\r\n"),
                SendTwice),
            "header GET /a 0 0, request GET /a  => HTTP/1.1 200 OK|Content-Type: text/plain; "
            + "charset=UTF-8|Content-Length: 2||/a ~ True True"),
        new(
            "HTTP: a request that is none",
            static () => Asked("nonsense\r\n\r\n").Split('|')[0],
            "error => ",
            "error => HTTP/1.1 400 Bad Request",
            "HTTP requests"),
        new(
            "HTTP: two requests at once",
            static () => Asked(
            "GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n", requests: 2),
            "header GET /1 0 28, request GET /1  => HTTP/1.1 200 OK|Content-Type: text/plain; "
            + "charset=UTF-8|Content-Length: 2||/1 no more",
            "header GET /1 0 0, request GET /1 , header GET /2 0 0, request GET /2  => HTTP/1.1 200 "
            + "OK|Content-Type: text/plain; charset=UTF-8|Content-Length: 2||/1HTTP/1.1 200 OK|Content-Type: "
            + "text/plain; charset=UTF-8|Content-Length: 2||/2",
            "requests that arrive together"),
        new(
            "HTTP clients: calls before Connect, callbacks of a response, HttpClientEx",
            static () => Seen.Lines(
                ClientBefore,
                Answered,
                One),
            "0 False 0 True False ~ connected, header 200 5, response 200 /page True ~ 200 /page True"),
        new(
            "HttpClientEx: no server listens",
            NoServer,
            "does not return",
            "InvalidOperationException",
            "`HttpClientEx` after a failed connect"),
        new(
            "WebSocket: callbacks of a connection, an echo, a close",
            Story,
            "True True client: connected True, client: ws connecting, client: ws connected 101 True, "
            + "client: received text, client: ws disconnecting, client: disconnected False, client: ws disconnected"
            + " | session: connected, session: ws connecting /chat, session: ws connected True, "
            + "session: received text, session: close 1000 , session: ws disconnecting, session: disconnected"),
        new(
            "WebSocket: calls before Connect, of a server without sessions",
            static () => Seen.Lines(
                WsBefore,
                WsAlone),
            "0 False False 0 True True 0 0 16 False ~ False False False False False | True True True True True"),
        new(
            "WebSocket: Close twice",
            WsCloseTwice,
            "ends the process",
            "True True False",
            "`Close` of a WebSocket client that is closed"),
        new(
            "WebSocket: calls after Close",
            WsAfter,
            "0 False 0 False True"),
        new(
            "WebSocket: the 101, and frames",
            Frames,
            "HTTP/1.1 101 Switching Protocols|Connection: Upgrade|Upgrade: websocket|Sec-WebSocket-Accept: "
            + "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=|Content-Length: 0|| 4 130 65546 2 5 7 81026162 827E007E "
            + "827F0000000000010000 8900 8A0300 0078880503E977",
            "HTTP/1.1 101 Switching Protocols|Connection: Upgrade|Upgrade: websocket|Sec-WebSocket-Accept: "
            + "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=|| 4 130 65546 2 3 7 81026162 827E007E 827F0000000000010000 8900 8A0178 "
            + "880503E9776879",
            "WebSocket pings and pongs with data"),
        new(
            "WebSocket: an empty message",
            EmptyMessage,
            "True True client: received , client: received after"),
        new(
            "WebSocket: sends before the handshake is complete",
            SendEarly,
            "True 10 True True",
            "True 0 False True",
            "WebSocket sends before the handshake"),
        new(
            "WebSocket: a server that is no WebSocket server",
            NoWebSocket,
            "does not return",
            "client: connected True, client: ws connecting, client: ws error",
            "a WebSocket client of a server that does not upgrade"),
    ];

    private sealed class WebServer(Log log) : HttpServer(IPAddress.Loopback, 0)
    {
        internal int Chosen => ((IPEndPoint)Endpoint).Port;

        internal Action<HttpSession, HttpRequest> Answer { get; init; } =
            static (s, r) => s.SendResponseAsync(s.Response.MakeGetResponse(r.Url));

        protected override TcpSession CreateSession() => new WebSession(this, log);
    }

    private sealed class WebSession(WebServer server, Log log) : HttpSession(server)
    {
        protected override void OnReceivedRequestHeader(HttpRequest request) =>
            log.Add($"header {request.Method} {request.Url} {request.BodyLength} {request.Body.Length}");

        protected override void OnReceivedRequest(HttpRequest request)
        {
            log.Add($"request {request.Method} {request.Url} {request.Body}");
            server.Answer(this, request);
        }

        protected override void OnReceivedRequestError(HttpRequest request, string error) => log.Add("error");

        protected override void OnReceivedCachedRequest(HttpRequest request, byte[] content)
        {
            log.Add($"cached {request.Url} {content.Length > 0}");
            base.OnReceivedCachedRequest(request, content);
        }

        protected override void OnError(SocketError error) => log.Add($"error {error}");
    }

    private static string Asked(string text, int requests = 1)
    {
        Log log = new();
        using WebServer server = new(log);
        server.Start();
        using Socket peer = Cost.Connect(server.Chosen);
        peer.Send(Encoding.ASCII.GetBytes(text));
        string answer = "";
        byte[] buffer = new byte[4096];
        try
        {
            peer.ReceiveTimeout = 2000;
            while (Count() < requests && peer.Receive(buffer) is > 0 and int count)
                answer += Encoding.UTF8.GetString(buffer, 0, count);
        }
        catch (SocketException)
        {
            answer += " no more";
        }

        return $"{Seen.Of(log)} => {Lines(answer)}";

        int Count() => answer.Split("HTTP/1.1").Length - 1;
    }

    private static string Lines(string text) => text.ReplaceLineEndings("|");

    private static string SendTwice()
    {
        Log log = new();
        using WebServer server = new(new Log())
        {
            Answer = (s, _) => log.Add(Seen.All(
                () => s.SendResponse(s.Response.MakeOkResponse()) > 0,
                () => s.SendResponseAsync(s.Response.MakeOkResponse()))),
        };
        server.Start();
        using Socket peer = Cost.Connect(server.Chosen);
        peer.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n"u8);
        Log.Until(() => log.Lines.Length == 1, "the request");
        return Seen.Of(log);
    }

    private static string ClientBefore()
    {
        using HttpClient client = new(IPAddress.Loopback, 9);
        return Seen.All(
            () => client.SendRequest(new HttpRequest().MakeGetRequest("/")),
            () => client.SendRequestAsync(new HttpRequest().MakeGetRequest("/")),
            () => client.SendRequestBody("x"), () => client.Request.IsEmpty, () => client.IsConnected);
    }

    private sealed class WebClient(Log log, int port) : HttpClient(IPAddress.Loopback, port)
    {
        protected override void OnConnected()
        {
            log.Add("connected");
            SendRequestAsync(Request.MakeGetRequest("/page"));
        }

        protected override void OnReceivedResponseHeader(HttpResponse response) =>
            log.Add($"header {response.Status} {response.BodyLength}");

        protected override void OnReceivedResponse(HttpResponse response) =>
            log.Add($"response {response.Status} {response.Body}");

        protected override void OnReceivedResponseError(HttpResponse response, string error) => log.Add("error");

        protected override void OnDisconnected() => log.Add("disconnected");
    }

    private static string Answered()
    {
        using WebServer server = new(new Log());
        server.Start();
        Log log = new();
        using WebClient client = new(log, server.Chosen);
        client.ConnectAsync();
        Log.Until(() => log.Lines.Any(static l => l.StartsWith("response", StringComparison.Ordinal)), Seen.Of(log));
        return $"{Seen.Of(log)} {Seen.One(() => client.IsConnected)}";
    }

    private static string One()
    {
        using WebServer server = new(new Log());
        server.Start();
        using HttpClientEx client = new(IPAddress.Loopback, server.Chosen);
        HttpResponse response = client.SendGetRequest("/page").GetAwaiter().GetResult();
        return Seen.All(() => response.Status, () => response.Body, () => client.IsConnected);
    }

    private static string NoServer()
    {
        using TcpListener listener = new(IPAddress.Loopback, 0);
        listener.Start();
        int port = ((IPEndPoint)listener.LocalEndpoint).Port;
        listener.Stop();
        using HttpClientEx client = new(IPAddress.Loopback, port);
        return Seen.One(() => client.SendGetRequest("/", TimeSpan.FromSeconds(1)).GetAwaiter().GetResult().Status);
    }

    // ------------------------------------------------------------------ WebSocket

    private sealed class ChatServer(Log log) : WsServer(IPAddress.Loopback, 0)
    {
        internal int Chosen => ((IPEndPoint)Endpoint).Port;

        internal volatile WsSession? Session;

        protected override TcpSession CreateSession() => Session = new ChatSession(this, log);
    }

    private sealed class ChatSession(ChatServer server, Log log) : WsSession(server)
    {
        protected override void OnConnected() => log.Add("session: connected");

        public override bool OnWsConnecting(HttpRequest request, HttpResponse response)
        {
            log.Add($"session: ws connecting {request.Url}");
            return true;
        }

        public override void OnWsConnected(HttpRequest request) => log.Add($"session: ws connected {IsConnected}");

        public override void OnWsReceived(byte[] buffer, long offset, long size)
        {
            log.Add($"session: received {Encoding.UTF8.GetString(buffer, (int)offset, (int)size)}");
            SendTextAsync(buffer, offset, size);
        }

        public override void OnWsDisconnecting() => log.Add("session: ws disconnecting");

        public override void OnWsDisconnected() => log.Add("session: ws disconnected");

        public override void OnWsClose(byte[] buffer, long offset, long size, int status = 1000)
        {
            log.Add($"session: close {status} {Encoding.UTF8.GetString(buffer, (int)offset, (int)size)}");
            base.OnWsClose(buffer, offset, size, status);
        }

        protected override void OnDisconnected() => log.Add("session: disconnected");

        protected override void OnError(SocketError error) => log.Add($"session: error {error}");
    }

    private sealed class ChatClient(Log log, int port) : WsClient(IPAddress.Loopback, port)
    {
        public override void OnWsConnecting(HttpRequest request)
        {
            log.Add("client: ws connecting");
            request.SetBegin("GET", "/chat");
            request.SetHeader("Host", "localhost");
            request.SetHeader("Upgrade", "websocket");
            request.SetHeader("Connection", "Upgrade");
            request.SetHeader("Sec-WebSocket-Key", Convert.ToBase64String(WsNonce));
            request.SetHeader("Sec-WebSocket-Version", "13");
            request.SetBody();
        }

        protected override void OnConnected()
        {
            log.Add($"client: connected {IsConnected}");
            base.OnConnected();
        }

        public override void OnWsConnected(HttpResponse response) =>
            log.Add($"client: ws connected {response.Status} {IsConnected}");

        public override void OnWsReceived(byte[] buffer, long offset, long size) =>
            log.Add($"client: received {Encoding.UTF8.GetString(buffer, (int)offset, (int)size)}");

        public override void OnWsPong(byte[] buffer, long offset, long size) =>
            log.Add($"client: pong {Encoding.UTF8.GetString(buffer, (int)offset, (int)size)}");

        public override void OnWsClose(byte[] buffer, long offset, long size, int status = 1000)
        {
            log.Add($"client: close {status}");
            base.OnWsClose(buffer, offset, size, status);
        }

        public override void OnWsDisconnecting() => log.Add("client: ws disconnecting");

        public override void OnWsDisconnected() => log.Add("client: ws disconnected");

        protected override void OnDisconnected()
        {
            log.Add($"client: disconnected {IsConnected}");
            base.OnDisconnected();
        }

        protected override void OnError(SocketError error) => log.Add($"client: error {error}");

        public override void OnWsError(string error) => log.Add("client: ws error");
    }

    private sealed class Chat : IDisposable
    {
        internal Chat()
        {
            Server = new ChatServer(ServerLog);
            Server.Start();
            Client = new ChatClient(ClientLog, Server.Chosen);
            Client.ConnectAsync();
            ClientLog.Until("client: ws connected 101 True");
            ServerLog.Until("session: ws connected True");
        }

        internal Log ServerLog { get; } = new();

        internal Log ClientLog { get; } = new();

        internal ChatServer Server { get; }

        internal ChatClient Client { get; }

        public void Dispose()
        {
            Client.Dispose();
            Server.Dispose();
        }
    }

    private static string Story()
    {
        using Chat chat = new();
        string sent = Seen.One(() => chat.Client.SendTextAsync("text"));
        chat.ClientLog.Until("client: received text");
        string closed = Seen.One(() => chat.Client.CloseAsync(1000));
        chat.ClientLog.Until("client: ws disconnected");
        chat.ServerLog.Until("session: disconnected");
        // Either the server's close frame arrives first, or the end of the connection does; also in the original.
        string client = string.Join(", ", chat.ClientLog.Lines.Where(static l => l != "client: close 1000"));
        return $"{sent} {closed} {client} | {Seen.Of(chat.ServerLog)}";
    }

    private static string WsBefore()
    {
        using WsClient client = new(IPAddress.Loopback, 9);
        return Seen.All(
            () => client.SendText("x"), () => client.SendTextAsync("x"),
            () => client.SendBinaryAsync(Array.Empty<byte>()), () => client.SendPing(""),
            () => client.Close(), () => client.CloseAsync(1000), () => client.ReceiveText().Length,
            () => client.ReceiveBinary().Size,
            () => client.WsNonce.Length, () => client.Disconnect());
    }

    private static string WsCloseTwice()
    {
        using Chat chat = new();
        return Seen.All(() => chat.Client.Close(1000), () => chat.Client.Close(1000), () => chat.Client.IsConnected);
    }

    private static string WsAfter()
    {
        using Chat chat = new();
        chat.Client.Close(1000);
        chat.ServerLog.Until("session: disconnected");
        return Seen.All(
            () => chat.Client.SendText("x"), () => chat.Client.SendTextAsync("x"),
            () => chat.Server.Session!.SendText("x"),
            () => chat.Server.Session!.SendTextAsync("x"), () => chat.Server.Session!.Close());
    }

    private static string WsAlone()
    {
        using WsServer server = new(IPAddress.Loopback, 0);
        string before = Calls();
        server.Start();
        return $"{before} | {Calls()}";

        string Calls() => Seen.All(
            () => server.MulticastText("x"), () => server.MulticastBinary(Array.Empty<byte>()),
            () => server.MulticastPing(""), () => server.Multicast("x"),
            () => server.CloseAll(1000));
    }

    // On the wire, because the buffer of a frame cannot be seen.
    private static string Frames()
    {
        using ChatServer server = new(new Log());
        server.Start();
        using Socket peer = Cost.Connect(server.Chosen);
        const string Upgrade = "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        peer.Send(Encoding.ASCII.GetBytes(Upgrade));
        string answer = "";
        byte[] one = new byte[1];
        while (!answer.EndsWith("\r\n\r\n", StringComparison.Ordinal) && peer.Receive(one) == 1) answer += (char)one[0];
        WsSession session = server.Session!;
        string sizes = Seen.All(
            () => session.SendText("ab"), () => session.SendBinary(new byte[126]),
            () => session.SendBinary(new byte[65536]), () => session.SendPing(""),
            () => session.SendPong("x"), () => session.SendClose(1001, "why"));
        return $"{Lines(answer)} {sizes} {Hex(4)} {Hex(4 + 126)[..8]} {Hex(10 + 65536)[..20]} {Hex(2)} "
            + $"{Hex(3)} {Hex(7)}";

        string Hex(int size)
        {
            byte[] bytes = new byte[size];
            int got = 0;
            while (got < size && peer.Receive(bytes, got, size - got, SocketFlags.None) is > 0 and int count)
                got += count;
            return Convert.ToHexString(bytes);
        }
    }

    private static string EmptyMessage()
    {
        using Chat chat = new();
        string text = Seen.All(() => chat.Client.SendTextAsync(""), () => chat.Client.SendText("after") > 0);
        chat.ClientLog.Until("client: received after");
        var received = chat.ClientLog.Lines
            .Where(static l => l.StartsWith("client: received", StringComparison.Ordinal));
        return $"{text} {string.Join(", ", received)}";
    }

    private static string SendEarly()
    {
        // No answer comes: the handshake does not complete.
        using TcpServer server = new(IPAddress.Loopback, 0);
        server.Start();
        using ChatClient client = new(new Log(), ((IPEndPoint)server.Endpoint).Port);
        return Seen.All(() => client.Connect(), () => client.SendText("text"),
            () => client.SendTextAsync("text"), () => client.IsConnected);
    }

    private static string NoWebSocket()
    {
        using WebServer server = new(new Log());
        server.Start();
        Log log = new();
        using ChatClient client = new(log, server.Chosen);
        client.ConnectAsync();
        Log.Until(() => log.Lines.Any(static l => l.EndsWith("ws error", StringComparison.Ordinal)), Seen.Of(log));
        return string.Join(", ", log.Lines.Where(static l => !l.Contains("disconnect", StringComparison.Ordinal)));
    }
}
