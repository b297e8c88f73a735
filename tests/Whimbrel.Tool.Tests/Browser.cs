using System.Diagnostics;
using System.Net.WebSockets;
using System.Text;
using System.Text.Json;

namespace Whimbrel.Tool.Tests;

// Headless Chromium, controlled by the Chrome DevTools Protocol at a port of its choice, with one page.
internal sealed class Browser : IAsyncDisposable
{
    private const string Listening = "DevTools listening on ";

    private readonly Process _process;
    private readonly TemporaryFolder _profile;
    private readonly ClientWebSocket _socket = new();
    private string _page = "";
    private int _id;

    private Browser(Process process, TemporaryFolder profile)
    {
        _process = process;
        _profile = profile;
    }

    public static async Task<Browser> StartAsync()
    {
        OtherProgram.Needs("chromium");
        var profile = new TemporaryFolder();
        Process process = OtherProgram.Start("chromium", "--headless=new", "--no-sandbox", "--disable-gpu",
            "--disable-dev-shm-usage", "--no-proxy-server", "--no-first-run", "--hide-scrollbars",
            "--remote-debugging-port=0", $"--user-data-dir={profile.Path}", "about:blank");
        var browser = new Browser(process, profile);
        _ = process.StandardOutput.ReadToEndAsync(CancellationToken.None);
        string line = await new Lines(process.StandardError, "chromium").ThatContains(Listening);
        _ = process.StandardError.ReadToEndAsync(CancellationToken.None);
        await Deadline.Within(async stop =>
        {
            await browser._socket.ConnectAsync(
                new Uri(line[(line.IndexOf(Listening, StringComparison.Ordinal) + Listening.Length)..]), stop);
            return true;
        }, static () => "chromium");
        JsonElement target = await browser.CallAsync("Target.createTarget", new { url = "about:blank" });
        JsonElement attached = await browser.CallAsync("Target.attachToTarget",
            new { targetId = target.GetProperty("targetId").GetString(), flatten = true });
        browser._page = attached.GetProperty("sessionId").GetString()!;
        return browser;
    }

    public Task OpenAsync(string url) => CallAsync("Page.navigate", new { url });

    // The result of a JavaScript expression; a promise is awaited.
    public async Task<string> EvaluateAsync(string expression)
    {
        JsonElement said = await CallAsync("Runtime.evaluate", new
        {
            expression = $"(async () => String(await ({expression})))()",
            awaitPromise = true,
            returnByValue = true
        });
        if (said.TryGetProperty("exceptionDetails", out JsonElement mistake))
            throw new InvalidOperationException($"{expression}: {mistake}");
        return said.GetProperty("result").GetProperty("value").GetString()!;
    }

    public async Task UntilAsync(string condition)
    {
        try
        {
            await EvaluateAsync($"new Promise(done => {{ const look = () => {{ if ({condition}) done(true); else "
                + $"setTimeout(look, 20); }}; look(); }})");
        }
        catch (InvalidOperationException e) when (e.Message.Contains("navigated", StringComparison.Ordinal))
        {
            // The wait belonged to the page before.
            await UntilAsync(condition);
        }
        catch (TimeoutException)
        {
            throw new TimeoutException($"The page never came to: {condition}");
        }
    }

    public Task SizeAsync(int width, int height, double scale, bool isMobile) => CallAsync(
        "Emulation.setDeviceMetricsOverride", new { width, height, deviceScaleFactor = scale, mobile = isMobile });

    public Task SchemeAsync(string scheme) => CallAsync("Emulation.setEmulatedMedia",
        new { features = new[] { new { name = "prefers-color-scheme", value = scheme } } });

    public async Task<byte[]> PictureAsync() =>
        (await CallAsync("Page.captureScreenshot", new { format = "png" })).GetProperty("data").GetBytesFromBase64();

    private async Task<JsonElement> CallAsync(string method, object parameters)
    {
        int id = ++_id;
        object call = _page.Length > 0
            ? new { id, method, @params = parameters, sessionId = _page }
            : new { id, method, @params = parameters };
        return await Deadline.Within(
            async stop =>
            {
                await _socket.SendAsync(JsonSerializer.SerializeToUtf8Bytes(call), WebSocketMessageType.Text,
                    true, stop);
                while (true)
                {
                    using JsonDocument answer = JsonDocument.Parse(await ReceiveAsync(stop));
                    JsonElement root = answer.RootElement;
                    if (!root.TryGetProperty("id", out JsonElement of) || of.GetInt32() != id) continue; // an event
                    if (root.TryGetProperty("error", out JsonElement error))
                        throw new InvalidOperationException($"{method}: {error}");
                    return root.GetProperty("result").Clone();
                }
            },
            () => $"{method} in the browser");
    }

    private async Task<string> ReceiveAsync(CancellationToken stop)
    {
        using var message = new MemoryStream();
        var block = new byte[64 * 1024];
        ValueWebSocketReceiveResult part;
        do
        {
            part = await _socket.ReceiveAsync(block.AsMemory(), stop);
            message.Write(block, 0, part.Count);
        }
        while (!part.EndOfMessage);
        return Encoding.UTF8.GetString(message.GetBuffer(), 0, (int)message.Length);
    }

    public async ValueTask DisposeAsync()
    {
        _socket.Dispose();
        _process.Kill(entireProcessTree: true);
        await _process.WaitForExitAsync(CancellationToken.None);
        _process.Dispose();
        try
        {
            _profile.Dispose();
        }
        catch (IOException)
        {
            // A child of the killed browser may still have created a file there.
        }
    }
}
