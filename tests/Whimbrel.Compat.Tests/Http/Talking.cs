using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;
using System.Text;
using NetCoreServer;
using HttpRequest = NetCoreServer.HttpRequest;
using HttpResponse = NetCoreServer.HttpResponse;

namespace Whimbrel.Compat.Tests.Http;

/// <summary>A WebSocket client of the old API that records its callbacks.</summary>
internal sealed class Talking(int port) : WsClient(IPAddress.Loopback, port)
{
    private int _messages;

    internal ConcurrentQueue<string> Told { get; } = new();

    /// <summary>Number of received messages.</summary>
    internal int Messages => Volatile.Read(ref _messages);

    internal string Path { get; init; } = "/chat";

    public override void OnWsConnecting(HttpRequest request) => request.SetBegin("GET", Path)
        .SetHeader("Host", "localhost").SetHeader("Upgrade", "websocket").SetHeader("Connection", "Upgrade")
        .SetHeader("Sec-WebSocket-Key", Convert.ToBase64String(WsNonce))
        .SetHeader("Sec-WebSocket-Version", "13").SetBody();

    public override void OnWsConnected(HttpResponse response) => Told.Enqueue($"connected {response.Header(3).Item2}");

    public override void OnWsDisconnected() => Told.Enqueue("disconnected");

    public override void OnWsReceived(byte[] buffer, long offset, long size)
    {
        Interlocked.Increment(ref _messages);
        Told.Enqueue($"message {Encoding.UTF8.GetString(buffer, (int)offset, (int)Math.Min(size, 20))}"
            + $"{(size > 20 ? $"... {size}" : "")}");
    }

    public override void OnWsPong(byte[] buffer, long offset, long size) => Told.Enqueue($"pong {size}");

    public override void OnWsClose(byte[] buffer, long offset, long size, int status = 1000)
    {
        Told.Enqueue($"close {status} {Encoding.UTF8.GetString(buffer, (int)offset, (int)size)}");
        base.OnWsClose(buffer, offset, size, status);
    }

    public override void OnWsError(string error) => Told.Enqueue($"wrong {error}");

    protected override void OnDisconnected()
    {
        base.OnDisconnected();
        Told.Enqueue("gone");
    }

    protected override void OnError(SocketError error) => Told.Enqueue($"failure {error}");
}
