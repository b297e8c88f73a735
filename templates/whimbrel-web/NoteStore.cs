namespace Web_Server;

/// <summary>Notes of the users: in memory, up to a limit. Used by all loops.</summary>
internal sealed class NoteStore
{
    private const int Limit = 1000;

    private readonly Lock _gate = new();
    private readonly List<Note> _notes = [];

    internal Note[] All()
    {
        lock (_gate) return [.. _notes];
    }

    internal bool TryAdd(Note note)
    {
        lock (_gate)
        {
            if (_notes.Count == Limit) return false;
            _notes.Add(note);
            return true;
        }
    }
}
