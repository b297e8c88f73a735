using System.Globalization;
using System.Net;
using System.Text;
using System.Threading.Channels;
using Whimbrel.Http.Tests.WebSockets.Cases;

namespace Whimbrel.Http.Tests.Programs;

// WebSocket with other implementations: a browser, Node, the package ws, Python, and nginx and HAProxy as proxies.
public sealed class WebSocketTests
{
    // The programs send long messages of one repeated letter, which inflate to more than 250 times the received size.
    private static readonly WebSocketDeflate s_deflate = new();

    private const string Python = "/usr/bin/python3";

    private static string Script(string name) => Path.Combine(AppContext.BaseDirectory, "Programs", name);

    // ------------------------------------------------------------------ our server

    private sealed class Closing(WebSocketStatus status) : WebSocketSession
    {
        protected override void OnConnected() => Close(status, "as asked");
    }

    private sealed class Reporting(TaskCompletionSource<string> report) : WebSocketSession
    {
        protected override void OnText(ReadOnlySpan<byte> utf8) => report.TrySetResult(Encoding.UTF8.GetString(utf8));
    }

    private static async Task<(HttpServer Web, int Port)> ServeAsync(bool deflates)
    {
        HttpServer web =
            new(new ServerOptions
            {
                EndPoint = new IPEndPoint(IPAddress.Loopback, 0),
                Limits = new() { AllowLargeMessages = true }
            });
        WebSocketOptions options =
            new() { MessageLimitBytes = 4_000_000, SubProtocols = ["b", "c"], Deflate = deflates ? s_deflate : null };
        web.WebSocket("/echo", static () => new EchoingSession(), options);
        web.WebSocket("/close/{status}", static request =>
            new Closing((WebSocketStatus)int.Parse(request.Route["status"], CultureInfo.InvariantCulture)), options);
        web.WebSocket("/refused", static _ => null, options);
        await web.StartAsync();
        return (web, ((IPEndPoint)web.EndPoint!).Port);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_browser_gets_what_it_says_back_and_sees_each_close(bool deflates)
    {
        string chromium = RealProgram.Find("chromium");
        (HttpServer web, int port) = await ServeAsync(deflates);
        await using HttpServer owned = web;
        TaskCompletionSource<string> report = new(TaskCreationOptions.RunContinuationsAsynchronously);
        web.WebSocket("/report", () => new Reporting(report));
        string script = await File.ReadAllTextAsync(Script("websocket.js"), TestContext.Current.CancellationToken);
        string page = $$"""
            <script>{{script}}
            const base = 'ws://' + location.host;
            const say = text => { const s = new WebSocket(base + '/report'); s.onopen = () => s.send(text); };
            play(base, WebSocket, {{(deflates ? "true" : "false")}}).then(say, e => say(String(e)));
            </script>
            """;
        web.Get("/", (_, response) =>
        {
            response.Add("Content-Type", "text/html; charset=utf-8");
            response.Text(page);
        });
        string profile = Directory.CreateTempSubdirectory("whimbrel-http-").FullName;
        try
        {
            using RealProgram browser = RealProgram.Start(chromium, "--headless", "--no-sandbox",
                "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server", "--remote-debugging-port=0",
                $"--user-data-dir={profile}", $"http://127.0.0.1:{port}/");
            Assert.Equal("well", await report.Task.WaitAsync(RealProgram.Patience));
        }
        finally
        {
            Directory.Delete(profile, recursive: true);
        }
    }

    private static async Task NodeAsync(string webSocket, string folder, bool deflates, string expectation)
    {
        (HttpServer web, int port) = await ServeAsync(deflates);
        await using HttpServer owned = web;
        string script = Path.Combine(folder, "play.js");
        await File.WriteAllTextAsync(script,
            $"{await File.ReadAllTextAsync(Script("websocket.js"))}\nplay('ws://127.0.0.1:{port}', {webSocket}, "
            + $"{expectation}).then(console.log, e => {{ console.log(e); process.exit(1); }});\n");
        Assert.Contains("well", await RealProgram.RunAsync("node", "--experimental-websocket", script),
            StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Nodes_own_client_gets_what_it_says_back_and_sees_each_close(bool deflates)
    {
        RealProgram.Find("node");
        string folder = Directory.CreateTempSubdirectory("whimbrel-http-").FullName;
        try
        {
            string kind = await RealProgram.RunAsync("node", "--experimental-websocket", "-p", "typeof WebSocket");
            Assert.SkipUnless(kind.Contains("function", StringComparison.Ordinal),
                "This version of Node has no WebSocket.");
            await NodeAsync("WebSocket", folder, deflates, "undefined"); // older versions do not compress
        }
        finally
        {
            Directory.Delete(folder, recursive: true);
        }
    }

    [Fact]
    public async Task The_package_ws_gets_on_with_our_server_and_with_our_client()
    {
        RealProgram.Find("node");
        RealProgram.Find("npm");
        string folder = Directory.CreateTempSubdirectory("whimbrel-http-").FullName;
        try
        {
            try
            {
                await RealProgram.RunAsync("npm", "install", "--prefix", folder, "--no-audit", "--no-fund",
                    "--ignore-scripts", "--fetch-retries=0", "--fetch-timeout=20000", "ws@8");
            }
            catch (Exception e) when (e is Xunit.Sdk.XunitException or TimeoutException)
            {
                Assert.Skip($"The package ws cannot be installed: {e.Message.Split('\n')[0]}");
            }

            foreach (bool deflates in (bool[])[false, true])
            {
                await NodeAsync("require('ws').WebSocket", folder, deflates, deflates ? "true" : "false");
                int port = RealProgram.FreePort();
                string script = Path.Combine(folder, "serve.js");
                await File.WriteAllTextAsync(script, $$"""
                    const { WebSocketServer } = require('ws');
                    const wss = new WebSocketServer({ host: '127.0.0.1', port: {{port}}, perMessageDeflate: {{(deflates ? "{ threshold: 0 }" : "false")}}, handleProtocols: () => 'b' });
                    wss.on('connection', s => s.on('message', (data, isBinary) => s.send(data, { binary: isBinary })));
                    """, TestContext.Current.CancellationToken);
                using RealProgram server = await RealProgram.ServeAsync("node", port, _ => [script]);
                await TalkAsync($"ws://127.0.0.1:{port}/", deflates);
            }
        }
        finally
        {
            Directory.Delete(folder, recursive: true);
        }
    }

    [Theory]
    [InlineData("plain")]
    [InlineData("deflates")]
    public async Task Pythons_websockets_get_on_with_our_server_and_with_our_client(string kind)
    {
        Assert.SkipUnless(File.Exists(Python) && Directory.Exists("/usr/lib/python3/dist-packages/websockets"),
            "python3-websockets is not installed.");
        (HttpServer web, int port) = await ServeAsync(kind == "deflates");
        await using HttpServer owned = web;
        Assert.Contains("well", await RealProgram.RunAsync(Python, Script("websocket.py"), "play", $"{port}", kind),
            StringComparison.Ordinal);
        int other = RealProgram.FreePort();
        using RealProgram server = await RealProgram.ServeAsync(Python, other,
            _ => [Script("websocket.py"), "serve", $"{other}", kind]);
        await TalkAsync($"ws://127.0.0.1:{other}/", kind == "deflates");
    }

    // ------------------------------------------------------------------ our client

    private sealed class Talking : WebSocketSession
    {
        internal Channel<byte[]> Told { get; } = Channel.CreateUnbounded<byte[]>();

        protected override void OnText(ReadOnlySpan<byte> utf8) => Told.Writer.TryWrite(utf8.ToArray());

        protected override void OnBinary(ReadOnlySpan<byte> data) => Told.Writer.TryWrite(data.ToArray());

        protected override void OnPong(ReadOnlySpan<byte> payload) => Told.Writer.TryWrite(payload.ToArray());

        protected override void OnDisconnected(CloseReason reason)
        {
            base.OnDisconnected(reason);
            Told.Writer.TryComplete();
        }
    }

    private static async Task TalkAsync(string address, bool deflates)
    {
        using CancellationTokenSource limit = new(RealProgram.Patience);
        await using WebSocketClient client = Client(address, deflates);
        Talking session = (Talking)await client.ConnectAsync(limit.Token);
        Assert.Equal((deflates, "b"), (session.IsCompressed, session.SubProtocol));
        foreach (int length in (int[])[0, 1, 125, 126, 1000, 65535, 65536, 1_000_000])
        {
            byte[] message = new byte[length];
            new Random(length).NextBytes(message.AsSpan(length / 2));
            Assert.Equal(SendResult.Queued, await session.SendBinaryAsync(message, limit.Token));
            Assert.Equal(message, await session.Told.Reader.ReadAsync(limit.Token));
            byte[] text = Encoding.UTF8.GetBytes($"H\u00E4llo, {new string('x', Math.Min(length, 5000))}");
            Assert.Equal(SendResult.Queued, session.SendText(text));
            Assert.Equal(text, await session.Told.Reader.ReadAsync(limit.Token));
        }

        session.SendPing("through"u8);
        Assert.Equal("through"u8.ToArray(), await session.Told.Reader.ReadAsync(limit.Token));
        session.Close((WebSocketStatus)4001, "done");
        await session.Told.Reader.Completion.WaitAsync(limit.Token);
        Assert.Equal(4001, (int)session.CloseStatus);
    }

    private static WebSocketClient Client(string address, bool deflates)
    {
        Uri uri = new(address);
        ClientOptions options =
            new()
            {
                EndPoint = new IPEndPoint(IPAddress.Loopback, uri.Port),
                Limits = new() { AllowLargeMessages = true }
            };
        return new WebSocketClient(address, options, static () => new Talking(), new WebSocketOptions
        {
            MessageLimitBytes = 4_000_000,
            SubProtocols = ["b"],
            Deflate = deflates ? s_deflate : null
        });
    }

    // ------------------------------------------------------------------ proxies

    private static Task<RealProgram> ProxyAsync(string name, int port, int backend) =>
        RealProgram.ServeAsync(name, port, directory =>
        {
            string file = Path.Combine(directory, "conf");
            const string Upgrading = "proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header "
                + "Connection upgrade; proxy_set_header Host $host; proxy_read_timeout 60s;";
            bool isNginx = name == "nginx";
            File.WriteAllText(file, isNginx
                ? OtherServers.Nginx(directory, port,
                    $"location / {{ proxy_pass http://127.0.0.1:{backend}; {Upgrading} }} location /plain {{ "
                    + $"proxy_pass http://127.0.0.1:{backend}/echo; proxy_http_version 1.1; }}")
                : $"defaults\n  mode http\n  timeout connect 60s\n  timeout client 60s\n  timeout server 60s\n  "
                    + $"timeout tunnel 60s\nfrontend in\n  bind 127.0.0.1:{port}\n  default_backend out\nbackend "
                    + $"out\n  server one 127.0.0.1:{backend}\n");
            return isNginx ? ["-p", directory, "-e", "stderr", "-c", file] : ["-db", "-f", file];
        });

    [Theory]
    [InlineData("nginx")]
    [InlineData("haproxy")]
    public async Task Through_a_proxy_go_messages_pings_and_closes_and_what_the_server_refuses(string name)
    {
        RealProgram.Find(name);
        (HttpServer web, int backend) = await ServeAsync(deflates: true);
        await using HttpServer owned = web;
        int port = RealProgram.FreePort();
        using RealProgram proxy = await ProxyAsync(name, port, backend);
        foreach (bool deflates in (bool[])[false, true]) await TalkAsync($"ws://127.0.0.1:{port}/echo", deflates);

        using CancellationTokenSource limit = new(RealProgram.Patience);
        foreach (int status in (int[])[1000, 1001, 1011, 4999])
        {
            await using WebSocketClient closing = Client($"ws://127.0.0.1:{port}/close/{status}", false);
            Talking session = (Talking)await closing.ConnectAsync(limit.Token);
            await session.Told.Reader.Completion.WaitAsync(limit.Token);
            Assert.Equal((status, "as asked"), ((int)session.CloseStatus, session.CloseText));
        }

        List<(string Path, string Status)> refusals = [("/refused", "403"), ("/nowhere", "404")];
        if (name == "nginx") refusals.Add(("/plain", "426")); // it passes the request on without its upgrade
        foreach ((string path, string status) in refusals)
        {
            await using WebSocketClient refused = Client($"ws://127.0.0.1:{port}{path}", false);
            WebSocketException failure =
                await Assert.ThrowsAsync<WebSocketException>(() => refused.ConnectAsync(limit.Token).AsTask());
            Assert.Contains($"answered {status}", failure.Message, StringComparison.Ordinal);
        }

        // The server closes in the middle of the dialogue.
        await using WebSocketClient last = Client($"ws://127.0.0.1:{port}/echo", false);
        Talking stays = (Talking)await last.ConnectAsync(limit.Token);
        await web.StopAsync(TimeSpan.FromSeconds(20));
        await stays.Told.Reader.Completion.WaitAsync(limit.Token);
        Assert.Equal(WebSocketStatus.GoingAway, stays.CloseStatus);
    }
}
