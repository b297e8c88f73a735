using System.Text;
using Whimbrel.Http.Parsing;
using Whimbrel.Http.Tests.Serving;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.WebSockets;

/// <summary>A client of a WebSocket route on a memory network, which writes given frames and reads the
/// responses.</summary>
internal sealed class WsPeer
{
    internal const string Key = "dGhlIHNhbXBsZSBub25jZQ==";

    private readonly FrameDriver _driver = new(WebSocketRole.Client, mayCompress: true);
    private int _seen;

    internal WsPeer(Web web, string path = "/ws", string fields = "", string frames = "")
    {
        Peer = web.Connect();
        byte[] behind = frames.Length == 0 ? [] : FrameTests.Frames(frames, WebSocketRole.Server);
        Peer.Send([.. Encoding.ASCII.GetBytes(Ask(path, fields)), .. behind]);
        byte[] bytes = Peer.Receive();
        int end = bytes.AsSpan().IndexOf("\r\n\r\n"u8);
        Assert.True(end > 0, Encoding.ASCII.GetString(bytes));
        Head = Encoding.ASCII.GetString(bytes, 0, end + 4);
        _driver.Feed(bytes.AsSpan(end + 4));
    }

    internal TestPeer Peer { get; }

    internal string Head { get; }

    internal static string Ask(string path = "/ws", string fields = "") =>
        $"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: "
        + $"13\r\nSec-WebSocket-Key: {Key}\r\n{fields}\r\n";

    /// <summary>Sends frames in the notation of <see cref="FrameTests.Frames"/>.</summary>
    internal void Send(string frames) => Peer.Send(FrameTests.Frames(frames, WebSocketRole.Server));

    /// <summary>Events received since the last call.</summary>
    internal string[] Read()
    {
        _driver.Feed(Peer.Receive());
        string[] events = [.. _driver.Events.Skip(_seen)];
        _seen = _driver.Events.Count;
        return events;
    }
}

/// <summary>Records its callbacks, and runs the action of a test for each.</summary>
internal sealed class WsSession(Action<WsSession, string>? onEvent = null) : WebSocketSession
{
    internal List<string> Events { get; } = [];

    private void Add(string what)
    {
        lock (Events) Events.Add(what);
        onEvent?.Invoke(this, what);
    }

    protected override void OnConnected() => Add("connected");

    protected override void OnText(ReadOnlySpan<byte> utf8) => Add($"text {Encoding.UTF8.GetString(utf8)}");

    protected override void OnBinary(ReadOnlySpan<byte> data) => Add($"binary {Encoding.Latin1.GetString(data)}");

    protected override void OnPiece(ReadOnlySpan<byte> piece, bool isText, bool isLast) =>
        Add($"piece {Encoding.Latin1.GetString(piece)}{(isLast ? "." : "")}");

    protected override void OnPing(ReadOnlySpan<byte> payload) => Add($"ping {Encoding.Latin1.GetString(payload)}");

    protected override void OnPong(ReadOnlySpan<byte> payload) => Add($"pong {Encoding.Latin1.GetString(payload)}");

    protected override void OnClosing(WebSocketStatus status, string reason) => Add($"closing {(int)status} {reason}");

    protected override void OnError(Exception exception) => Add($"error {exception.Message}");

    protected override void OnDisconnected(CloseReason reason)
    {
        base.OnDisconnected(reason);
        Add($"disconnected {reason.Cause} {(int)CloseStatus}");
    }
}
