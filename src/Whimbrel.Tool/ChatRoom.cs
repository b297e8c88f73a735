using System.Collections.Concurrent;
using System.Text;
using Whimbrel.Http;

namespace Whimbrel.Tool;

/// <summary>Who is there, under which name, and how everybody is told. Shared by the sessions of all loops.</summary>
internal sealed class ChatRoom
{
    private const int NamesInList = 50;

    private readonly ConcurrentDictionary<string, Session> _byName = new(StringComparer.OrdinalIgnoreCase);
    private readonly SessionGroup _everybody = new("chat");
    private long _lines;

    /// <summary>Lines said so far.</summary>
    internal long Lines => Interlocked.Read(ref _lines);

    internal int Count => _byName.Count;

    /// <summary>Enters under a default name and gives it.</summary>
    internal string Enter(Session session)
    {
        // Somebody may have taken the name that would be ours.
        string name = $"guest{session.Id}";
        for (int i = 2; !_byName.TryAdd(name, session); i++) name = $"guest{session.Id}-{i}";
        _everybody.Join(session);
        return name;
    }

    internal bool TryRename(Session session, string old, string name)
    {
        if (string.Equals(old, name, StringComparison.OrdinalIgnoreCase)) return true;
        if (!_byName.TryAdd(name, session)) return false;
        _byName.TryRemove(old, out _);
        return true;
    }

    internal void Leave(string name) => _byName.TryRemove(name, out _);

    internal SendResult Say(Session speaker, string name, string text)
    {
        Interlocked.Increment(ref _lines);
        return _everybody.BroadcastText(Encoding.UTF8.GetBytes($"{name}: {text}\n"), except: speaker);
    }

    internal void Announce(string text, Session? except = null) => _everybody.BroadcastText(Encoding.UTF8.GetBytes($"* {text}\n"), except);

    internal string List()
    {
        string[] names = [.. _byName.Keys.Order(StringComparer.OrdinalIgnoreCase)];
        string more = names.Length > NamesInList ? $" and {names.Length - NamesInList} more" : "";
        return $"{names.Length} here: {string.Join(", ", names.Take(NamesInList))}{more}";
    }
}
