using System.Net;
using System.Net.WebSockets;
using System.Text;
using System.Text.RegularExpressions;
using Whimbrel.Http;

namespace Whimbrel.Tool.Tests;

// One port for people at a terminal, browsers and WebSocket programs: the first bytes decide, and all clients share one
// room.
public sealed partial class ChatPortTests
{
    private static CancellationToken Stop => TestContext.Current.CancellationToken;

    // ------------------------------------------------------------------ the first bytes

    [Theory]
    [InlineData("GET / HTTP/1.1\r\n", "Http")]
    [InlineData("OPTIONS * HTTP/1.1\n", "Http")]
    [InlineData("GET /a?b HTTP/9.9\r\n", "Http")]
    [InlineData("hello\n", "Lines")]
    [InlineData("/name anna\n", "Lines")]
    [InlineData("\n", "Lines")]
    [InlineData("\r\n", "Lines")]
    [InlineData(" GET / HTTP/1.1\n", "Lines")]
    [InlineData("GET\n", "Lines")]
    [InlineData("GET up everybody!\n", "Lines")]
    [InlineData("GET HTTP/1.1\n", "Lines")]
    [InlineData("WHO READS THIS HTTP/1.1\n", "Lines")]
    [InlineData("GETTINGTHISRIGHTIS / HTTP/1.1\n", "Lines")]
    [InlineData("GET  HTTP/1.1\n", "Lines")]
    [InlineData("\u0016\u0003\u0001", "Lines")]
    public void Only_a_complete_request_line_is_HTTP_and_everything_else_is_chat(string bytes, string expected)
    {
        byte[] all = Encoding.Latin1.GetBytes(bytes);
        Assert.Equal(expected, ChatOpening.Judge(all).ToString());
        // At every cut, the decision is either open or the final one.
        for (int length = 0; length < all.Length; length++)
            Assert.Contains(ChatOpening.Judge(all.AsSpan(0, length)).ToString(), (string[])["Unknown", expected]);
        Assert.Equal(expected, ChatOpening.Judge([.. all, .. "more\n"u8]).ToString());
    }

    [Fact]
    public void An_incomplete_request_has_a_limit()
    {
        Assert.Equal(ChatOpening.Spoken.Unknown,
            ChatOpening.Judge(Encoding.ASCII.GetBytes("GET /" + new string('x', 8187))));
        Assert.Equal(ChatOpening.Spoken.Lines,
            ChatOpening.Judge(Encoding.ASCII.GetBytes("GET /" + new string('x', 8188))));
    }

    [Fact]
    public async Task A_silent_client_is_greeted_and_a_line_that_resembles_a_request_is_chat()
    {
        await using var tool = await RunningTool.Serve("chat");
        using Peer silent = tool.Connect(), typing = tool.Connect();
        Assert.StartsWith("* welcome, guest", await silent.Lines.NextAsync(), StringComparison.Ordinal);
        await typing.SayAsync("GET up everybody!");
        Assert.Matches(@"^guest\d+: GET up everybody!$", await silent.Lines.ThatContains(": "));
        // After the first line of chat, all lines are chat.
        await silent.SayAsync("GET / HTTP/1.1");
        Assert.Matches(@"^guest\d+: GET / HTTP/1\.1$", await typing.Lines.ThatContains(": "));
        // An incomplete request is waited for, and then treated as chat.
        using Peer slow = tool.Connect();
        await slow.SendAsync("GET"u8.ToArray());
        await slow.Lines.ThatContains("* welcome, guest");
        await slow.SendAsync(" lost\n"u8.ToArray());
        Assert.Matches(@"^guest\d+: GET lost$", await typing.Lines.ThatContains(": "));
    }

