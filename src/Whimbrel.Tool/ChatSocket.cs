using Whimbrel.Http;

namespace Whimbrel.Tool;

/// <summary>
/// One person in the chat over WebSocket: each line is a message of text. What comes faster than lines may come waits
/// here, while no more is read; what was read already is at most one block of messages, and above the limit the
/// connection ends.
/// </summary>
internal sealed class ChatSocket : WebSocketSession
{
    private const int MostWaiting = 1000;

    private readonly ChatGuest _guest;
    private readonly Queue<byte[]> _waiting = new();

    internal ChatSocket(ChatRoom room) => _guest = new ChatGuest(room, this, text => SendText(text), Close);

    /// <summary>One with a byte too many is closed with 1009 (message too big).</summary>
    internal static WebSocketOptions Limits { get; } = new() { MessageLimitBytes = ChatGuest.MaxLineBytes };

    protected override void OnConnected() => _guest.Enter();

    protected override void OnDisconnected(CloseReason reason)
    {
        base.OnDisconnected(reason);
        _guest.Leave(reason);
    }

    protected override void OnText(ReadOnlySpan<byte> utf8)
    {
        foreach (Range range in utf8.Split((byte)'\n'))
        {
            ReadOnlySpan<byte> line = utf8[range];
            if (line.IsEmpty) continue;
            if (_waiting.Count == 0 && _guest.Tokens.TryTake(Loop.TimeMs)) _guest.Hear(line);
            else Keep(line);
        }
    }

    protected override void OnBinary(ReadOnlySpan<byte> data) =>
        Close(WebSocketStatus.UnsupportedData, "lines are text");

    protected override void OnTimer(LoopTimer timer)
    {
        while (_waiting.Count > 0)
        {
            if (!_guest.Tokens.TryTake(Loop.TimeMs))
            {
                StartTimer(_guest.Tokens.UntilNext);
                return;
            }

            _guest.Hear(_waiting.Dequeue());
        }

        ResumeReceiving();
    }

    private void Keep(ReadOnlySpan<byte> line)
    {
        if (_waiting.Count == MostWaiting)
        {
            Close(WebSocketStatus.PolicyViolation, "too many lines at once");
            return;
        }

        _waiting.Enqueue(line.ToArray());
        if (_waiting.Count > 1) return;
        PauseReceiving();
        StartTimer(_guest.Tokens.UntilNext);
    }
}
