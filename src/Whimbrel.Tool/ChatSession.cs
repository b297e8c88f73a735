using System.Text;

namespace Whimbrel.Tool;

/// <summary>
/// A user of the chat with lines of UTF-8 that end with LF or CRLF. An incomplete line stays unconsumed in the
/// connection. A client that sends faster than the others read is read more slowly; no line is lost, and no other
/// client waits.
/// </summary>
internal sealed class ChatSession : Session
{
    private readonly ChatGuest _guest;

    internal ChatSession(ChatRoom room) =>
        _guest = new ChatGuest(room, this, text => Send(Encoding.UTF8.GetBytes(text)), Close);

    protected override void OnConnected() => _guest.Enter();

    protected override void OnDisconnected(CloseReason reason) => _guest.Leave(reason);

    protected override int OnData(ReadOnlySpan<byte> unread)
    {
        int taken = 0;
        while (IsConnected)
        {
            ReadOnlySpan<byte> rest = unread[taken..];
            int end = rest.IndexOf((byte)'\n');
            ReadOnlySpan<byte> line = end < 0 ? rest : rest[..end];
            if (line.EndsWith((byte)'\r')) line = line[..^1];
            if (line.Length > ChatGuest.MaxLineBytes)
            {
                _guest.Tell($"a line has at most {ChatGuest.MaxLineBytes} bytes. Goodbye.");
                Close();
                break;
            }

            if (end < 0) return taken;
            if (!_guest.Tokens.TryTake(Loop.TimeMs))
            {
                PauseReceiving();
                StartTimer(_guest.Tokens.UntilNext);
                return taken;
            }

            taken += end + 1;
            _guest.Hear(line);
        }

        // Closing: the rest is of no interest.
        return unread.Length;
    }

    protected override void OnTimer(LoopTimer timer) => ResumeReceiving();
}