    [Fact]
    public async Task A_browser_gets_the_page_and_others_what_they_ask_for()
    {
        await using var tool = await RunningTool.Serve("chat");
        using HttpClient client =
            new(new SocketsHttpHandler { UseProxy = false }) { BaseAddress = new Uri($"http://{tool.Address}/") };
        using HttpResponseMessage answer = await client.GetAsync(new Uri("/", UriKind.Relative), Stop);
        string page = await answer.Content.ReadAsStringAsync(Stop);
        Assert.Equal((HttpStatusCode.OK, "text/html"),
            (answer.StatusCode, answer.Content.Headers.ContentType!.MediaType));
        Assert.StartsWith("<!doctype html>", page, StringComparison.Ordinal);
        // The page loads nothing from elsewhere, and contains all its scripts.
        Assert.Empty(Outside().Matches(page));
        Assert.Matches("^default-src 'none'; script-src 'sha256-[A-Za-z0-9+/=]{44}'; "
            + "style-src 'sha256-[A-Za-z0-9+/=]{44}'; connect-src ",
            Assert.Single(answer.Headers.GetValues("Content-Security-Policy")));
        using HttpRequestMessage again =
            new(HttpMethod.Get, "/") { Headers = { IfNoneMatch = { answer.Headers.ETag! } } };
        using HttpResponseMessage same = await client.SendAsync(again, Stop);
        Assert.Equal(HttpStatusCode.NotModified, same.StatusCode);
        using HttpResponseMessage none = await client.GetAsync(new Uri("/none", UriKind.Relative), Stop);
        Assert.Equal(HttpStatusCode.NotFound, none.StatusCode);
    }

    // ------------------------------------------------------------------ all clients in one room

    [Fact]
    public async Task Lines_and_messages_meet_also_over_TLS()
    {
        using var folder = new TemporaryFolder();
        Assert.Equal(0, (await RunningTool.Run(null, "certs", "--out", folder.Path, "--san", "localhost")).ExitCode);
        foreach (bool isTls in (bool[])[false, true])
        {
            await using var tool = await RunningTool.Serve("chat",
                isTls ? ["--cert", folder["server.pem"], "--key", folder["server.key"]] : []);
            int port = ((IPEndPoint)tool.EndPoint).Port;
            string[] trust = isTls ? ["--ca", folder["ca.pem"]] : [];
            await using var lines =
                RunningTool.Start(["connect", .. trust, $"{(isTls ? "tls" : "tcp")}://localhost:{port}"]);
            await lines.Input.WriteAsync("/name anna\n".AsMemory(), Stop);
            await lines.Input.FlushAsync(Stop);
            await lines.Out.ThatContains("* you are anna now.");
            await using var messages =
                RunningTool.Start(["connect", .. trust, $"{(isTls ? "wss" : "ws")}://localhost:{port}/"]);
            await messages.Input.WriteAsync("/name bert\nhello anna\n".AsMemory(), Stop);
            await messages.Input.FlushAsync(Stop);
            Assert.Equal("bert: hello anna", await lines.Out.ThatContains(": "));
            await lines.Input.WriteAsync("hello b\u00e9rt\n".AsMemory(), Stop);
            await lines.Input.FlushAsync(Stop);
            Assert.Equal("anna: hello b\u00e9rt", await messages.Out.ThatContains(": "));
            messages.Input.Close();
            Assert.Equal("closed with 1000 (Normal); closed by this side",
                await messages.Error.ThatContains("closed with"));
            Assert.Equal(0, await messages.ExitCodeAsync());
            Assert.Equal("* bert left", await lines.Out.ThatContains("left"));
        }
    }

