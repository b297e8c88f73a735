using System.Collections.Concurrent;
using System.Runtime.CompilerServices;

namespace Whimbrel.Compat.Links;

/// <summary>
/// A Multicast that calls the SendAsync or OnSending of each session. A session that sends the same bytes during it is
/// only listed here. All listed sessions get the bytes together: at the end, and before this thread sends anything else
/// to one of them, or ends one. Messages for the same sessions form a batch (<see cref="MulticastBatch"/>). A server
/// keeps one object for its next Multicast, which usually goes to the same sessions.
/// </summary>
internal sealed class Multicasting(MulticastBatch batch)
{
    private const int LookBytes = SendBudget.LookBytes;

    [ThreadStatic] private static Multicasting? t_current;

    private byte[] _data = [];
    private int _length;
    private Session[] _sessions = [];
    private Link[] _links = [];
    private int _count;
    private int _listed; // entries of the previous message
    private bool _isChanged; // the listed sessions differ from those of the previous message
    private object[] _all = []; // the sessions of the server
    private int _allVersion = -1;
    private int _unlooked; // bytes per session since each session's budget was checked
    private bool _looks;

    /// <summary>Returns the Multicast of this server that runs on this thread, or null.</summary>
    internal static Multicasting? Of(ServerLink server) =>
        t_current is { } current && current.IsOf(server) ? current : null;

    private bool IsOf(ServerLink server) => ReferenceEquals(server.Multicasts, batch);

    /// <summary>The listed sessions. Changes only after batched messages for them were sent.</summary>
    internal Session[] Sessions => _sessions;

    /// <summary>The links of <see cref="Sessions"/>.</summary>
    internal Link[] Links => _links;

    /// <summary>Calls each session's SendAsync.</summary>
    /// <param name="batch">Batch of the server.</param>
    /// <param name="data">Bytes to send.</param>
    /// <param name="sessions">All sessions of the server.</param>
    /// <param name="version">Number that changes with the list.</param>
    internal static void Run<TKey, TSession, TSend>(MulticastBatch batch, ReadOnlySpan<byte> data,
        ConcurrentDictionary<TKey, TSession> sessions, int version)
        where TKey : notnull
        where TSession : class
        where TSend : IEachSend<TSession>
    {
        // Nested: an override of SendAsync may multicast.
        Multicasting? outer = t_current;
        outer?.Flush();
        Multicasting own = batch.Take();
        t_current = own;
        try
        {
            own.Begin(data);
            if (TSend.IsListPrivate)
            {
                if (own._allVersion != version) (own._all, own._allVersion) = ([.. sessions.Values], version);
                // They come from that list, so their class need not be checked.
                foreach (object session in own._all) TSend.Send(Unsafe.As<TSession>(session), own, data);
            }
            else
            {
                foreach (KeyValuePair<TKey, TSession> session in sessions) TSend.Send(session.Value, own, data);
            }
        }
        finally
        {
            t_current = outer;
            own.End();
            batch.Return(own);
        }
    }

    private void Begin(ReadOnlySpan<byte> data)
    {
        if (_data.Length < data.Length) _data = new byte[data.Length];
        data.CopyTo(_data);
        _length = data.Length;
        _isChanged = false;
        if (_looks) _unlooked = 0;
        _unlooked += data.Length;
        _looks = _unlooked >= LookBytes;
    }

    private void End()
    {
        int count = _count;
        if (count != _listed)
        {
            Change();
            // An ended session must not stay reachable from here.
            if (count < _listed)
            {
                Array.Clear(_sessions, count, _listed - count);
                Array.Clear(_links, count, _listed - count);
            }

            _listed = count;
        }

        _count = 0;
        if (count > 0) batch.Add(this, count, _isChanged, _data.AsSpan(0, _length));
    }

    /// <summary>Queues the message for a session without an override of its own.</summary>
    internal void Take(Link link, ReadOnlySpan<byte> data)
    {
        int at = _count;
        // Usually the same sessions as for the previous message; checking costs less than a whole send.
        if (!_looks && at < _listed && ReferenceEquals(_links[at], link) && link.IsFreeToSend(_sessions[at]))
            _count = at + 1;
        else link.SendAsync(data, _looks ? _unlooked : data.Length);
    }

    /// <summary>Called when a session sends. True if the bytes are those of the message, which the session gets with
    /// the others.</summary>
    internal bool TryTake(Link link, Session session, ReadOnlySpan<byte> data)
    {
        bool isSame = data.SequenceEqual(_data.AsSpan(0, _length));
        if (!isSame || Holds(link)) Flush();
        if (!isSame) return false;
        if (_count == _sessions.Length) Grow();
        if (!ReferenceEquals(_sessions[_count], session) || !ReferenceEquals(_links[_count], link))
        {
            Change();
            (_sessions[_count], _links[_count]) = (session, link);
            if (_listed <= _count) _listed = _count + 1;
        }

        link.MulticastIndex = _count++;
        return true;
    }

    // Batched messages go to the sessions listed so far.
    private void Change()
    {
        if (_isChanged) return;
        batch.Flush();
        _isChanged = true;
    }

    /// <summary>Bytes taken for this link that are neither batched nor sent yet.</summary>
    internal int PendingOf(Link link) => Holds(link) ? _length : 0;

    // Sessions are called one after the other, so only the last one can send again.
    private bool Holds(Link link) => _count > 0 && ReferenceEquals(_links[_count - 1], link);

    private void Grow()
    {
        Change();
        int size = Math.Max(64, _count * 2);
        Array.Resize(ref _sessions, size);
        Array.Resize(ref _links, size);
    }

    /// <summary>Sends the message to the sessions listed so far.</summary>
    internal void Flush()
    {
        int count = _count;
        if (count == 0) return;
        _count = 0;
        Change(); // the list starts again, with other sessions
        batch.Send(this, count, _data.AsSpan(0, _length));
    }
}
