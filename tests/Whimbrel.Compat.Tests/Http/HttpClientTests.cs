using System.Collections.Concurrent;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;
using NetCoreServer;
using HttpClient = NetCoreServer.HttpClient;
using HttpResponse = NetCoreServer.HttpResponse;

namespace Whimbrel.Compat.Tests.Http;

// The client with a server of the old API, and with one that sends arbitrary bytes.
public sealed class HttpClientTests
{
    [Fact]
    public async Task Requests_are_awaited_one_at_a_time_and_the_client_connects_itself()
    {
        using WebHost host = new();
        using HttpClientEx client = new(IPAddress.Loopback, host.PortNumber);
        Assert.Equal("GET /g ", (await client.SendGetRequest("/g")).Body);
        Assert.Equal("POST /p né", (await client.SendPostRequest("/p", "né")).Body);
        Assert.Equal("PUT /p x", (await client.SendPutRequest("/p", "x")).Body);
        Assert.Equal("DELETE /d ", (await client.SendDeleteRequest("/d")).Body);
        Assert.Equal("OPTIONS * ", (await client.SendOptionsRequest("*")).Body);
        Assert.Equal("TRACE /t ", (await client.SendTraceRequest("/t")).Body);
        client.Request.SetBegin("GET", "/own").SetHeader("Connection", "close").SetBody();
        Assert.Equal("GET /own ", (await client.SendRequest()).Body);
        // The connection has ended: the next request uses another one.
        Assert.Equal("GET /again ", (await client.SendGetRequest("/again", TimeSpan.FromSeconds(50))).Body);
        host.Answer = static (session, _) => session.SendResponseAsync(session.Response.MakeHeadResponse());
        HttpResponse head = await client.SendHeadRequest("/h");
        Assert.Equal((200, "", true), (head.Status, head.Body, client.IsConnected));

        host.Answer = static (_, _) => { };
        Task<HttpResponse> slow = client.SendGetRequest("/slow", TimeSpan.FromMilliseconds(50));
        await Assert.ThrowsAsync<InvalidOperationException>(() => client.SendGetRequest("/second"));
        Assert.Equal("Timeout!", (await Assert.ThrowsAsync<TimeoutException>(() => slow)).Message);
    }

    // The end of a connection is reported concurrently with the next request, and must not end that request, which
    // opens another connection.
    [Fact]
    public async Task An_immediate_next_request_uses_another_connection()
    {
        using WebHost host = new();
        using HttpClientEx client = new(IPAddress.Loopback, host.PortNumber);
        for (int i = 0; i < 200; i++)
        {
            client.Request.SetBegin("GET", "/last").SetHeader("Connection", "close").SetBody();
            Assert.Equal("GET /last ", (await client.SendRequest()).Body);
            Assert.Equal("GET /again ", (await client.SendGetRequest("/again")).Body);
        }
    }

    [Fact]
    public async Task An_immediate_next_request_after_a_timeout_uses_another_connection()
    {
        using WebHost host = new();
        Action<WebHost.Serving, HttpRequest> usual = host.Answer;
        using HttpClientEx client = new(IPAddress.Loopback, host.PortNumber);
        for (int i = 0; i < 50; i++)
        {
            host.Answer = static (_, _) => { };
            await Assert.ThrowsAsync<TimeoutException>(
                () => client.SendGetRequest("/slow", TimeSpan.FromMilliseconds(5)));
            host.Answer = usual;
            Assert.Equal("GET /again ", (await client.SendGetRequest("/again")).Body);
        }
    }

    [Fact] // slow growth: the time limit of a request lasts a minute, and ends with its answer
    public async Task The_timer_of_a_request_ends_with_it()
    {
        using WebHost host = new();
        using HttpClientEx client = new(IPAddress.Loopback, host.PortNumber);
        await client.SendGetRequest("/first");
        long before = Timer.ActiveCount;
        for (int i = 0; i < 100; i++) Assert.Equal("GET /g ", (await client.SendGetRequest("/g")).Body);
        Assert.InRange(Timer.ActiveCount - before, long.MinValue, 20);
    }