    [Fact]
    public async Task A_flood_of_messages_is_slowed_down_whole_and_too_much_of_it_ends()
    {
        await using var tool = await RunningTool.Serve("chat");
        using Peer anna = tool.Connect();
        await anna.SayAsync("/name anna");
        await anna.Lines.ThatContains("* you are anna now.");
        using ClientWebSocket flood = await ConnectAsync(tool);
        const int lines = 60;
        for (int i = 0; i < lines; i++) await SayAsync(flood, $"line {i}");
        for (int i = 0; i < lines; i++)
            Assert.EndsWith($": line {i}", await anna.Lines.ThatContains(": "), StringComparison.Ordinal);
        await SayAsync(flood, string.Concat(Enumerable.Repeat("x\n", 1500)));
        Assert.Equal((1008, "too many lines at once"), await CloseOfAsync(flood));

        using ClientWebSocket large = await ConnectAsync(tool), binary = await ConnectAsync(tool);
        await SayAsync(large, new string('m', 4096));
        Assert.EndsWith(new string('m', 4096), await anna.Lines.ThatContains(": m"), StringComparison.Ordinal);
        await SayAsync(large, new string('x', 4097));
        Assert.Equal(1009, (await CloseOfAsync(large)).Status);
        await binary.SendAsync(new byte[3], WebSocketMessageType.Binary, true, Stop);
        Assert.Equal((1003, "lines are text"), await CloseOfAsync(binary));
    }

    [Fact]
    public async Task Connect_shows_what_is_no_text_and_why_it_ended()
    {
        await using Whimbrel.Http.HttpServer server = new("http://127.0.0.1:0");
        server.WebSocket("/x", static () => new Odd());
        await server.StartAsync();
        await using var client = RunningTool.Start("connect", $"ws://{server.EndPoint}/x");
        await client.Error.ThatContains("ping 'are you there', answered");
        await client.Error.ThatContains("3 bytes of binary: 010203");
        Assert.Equal("two", await client.Out.ThatContains("two"));
        Assert.StartsWith("closed with 4001 (of the application), 'bye'; ",
            await client.Error.ThatContains("closed with"), StringComparison.Ordinal);
        Assert.Equal(1, await client.ExitCodeAsync());

        (int code, _, List<string> errors) = await RunningTool.Run("", "connect", $"ws://{server.EndPoint}/none");
        Assert.Equal(1, code);
        Assert.Contains("404", errors[^1], StringComparison.Ordinal);
        await RunningTool.AssertRefused("ws:// has no TLS: use wss://.", "whimbrel connect", "connect",
            "--tls", "ws://x/");
        await RunningTool.AssertRefused("is not a WebSocket URL", "whimbrel connect", "connect", "ws://x/#y");
    }

    private sealed class Odd : Whimbrel.Http.WebSocketSession
    {
        protected override void OnConnected()
        {
            SendPing("are you there"u8);
            SendBinary([1, 2, 3]);
            SendText("one\ntwo\n"u8);
            Close((Whimbrel.Http.WebSocketStatus)4001, "bye");
        }
    }

    // ------------------------------------------------------------------ in a browser

