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

    private readonly Dictionary<string, (nint Session, long Number)> _byName = new(StringComparer.OrdinalIgnoreCase);
    private long _puts;
    private readonly Lock _gate = new();

    ~OpenSslSessions()
    {
        foreach ((nint session, _) in _byName.Values) OpenSslApi.SessionFree(session);
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
            return _byName.Remove(name, out (nint Session, long) kept) ? kept.Session : 0;
        }
    }

    /// <summary>Keeps a session, which was the caller's, and gives back the one it replaces.</summary>
    internal void Put(string name, nint session)
    {
        lock (_gate)
        {
            if (_byName.Remove(name, out (nint Session, long) old)) OpenSslApi.SessionFree(old.Session);
            else if (_byName.Count >= MostNames) ForgetOldest();
            _byName.Add(name, (session, _puts++));
        }
    }

    // A walk over all, which only a client of more names than fit ever makes.
    private void ForgetOldest()
    {
        string? oldest = null;
        long number = long.MaxValue;
        foreach ((string name, (_, long at)) in _byName)
        {
            if (at >= number) continue;
            number = at;
            oldest = name;
        }

        if (oldest is not null && _byName.Remove(oldest, out (nint Session, long) forgotten)) OpenSslApi.SessionFree(forgotten.Session);
    }
}
