using System.Net.WebSockets;
using System.Text;

namespace Whimbrel.Tool.Tests;

public class WebSocketTests
{
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task The_echo_server_sends_messages_back(bool deflates)
    {
        using CancellationTokenSource patience = new(TimeSpan.FromSeconds(60));
        await using var tool = await RunningTool.Serve("ws", deflates ? ["--deflate"] : []);
        using ClientWebSocket socket = new();
        socket.Options.DangerousDeflateOptions = new WebSocketDeflateOptions();
        await socket.ConnectAsync(new Uri($"ws://{tool.Address}/any/path"), patience.Token);
        // about 2 MB: more than the send queue's limit
        var message = Encoding.ASCII.GetBytes(string.Join(' ', Enumerable.Range(0, 300_000)));
        var sending = socket.SendAsync(message, WebSocketMessageType.Text, true, patience.Token);
        var got = new MemoryStream();
        var buffer = new byte[64 * 1024];
        for (var isLast = false; !isLast;)
        {
            var received = await socket.ReceiveAsync(buffer, patience.Token);
            got.Write(buffer, 0, received.Count);
            isLast = received.EndOfMessage;
        }

        await sending;
        Assert.Equal(message, got.ToArray());
        await socket.CloseAsync(WebSocketCloseStatus.NormalClosure, "", patience.Token);
        Assert.Contains("1 connections", await tool.StopAsync(), StringComparison.Ordinal);
    }
}
