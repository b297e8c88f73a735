namespace Whimbrel.Tool;

/// <summary>
/// A user of the chat, over any transport: handles lines and commands. On the session's loop; the room is shared.
/// </summary>
/// <param name="room">Room of the user.</param>
/// <param name="session">The user's connection.</param>
/// <param name="tell">Callback that sends the user a line, including its end.</param>
/// <param name="leave">Callback that closes the connection after the sent lines.</param>
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
        if (_isAnnounced)
            room.Announce(reason.IsGraceful ? $"{_name} left" : $"{_name} is gone: {reason}", except: session);
    }

    /// <summary>Handles a line without its end.</summary>
    internal void Hear(ReadOnlySpan<byte> utf8)
    {
        string line = ChatText.Clean(utf8);
        if (line.Length == 0) return;
        // Announced with the first line only, because a browser opens connections that it may never use.
        if (!_isAnnounced) room.Announce($"{_name} joined", except: session);
        _isAnnounced = true;
        if (line[0] == '/') HandleCommand(line);
        else if (room.Say(session, _name, line) == SendResult.Full)
            Tell("the room is busy: some users did not get your last line.");
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
                Tell($"{(words[0] == "/help" ? "" : $"{words[0]} is no command here. ")}/name NEW changes your name, "
                    + $"/who lists who is here, /quit leaves.");
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
