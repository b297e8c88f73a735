using System.Net.Sockets;
using System.Text;
using NetCoreServer;

namespace Whimbrel.Compat.Tests.Messages;

/// <summary>Records the callbacks of a WebSocket.</summary>
internal sealed class Recorder : IWebSocket
{
    internal List<string> Told { get; } = [];

    internal HttpResponse? Answer { get; private set; }

    internal bool Accepts { get; init; } = true;

    public void OnWsConnected(HttpResponse response) => Told.Add("connected");

    public bool OnWsConnecting(HttpRequest request, HttpResponse response) => Accepts;

    public void OnWsConnected(HttpRequest request) => Told.Add($"connected {request.Url}");

    public void OnWsReceived(byte[] buffer, long offset, long size) =>
        Told.Add($"message {Text(buffer, offset, size)}");

    public void OnWsClose(byte[] buffer, long offset, long size, int status = 1000) =>
        Told.Add($"close {status} {Text(buffer, offset, size)}");

    public void OnWsPing(byte[] buffer, long offset, long size) => Told.Add($"ping {Text(buffer, offset, size)}");

    public void OnWsPong(byte[] buffer, long offset, long size) => Told.Add($"pong {Text(buffer, offset, size)}");

    public void OnWsError(string error) => Told.Add($"error {error}");

    public void OnWsError(SocketError error) => Told.Add($"error {error}");

    public void SendUpgrade(HttpResponse response) => Answer = response;

    private static string Text(byte[] buffer, long offset, long size) =>
        Encoding.UTF8.GetString(buffer, (int)offset, (int)size);
}
