namespace Whimbrel.Tls;

/// <summary>
/// Sessions that a client may resume, by server name: the newest of each, for at most 256 names. A session is removed
/// for the connect that tries it, so that a ticket is used once (RFC 8446, C.4), and each successful connection adds a
/// new one. Belongs to one profile, because another profile may have other trust settings. Any thread.
/// </summary>
// Safe: each handle in the table is one reference, which Take passes on and everything else releases.
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

    /// <summary>Removes and returns the session for this name, now owned by the caller, or 0.</summary>
    internal nint Take(string name)
    {
        lock (_gate)
        {
            return _byName.Remove(name, out (nint Session, long) kept) ? kept.Session : 0;
        }
    }

    /// <summary>Stores a session of the caller, and frees the one it replaces.</summary>
    internal void Put(string name, nint session)
    {
        lock (_gate)
        {
            if (_byName.Remove(name, out (nint Session, long) old)) OpenSslApi.SessionFree(old.Session);
            else if (_byName.Count >= MostNames) ForgetOldest();
            _byName.Add(name, (session, _puts++));
        }
    }

    // Enumerates all sessions, which happens only in a client with more names than fit.
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

        if (oldest is not null && _byName.Remove(oldest, out (nint Session, long) forgotten))
            OpenSslApi.SessionFree(forgotten.Session);
    }
}
