using System.Net;
using System.Security.Cryptography;
using System.Text;
using Whimbrel.Http.Parsing;
using Whimbrel.Testing;

namespace Whimbrel.Http.Tests.WebSockets.Cases;

/// <summary>Echoes every message, and records errors.</summary>
internal sealed class EchoingSession : WebSocketSession
{
    internal List<string> Mistakes { get; } = [];

    internal int Messages { get; private set; }

    internal CloseCause? Cause { get; private set; }

    protected override void OnText(ReadOnlySpan<byte> utf8)
    {
        Messages++;
        if (SendText(utf8) is not SendResult.Queued and var result) Mistakes.Add($"text: {result}");
    }

    protected override void OnBinary(ReadOnlySpan<byte> data)
    {
        Messages++;
        if (SendBinary(data) is not SendResult.Queued and var result) Mistakes.Add($"binary: {result}");
    }

    protected override void OnError(Exception exception) => Mistakes.Add(exception.Message);

    protected override void OnDisconnected(CloseReason reason)
    {
        base.OnDisconnected(reason);
        Cause = reason.Cause;
    }
}

/// <summary>The opening handshake as the peer of either role writes it.</summary>
internal static class Opening
{
    internal static byte[] Request(string extensions) => Encoding.ASCII.GetBytes(
        WsPeer.Ask(fields: extensions.Length == 0 ? "" : $"Sec-WebSocket-Extensions: {extensions}\r\n"));

    internal static byte[] Answer(string request, string extensions, string fields = "")
    {
        string key = Field(request, "Sec-WebSocket-Key");
#pragma warning disable CA5350 // the RFC wants SHA-1
        string accept = Convert.ToBase64String(
            SHA1.HashData(Encoding.ASCII.GetBytes(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")));
#pragma warning restore CA5350
        string agreed = extensions.Length == 0 ? "" : $"Sec-WebSocket-Extensions: {extensions}\r\n";
        return Encoding.ASCII.GetBytes($"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "
            + $"websocket\r\nSec-WebSocket-Accept: {accept}\r\n{agreed}{fields}\r\n");
    }

    internal static string Field(string head, string name)
    {
        int at = head.IndexOf($"\r\n{name}: ", StringComparison.OrdinalIgnoreCase);
        if (at < 0) return "";
        at += name.Length + 4;
        return head[at..head.IndexOf("\r\n", at, StringComparison.Ordinal)];
    }
}

/// <summary>One connection on a memory network: a session of ours at one end, a peer that writes bytes at the
/// other.</summary>
internal sealed class CaseLink : IDisposable
{
    private readonly TestNetwork _network = new();
    private readonly MemoryStream _received = new();

    /// <summary>Opens the connection.</summary>
    /// <param name="role">Role of our end.</param>
    /// <param name="options">Options of our end.</param>
    /// <param name="extensions">Sec-WebSocket-Extensions of the peer.</param>
    /// <param name="behind">Bytes in the same packet, after the peer's part of the handshake.</param>
    internal CaseLink(WebSocketRole role, WebSocketOptions options, string extensions = "", byte[]? behind = null)
    {
        _network.RethrowsExceptions = false;
        if (role == WebSocketRole.Server)
        {
            HttpServer server = new(new ServerOptions
            {
                Engine = _network.Engine,
                EndPoint = _network.NewEndPoint(),
                Limits = new() { AllowLargeMessages = true }
            });
            server.WebSocket("/ws", () => Session = new EchoingSession(), options);
            Peer = _network.Connect(server);
            Peer.Send([.. Opening.Request(extensions), .. behind ?? []]);
            Head = TakeHead();
        }
        else
        {
            IPEndPoint there = (IPEndPoint)_network.NewEndPoint();
            WebSocketClient client = new($"ws://a:{there.Port}/ws",
                new ClientOptions
                {
                    Engine = _network.Engine,
                    EndPoint = there,
                    Limits = new() { AllowLargeMessages = true }
                },
                () => Session = new EchoingSession(), options);
            Peer = _network.Accept(client);
            Head = TakeHead();
            Peer.Send([.. Opening.Answer(Head, extensions), .. behind ?? []]);
        }
    }

    internal TestPeer Peer { get; }

    /// <summary>Handshake message of our end.</summary>
    internal string Head { get; }

    internal EchoingSession Session { get; private set; } = null!;

    internal void Send(byte[] bytes)
    {
        if (!Peer.IsConnected) return;
        Peer.Send(bytes);
        _received.Write(Peer.Receive());
    }

    /// <summary>Bytes that our end has sent after its handshake.</summary>
    internal byte[] Received
    {
        get
        {
            _received.Write(Peer.Receive());
            return _received.ToArray();
        }
    }

    private string TakeHead()
    {
        byte[] bytes = Peer.Receive();
        int end = bytes.AsSpan().IndexOf("\r\n\r\n"u8) + 4;
        Assert.True(end > 3, Encoding.Latin1.GetString(bytes));
        _received.Write(bytes, end, bytes.Length - end);
        return Encoding.ASCII.GetString(bytes, 0, end);
    }

    public void Dispose() => _network.Dispose();
}