    // H8: a pending request never completed.
    [Fact]
    public async Task H8_a_refused_connection_and_one_that_ends_in_the_middle_end_the_wait()
    {
        using Script script = new();
        using (HttpClientEx client = new(IPAddress.Loopback, script.Port))
        {
            script.Play("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", thenClose: true);
            Assert.Contains("not finished",
                (await Assert.ThrowsAsync<InvalidOperationException>(() => client.SendGetRequest("/"))).Message,
                StringComparison.Ordinal);
            script.Play("", thenClose: true);
            await Assert.ThrowsAsync<InvalidOperationException>(() => client.SendGetRequest("/"));
            script.Play("HTTP/1.1 20\r\n\r\n", thenClose: false);
            Assert.Contains("status line",
                (await Assert.ThrowsAsync<InvalidOperationException>(() => client.SendGetRequest("/"))).Message,
                StringComparison.Ordinal);
            script.Play("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall", thenClose: true);
            Assert.Equal("all", (await client.SendGetRequest("/")).Body);
        }

        int port = script.Port;
        script.Dispose();
        using HttpClientEx refused = new(IPAddress.Loopback, port);
        await Assert.ThrowsAsync<InvalidOperationException>(() => refused.SendGetRequest("/"));
    }

    // Each kind of failure after each other kind, on one client.
    [Fact]
    public async Task H8_each_failed_request_has_its_own_reason_and_not_that_of_the_one_before()
    {
        using WebHost host = new();
        host.Answer = static (session, request) =>
        {
            if (request.Url == "/broken") session.SendAsync("HTTP/1.1 20\r\n\r\n");
            if (request.Url == "/cut") session.SendAsync("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na");
            if (request.Url is "/cut" or "/closed") session.Disconnect();
        };
        using HttpClientEx client = new(IPAddress.Loopback, host.PortNumber);
        (string Url, string Reason)[] kinds = [("/timeout", "Timeout!"), ("/broken", "status line"),
            ("/cut", "not finished"), ("/closed", "the peer"), ("/disconnected", "this side has ended the connection")];
        foreach ((string before, string reasonBefore) in kinds)
        {
            foreach ((string url, string reason) in kinds)
            {
                await FailAsync(before, reasonBefore, "none");
                await FailAsync(url, reason, before);
            }
        }

        async Task FailAsync(string url, string reason, string before)
        {
            int asked = host.Told.Count;
            Task<HttpResponse> request = client.SendGetRequest(url,
                url == "/timeout" ? TimeSpan.FromMilliseconds(20) : WebHost.Deadline);
            if (url == "/disconnected")
            {
                WebHost.Until(() => host.Told.Skip(asked).Any(t => t.StartsWith($"request GET {url}",
                    StringComparison.Ordinal)));
                Assert.True(client.Disconnect());
            }

            Exception thrown = await Assert.ThrowsAnyAsync<Exception>(() => request);
            Assert.True(thrown.Message.Contains(reason, StringComparison.Ordinal)
                && thrown is TimeoutException == (url == "/timeout"), $"{url} after {before}: {thrown}");
        }
    }

    [Fact] // the second time: each request may be sent again once
    public async Task A_request_that_its_connection_refuses_is_sent_on_another_one_once()
    {
        using WebHost host = new();
        using Refusing client = new(host.PortNumber);
        for (int i = 0; i < 3; i++)
        {
            client.Refusals = 0;
            Assert.Equal("GET /first ", (await client.SendGetRequest("/first")).Body);
            client.Refusals = 1;
            Assert.Equal("GET /again ", (await client.SendGetRequest("/again")).Body);
            client.Refusals = 2;
            Assert.Equal("Failed to send HTTP request!", (await Assert.ThrowsAsync<InvalidOperationException>(
                () => client.SendGetRequest("/refused"))).Message);
        }
    }

    private sealed class Refusing(int port) : HttpClientEx(IPAddress.Loopback, port)
    {
        public int Refusals { get; set; }

        public override bool SendAsync(byte[] buffer, long offset, long size) =>
            Refusals-- <= 0 && base.SendAsync(buffer, offset, size);
    }

