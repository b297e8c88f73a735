using System.Net.WebSockets;
using System.Text.Json;
using Whimbrel.Tool.Tests;

namespace Whimbrel.Dashboard.Tests;

// The WebSocket of a dashboard's page, without a browser.
internal sealed class Page : IDisposable
{
    private readonly ClientWebSocket _socket = new();

    public WebSocketCloseStatus? CloseStatus => _socket.CloseStatus;

    public string? CloseText => _socket.CloseStatusDescription;

    public static async Task<Page> OpenAsync(string address, string? bearer = null, string? origin = null)
    {
        Page page = new();
        if (bearer is not null) page._socket.Options.SetRequestHeader("Authorization", $"Bearer {bearer}");
        if (origin is not null) page._socket.Options.SetRequestHeader("Origin", origin);
        page._socket.Options.CollectHttpResponseDetails = true;
        await Deadline.Within(async stop =>
        {
            await page._socket.ConnectAsync(new Uri(address), stop);
            return true;
        }, () => address);
        return page;
    }

    public Task AskAsync(object view) => SendAsync(JsonSerializer.SerializeToUtf8Bytes(view));

    public Task SendAsync(byte[] message) =>
        _socket.SendAsync(message, WebSocketMessageType.Text, true, Site.End);

    // The next message, or null at the end.
    public async Task<JsonElement?> NextAsync() => await Deadline.Within<JsonElement?>(
        async stop =>
        {
            using MemoryStream message = new();
            byte[] block = new byte[64 * 1024];
            ValueWebSocketReceiveResult part;
            do
            {
                part = await _socket.ReceiveAsync(block.AsMemory(), stop);
                message.Write(block, 0, part.Count);
            }
            while (!part.EndOfMessage);
            if (part.MessageType == WebSocketMessageType.Close) return null;
            return JsonDocument.Parse(message.ToArray()).RootElement;
        },
        static () => "a message of the dashboard");

    // Asks, and returns the first message that is as wanted.
    public async Task<JsonElement> UntilAsync(object view, Func<JsonElement, bool> isSo)
    {
        await AskAsync(view);
        JsonElement? last = null;
        return await Deadline.Within(
            async stop =>
            {
                while (true)
                {
                    last = await NextAsync() ?? throw new InvalidOperationException($"closed: {CloseText}");
                    if (IsSo(isSo, last.Value)) return last.Value;
                    stop.ThrowIfCancellationRequested();
                }
            },
            () => $"another message than: {last}");
    }

    // A message of the view before may lack what the condition looks at.
    private static bool IsSo(Func<JsonElement, bool> condition, JsonElement message)
    {
        try
        {
            return condition(message);
        }
        catch (Exception e) when (e is KeyNotFoundException or ArgumentOutOfRangeException or IndexOutOfRangeException)
        {
            return false;
        }
    }

    public Task<JsonElement> ShowAsync(object view, string kind) =>
        UntilAsync(view, message => message.GetProperty("view").GetString() == kind);

    public void Dispose() => _socket.Dispose();
}
