using System.Text;

namespace Whimbrel.Tool;

/// <summary>
/// One person in the chat, talking in lines of UTF-8 that end with LF or CRLF. A line that is not complete stays unread
/// with the connection. Who types faster than anybody reads is read more slowly; nothing of theirs is lost, and nobody
/// else waits. On the session's loop; the room is shared.
/// </summary>
internal sealed class ChatSession(ChatRoom room) : Session
{
    private const int MaxLineBytes = 4096;
    private const int LinesPerSecond = 20;
    private const int LinesAtOnce = 40;

    private readonly TokenBucket _tokens = new(LinesPerSecond, LinesAtOnce);
    private string _name = "";

    protected override void OnConnected()
    {
        _name = room.Enter(this);
        Tell($"welcome, {_name}. {room.Count} here. Type to talk; /help lists the commands.");
        room.Announce($"{_name} joined", except: this);
    }

    protected override void OnDisconnected(CloseReason reason)
    {
        room.Leave(_name);
        room.Announce(reason.IsGraceful ? $"{_name} left" : $"{_name} is gone: {reason}", except: this);
    }

    protected override int OnUnread(ReadOnlySpan<byte> unread)
    {
        int taken = 0;
        while (IsConnected)
        {
            ReadOnlySpan<byte> rest = unread[taken..];
            int end = rest.IndexOf((byte)'\n');
            ReadOnlySpan<byte> line = end < 0 ? rest : rest[..end];
            if (line.EndsWith((byte)'\r')) line = line[..^1];
            if (line.Length > MaxLineBytes)
            {
                Tell($"a line has at most {MaxLineBytes} bytes. Goodbye.");
                Close();
                break;
            }

            if (end < 0) return taken;
            if (!_tokens.TryTake(Loop.TimeMs))
            {
                PauseReceiving();
                StartTimer(_tokens.UntilNext);
                return taken;
            }

            taken += end + 1;
            HandleLine(ChatText.Clean(line));
        }

        // Closing: the rest is of no interest.
        return unread.Length;
    }

    protected override void OnTimer(LoopTimer timer) => ResumeReceiving();

    private void HandleLine(string line)
    {
        if (line.Length == 0) return;
        if (line[0] == '/') HandleCommand(line);
        else if (room.Say(this, _name, line) == SendResult.Full) Tell("too much is going on: not everybody got your last line.");
    }

    private void HandleCommand(string line)
    {
        string[] words = line.Split(' ', 2, StringSplitOptions.TrimEntries);
        switch (words[0])
        {
            case "/name" when words.Length == 2:
                Rename(words[1]);
                break;
            case "/who":
                Tell(room.List());
                break;
            case "/quit":
                Tell("goodbye.");
                Close();
                break;
            default:
                Tell($"{(words[0] == "/help" ? "" : $"{words[0]} is no command here. ")}/name NEW changes your name, /who lists who is here, /quit leaves.");
                break;
        }
    }

    private void Rename(string name)
    {
        if (!ChatText.IsName(name))
        {
            Tell($"a name has 1 to {ChatText.MaxNameLength} of the characters a-z A-Z 0-9 - _");
        }
        else if (!room.TryRename(this, _name, name))
        {
            Tell($"{name} is taken.");
        }
        else
        {
            string old = _name;
            _name = name;
            Tell($"you are {name} now.");
            room.Announce($"{old} is {name} now", except: this);
        }
    }

    private void Tell(string text) => Send(Encoding.UTF8.GetBytes($"* {text}\n"));
}
