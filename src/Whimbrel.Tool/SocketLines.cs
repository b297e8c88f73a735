using System.Text;
using Whimbrel.Http;

namespace Whimbrel.Tool;

/// <summary>
/// Client session of a WebSocket. Text messages are printed as lines on stdout; other messages are reported on
/// stderr.
/// </summary>
internal sealed class SocketLines(LinePrinter lines, Action<string> tell) : WebSocketSession
{
    private readonly TaskCompletionSource<CloseReason> _ended = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private long _received;

    /// <summary>Completes when the connection has ended.</summary>
    internal Task<CloseReason> Ended => _ended.Task;

    /// <summary>Number of messages so far.</summary>
    internal long Received => Volatile.Read(ref _received);

    protected override void OnText(ReadOnlySpan<byte> utf8)
    {
        Interlocked.Increment(ref _received);
        lines.Add(Encoding.UTF8.GetString(utf8.EndsWith((byte)'\n') ? utf8[..^1] : utf8));
    }

    protected override void OnBinary(ReadOnlySpan<byte> data)
    {
        Interlocked.Increment(ref _received);
        tell($"{data.Length} bytes of binary: "
            + $"{Convert.ToHexStringLower(data[..Math.Min(data.Length, 32)])}{(data.Length > 32 ? "..." : "")}");
    }

    protected override void OnPing(ReadOnlySpan<byte> payload) => tell($"ping {Quoted(payload)}, answered");

    protected override void OnPong(ReadOnlySpan<byte> payload) => tell($"pong {Quoted(payload)}");

    protected override void OnDisconnected(CloseReason reason)
    {
        base.OnDisconnected(reason);
        _ended.TrySetResult(reason);
    }

    private static string Quoted(ReadOnlySpan<byte> payload) => $"'{ChatText.Clean(payload)}'";
}
