namespace Whimbrel.Tls;

/// <summary>
/// Sessions that a client may resume, by the name of the server: the newest of each, for at most 256 names. A session is taken
/// out for the dial that tries it, so that a ticket is used once (RFC 8446, C.4), and each good connection puts a new one in.
/// Belongs to one profile: another profile may trust others. Any thread.
/// </summary>
// Safe: a handle in the table is one reference of its own, which Take hands over and everything else gives back.
internal sealed class OpenSslSessions
{
    internal const int MostNames = 256;

    private readonly Dictionary<string, nint> _byName = new(StringComparer.OrdinalIgnoreCase);
    private readonly Queue<string> _order = new();
    private readonly Lock _gate = new();

    ~OpenSslSessions()
    {
        foreach (nint session in _byName.Values) OpenSslApi.SessionFree(session);
    }

    internal int Count
    {
        get
        {
            lock (_gate) return _byName.Count;
        }
    }

    /// <summary>The session for this name, now the caller's, or 0.</summary>
    internal nint Take(string name)
    {
        lock (_gate)
        {
            return _byName.Remove(name, out nint session) ? session : 0;
        }
    }

    /// <summary>Keeps a session, which was the caller's, and gives back the one it replaces.</summary>
    internal void Put(string name, nint session)
    {
        nint old;
        lock (_gate)
        {
            if (!_byName.Remove(name, out old)) _order.Enqueue(name);
            _byName[name] = session;
            // The queue also has names whose session was taken since; each pass takes at least one entry away.
            while (_order.Count > MostNames && _order.TryDequeue(out string? oldest))
            {
                if (oldest != name && _byName.Remove(oldest, out nint forgotten)) OpenSslApi.SessionFree(forgotten);
                else if (oldest == name) _order.Enqueue(name);
            }
        }

        if (old != 0) OpenSslApi.SessionFree(old);
    }
}
