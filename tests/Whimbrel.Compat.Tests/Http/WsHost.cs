using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;
using System.Text;
using NetCoreServer;
using HttpRequest = NetCoreServer.HttpRequest;
using HttpResponse = NetCoreServer.HttpResponse;

namespace Whimbrel.Compat.Tests.Http;

/// <summary>A WebSocket server of the old API that echoes, and records its callbacks.</summary>
internal sealed class WsHost : WsServer
{
    internal WsHost()
        : base(IPAddress.Loopback, 0) => Assert.True(Start());

    internal ConcurrentQueue<string> Told { get; } = new();

    internal string? Greeting { get; init; }

    internal bool Accepts { get; init; } = true;

    /// <summary>Sends a message to all sessions when a session connects, including the new one.</summary>
    internal bool Announces { get; init; }

    internal int PortNumber => ((IPEndPoint)Endpoint).Port;

    protected override TcpSession CreateSession() => new Echoing(this);

    internal sealed class Echoing(WsHost host) : WsSession(host)
    {
        public override bool OnWsConnecting(HttpRequest request, HttpResponse response)
        {
            response.SetHeader("X-Seen", "yes");
            return host.Accepts;
        }

        public override void OnWsConnected(HttpRequest request)
        {
            host.Told.Enqueue($"connected {request.Url}");
            if (host.Greeting is { } greeting) SendTextAsync(greeting);
            if (host.Announces) host.MulticastText("one more");
        }

        public override void OnWsDisconnecting() => host.Told.Enqueue("disconnecting");

        public override void OnWsDisconnected() => host.Told.Enqueue("disconnected");

        public override void OnWsReceived(byte[] buffer, long offset, long size)
        {
            host.Told.Enqueue($"message {size}");
            if (Encoding.UTF8.GetString(buffer, (int)offset, (int)size) == "end") Close(1001, "bye");
            else SendBinaryAsync(buffer, offset, size);
        }

        public override void OnWsClose(byte[] buffer, long offset, long size, int status = 1000)
        {
            host.Told.Enqueue($"close {status} {Encoding.UTF8.GetString(buffer, (int)offset, (int)size)}");
            base.OnWsClose(buffer, offset, size, status);
        }

        public override void OnWsError(string error)
        {
            host.Told.Enqueue($"wrong {error}");
            base.OnWsError(error);
        }

        protected override void OnReceivedRequest(HttpRequest request)
        {
            host.Told.Enqueue($"request {request.Url}");
            SendResponseAsync(Response.MakeOkResponse());
        }

        protected override void OnError(SocketError error) => host.Told.Enqueue($"failure {error}");
    }
}