    // WHIMBREL_ACCEPT_IMAGES=1 rewrites the picture of the README.
    [Fact]
    public async Task A_browser_and_a_terminal_share_the_room()
    {
        await using var tool = await RunningTool.Serve("chat");
        await using Browser browser = await Browser.StartAsync();
        using Peer bert = tool.Connect();
        await bert.SayAsync("/name bert");
        await bert.Lines.ThatContains("* you are bert now.");
        await browser.SizeAsync(720, 470, 2, isMobile: false);
        await browser.SchemeAsync("light");
        await browser.OpenAsync($"http://{tool.Address}/#name=anna");
        await browser.UntilAsync("document.body && document.body.innerText.includes('you are anna now')");
        await using var clara = RunningTool.Start("connect", $"ws://{tool.Address}/");
        await clara.Input.WriteAsync("/name clara\n".AsMemory(), Stop);
        await clara.Input.FlushAsync(Stop);
        await clara.Out.ThatContains("* you are clara now.");

        await bert.SayAsync("I am here by nc. Who are you?");
        await browser.UntilAsync(Shown("bert", "I am here by nc. Who are you?"));
        await SayAsync(browser, "Hello! I have a browser, on the same port.");
        foreach (Lines seen in (Lines[])[bert.Lines, clara.Out])
            Assert.Equal("anna: Hello! I have a browser, on the same port.", await seen.ThatContains("anna: "));
        await clara.Input.WriteAsync("And I: whimbrel connect ws://\n".AsMemory(), Stop);
        await clara.Input.FlushAsync(Stop);
        await browser.UntilAsync(Shown("clara", "And I: whimbrel connect ws://"));
        Assert.Equal("clara: And I: whimbrel connect ws://", await bert.Lines.ThatContains("clara: "));
        await bert.SayAsync("Three ways in, one room.");
        await browser.UntilAsync(Shown("bert", "Three ways in, one room."));
        byte[] picture = await browser.PictureAsync();
        Assert.InRange(picture.Length, 10_000, 500_000);
        if (Environment.GetEnvironmentVariable("WHIMBREL_ACCEPT_IMAGES") == "1")
            await File.WriteAllBytesAsync(PicturePath(), picture, Stop);
        Assert.True(File.Exists(PicturePath()), "The README shows it.");

        // Messages of others are shown as text, even if they look like markup.
        await bert.SayAsync("<img src=x onerror=alert(1)> & <b>more</b>");
        await browser.UntilAsync(Shown("bert", "<img src=x onerror=alert(1)> & <b>more</b>"));

        // On a phone nothing is wider than the screen, and in dark mode the page is dark.
        string day = await browser.EvaluateAsync("getComputedStyle(document.body).backgroundColor");
        await browser.SizeAsync(360, 640, 2, isMobile: true);
        await browser.SchemeAsync("dark");
        Assert.Equal("true", await browser.EvaluateAsync("document.documentElement.scrollWidth "
            + "<= 360 && document.getElementById('send').getBoundingClientRect().right <= 360 && "
            + "document.getElementById('send').getBoundingClientRect().bottom <= 640"));
        Assert.NotEqual(day, await browser.EvaluateAsync("getComputedStyle(document.body).backgroundColor"));
        await tool.StopAsync();
        await browser.UntilAsync("document.getElementById('state').textContent === 'connecting again' && "
            + "document.getElementById('send').disabled");
    }

    private static string Shown(string who, string text) =>
        $"[...document.querySelectorAll('.said')].some(p => p.querySelector('b')?.textContent === '{who}' && "
        + $"p.lastChild.textContent === {System.Text.Json.JsonSerializer.Serialize(text)})";

    private static Task<string> SayAsync(Browser browser, string text) =>
        browser.EvaluateAsync($"(document.getElementById('text').value = "
            + $"{System.Text.Json.JsonSerializer.Serialize(text)}, document.getElementById('form').requestSubmit())");

    private static string PicturePath() => Path.Combine(SourceTree.Root, "docs", "images", "chat.png");

    private static async Task<ClientWebSocket> ConnectAsync(RunningTool tool)
    {
        ClientWebSocket socket = new();
        await socket.ConnectAsync(new Uri($"ws://{tool.Address}/"), Stop);
        return socket;
    }

    private static Task SayAsync(ClientWebSocket socket, string text) =>
        socket.SendAsync(Encoding.UTF8.GetBytes(text), WebSocketMessageType.Text, true, Stop);

    private static Task<(int Status, string? Reason)> CloseOfAsync(ClientWebSocket socket) => Deadline.Within(
        async stop =>
        {
            byte[] room = new byte[8192];
            while ((await socket.ReceiveAsync(room, stop)).MessageType != WebSocketMessageType.Close)
            {
                // Lines of the room.
            }

            return ((int)socket.CloseStatus!, socket.CloseStatusDescription);
        },
        static () => "the close frame");

    [GeneratedRegex(@"https?://|\bsrc\s*=|\bhref\s*=|url\(|@import|\bimport\b|fetch\(")]
    private static partial Regex Outside();
}