    // H3: responses without a body, and chunked ones, hung or were truncated.
    [Fact]
    public void H3_answers_of_every_framing_come_in_order()
    {
        using Script script = new();
        using Asking client = new(script.Port);
        script.Play("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 304 Not "
            + "Modified\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"
            + "HTTP/1.1 777\r\nContent-Length: 0\r\n\r\n"
            + "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\nHTTP/1.1 200 "
            + "OK\r\n\r\nto the end", thenClose: true, requests: 6);
        Assert.True(client.ConnectAsync());
        WebHost.Until(() => client.IsConnected);
        foreach (string method in (string[])["PUT", "GET", "HEAD", "GET", "GET", "GET"])
            Assert.True(client.SendRequestAsync(client.Request.SetBegin(method, "/").SetBody()));
        WebHost.Until(() => client.Told.Contains("gone"));
        Assert.Equal(["204 ", "304 ", "200 ", "777 ", "200 abc", "200 to the end", "gone"], client.Told);
        Assert.Contains(string.Create(CultureInfo.InvariantCulture,
            $"PUT / HTTP/1.1\r\nHost: 127.0.0.1:{script.Port}\r\n"), script.Heard, StringComparison.Ordinal);
    }

    [Fact]
    public void An_unsolicited_answer_ends_the_connection()
    {
        using Script script = new();
        using Asking client = new(script.Port);
        script.Play("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            thenClose: false);
        client.ConnectAsync();
        WebHost.Until(() => client.IsConnected);
        client.SendRequestAsync(client.Request.MakeGetRequest("/"));
        WebHost.Until(() => client.Told.Contains("gone"));
        Assert.Equal(["200 ", "error Bytes were received that belong to no response.", "gone"], client.Told);
    }

    private sealed class Asking(int port) : HttpClient(IPAddress.Loopback, port)
    {
        internal ConcurrentQueue<string> Told { get; } = new();

        protected override void OnReceivedResponse(HttpResponse response) =>
            Told.Enqueue($"{response.Status} {response.Body}");

        protected override void OnReceivedResponseError(HttpResponse response, string error) =>
            Told.Enqueue($"error {error}");

        protected override void OnDisconnected()
        {
            base.OnDisconnected();
            Told.Enqueue("gone");
        }
    }

    /// <summary>A server that sends prepared bytes on each connection, after a request has arrived.</summary>
    private sealed class Script : IDisposable
    {
        private readonly TcpListener _listener = new(IPAddress.Loopback, 0);
        private readonly BlockingCollection<(string Bytes, bool ThenClose, int Requests)> _next = [];
        private readonly List<Socket> _open = [];
        private readonly StringBuilder _heard = new();

        internal Script()
        {
            _listener.Start();
            _ = Task.Run(Serve);
        }

        internal int Port => ((IPEndPoint)_listener.LocalEndpoint).Port;

        internal string Heard
        {
            get
            {
                lock (_heard) return _heard.ToString();
            }
        }

        internal void Play(string bytes, bool thenClose, int requests = 1) => _next.Add((bytes, thenClose, requests));

        public void Dispose()
        {
            _listener.Stop();
            lock (_open) _open.ForEach(static s => s.Dispose());
            _next.Dispose();
        }

        private async Task Serve()
        {
            while (true)
            {
                Socket socket = await _listener.AcceptSocketAsync();
                lock (_open) _open.Add(socket);
                byte[] buffer = new byte[4096];
                (string bytes, bool thenClose, int requests) = _next.Take();
                string all = "";
                while (all.Split("\r\n\r\n").Length <= requests)
                {
                    int count = await socket.ReceiveAsync(buffer);
                    if (count == 0) return;
                    all += Encoding.Latin1.GetString(buffer, 0, count);
                }

                lock (_heard) _heard.Append(all);
                await socket.SendAsync(Encoding.Latin1.GetBytes(bytes));
                // Bytes still in transit would turn the close into a reset.
                if (thenClose) socket.Shutdown(SocketShutdown.Send);
                while (await socket.ReceiveAsync(buffer) > 0)
                {
                }

                socket.Dispose();
            }
        }
    }
}
