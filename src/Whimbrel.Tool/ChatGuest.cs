namespace Whimbrel.Tool;

/// <summary>One person in the chat, however connected: what a line of theirs means. On the session's loop; the room is shared.</summary>
/// <param name="room">Where they are.</param>
/// <param name="session">Their connection.</param>
/// <param name="tell">Sends them a line, with its end.</param>
/// <param name="leave">Closes behind what they were told.</param>
internal sealed class ChatGuest(ChatRoom room, Session session, Action<string> tell, Action leave)
{
    internal const int MaxLineBytes = 4096;
    internal const int LinesPerSecond = 20;
    internal const int LinesAtOnce = 40;

    private string _name = "";
    private bool _isAnnounced;

    internal TokenBucket Tokens { get; } = new(LinesPerSecond, LinesAtOnce);

    internal void Enter()
    {
        _name = room.Enter(session);
        Tell($"welcome, {_name}. {room.Count} here. Type to talk; /help lists the commands.");
    }

    internal void Leave(CloseReason reason)
    {
        room.Leave(_name);
        if (_isAnnounced) room.Announce(reason.IsGraceful ? $"{_name} left" : $"{_name} is gone: {reason}", except: session);
    }

    /// <summary>Takes a line without its end.</summary>
    internal void Hear(ReadOnlySpan<byte> utf8)
    {
        string line = ChatText.Clean(utf8);
        if (line.Length == 0) return;
        // Not before: a browser opens connections that it may never use, and who only reads is no event.
        if (!_isAnnounced) room.Announce($"{_name} joined", except: session);
        _isAnnounced = true;
        if (line[0] == '/') HandleCommand(line);
        else if (room.Say(session, _name, line) == SendResult.Full) Tell("too much is going on: not everybody got your last line.");
    }

    internal void Tell(string text) => tell($"* {text}\n");

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
                leave();
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
        else if (!room.TryRename(session, _name, name))
        {
            Tell($"{name} is taken.");
        }
        else
        {
            string old = _name;
            _name = name;
            Tell($"you are {name} now.");
            room.Announce($"{old} is {name} now", except: session);
        }
    }
}
