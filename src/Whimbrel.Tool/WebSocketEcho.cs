using Whimbrel.Http;

namespace Whimbrel.Tool;

/// <summary><c>whimbrel serve ws</c>: sends every message back unchanged, on any path.</summary>
internal sealed class WebSocketEcho(Tally messages) : WebSocketSession
{
    private const int MessageBytes = 64 << 20;

    private Tally.Cell? _received;

    internal static HttpServer Create(ServerOptions options, bool deflates, Tally messages)
    {
        HttpServer server = new(options);
        WebSocketOptions limits = new()
        {
            MessageLimitBytes = MessageBytes,
            Origins = WebSocketOrigins.Any,
            Deflate = deflates ? new WebSocketDeflate() : null
        };
        server.WebSocket("/{*path}", () => new WebSocketEcho(messages), limits);
        return server;
    }

    protected override void OnConnected() => _received = messages.Of(Loop);

    protected override void OnText(ReadOnlySpan<byte> utf8)
    {
        _received?.Add(1);
        SendText(utf8);
    }

    protected override void OnBinary(ReadOnlySpan<byte> data)
    {
        _received?.Add(1);
        SendBinary(data);
    }
}
