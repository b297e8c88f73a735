using System.Text;
using Whimbrel;

namespace Chat_Server;

/// <summary>One guest: lines in, lines out. The first line is the name. Callbacks are serialized, on the thread of the
/// connection's loop: they must not block.</summary>
public sealed class ChatSession(ChatRoom room) : FramedSession(FrameFormat.Line(limitBytes: 1024))
{
    private string? _name;

    protected override void OnConnected() => Send($"{room.Options.Welcome}\n");

    // A line longer than the format allows closes this connection, and no other.
    protected override void OnFrame(in Frame frame)
    {
        string line = Encoding.UTF8.GetString(frame.Message).Trim();
        if (line.Length == 0) return;
        if (_name is null) Enter(line);
        else if (line == "/quit") Close();
        else room.Guests.Broadcast($"{_name}: {line}\n", except: this);
    }

    private void Enter(string name)
    {
        if (name.Length > room.Options.LongestName)
        {
            Send($"That is a long name. Up to {room.Options.LongestName} characters, please.\n");
            return;
        }

        _name = name;
        room.Guests.Broadcast($"{_name} is here\n");
        room.Guests.Join(this);
        Send($"Hello {_name}. /quit leaves.\n");
    }

    protected override void OnDisconnected(CloseReason reason)
    {
        if (_name is not null) room.Guests.Broadcast($"{_name} has left\n", except: this);
    }

    // The host stops: send a last line, and close when the queue is sent.
    protected override void OnServerStopping()
    {
        Send("The server stops. Good-bye.\n");
        Close();
    }
}
