using System.Collections.Concurrent;

namespace Whimbrel.Compat.Links;

/// <summary>
/// A Multicast that asks each session by its own SendAsync. While it runs, a session that sends the same bytes is only noted here, and all that were noted get them by one
/// native call (<see cref="Session.SendToEach"/>): at the end, and before anything else that this thread sends to, or ends, one of them. A thread has one of its own, which
/// keeps what it has listed, because the next message mostly goes to the same; the collector takes it all.
/// </summary>
internal sealed class Multicasting
{
    [ThreadStatic] private static Multicasting? t_current;
    [ThreadStatic] private static WeakReference<Multicasting>? t_free;

    private byte[] _data = [];
    private int _length;
    private Session[] _sessions = [];
    private Link[] _links = [];
    private SendResult[] _results = [];
    private int _count;

    /// <summary>The one that runs on this thread.</summary>
    internal static Multicasting? Current => t_current;

    /// <summary>Calls each session's SendAsync.</summary>
    /// <param name="data">The bytes.</param>
    /// <param name="sessions">All of a server.</param>
    internal static void Run<TKey, TSession, TSend>(ReadOnlySpan<byte> data, ConcurrentDictionary<TKey, TSession> sessions)
        where TKey : notnull
        where TSend : IEachSend<TSession>
    {
        // One inside another: an override of SendAsync that multicasts.
        Multicasting? outer = t_current;
        outer?.Flush();
        Multicasting own = Take();
        t_current = own;
        try
        {
            own.Begin(data);
            foreach (KeyValuePair<TKey, TSession> session in sessions) TSend.Send(session.Value, data);
        }
        finally
        {
            t_current = outer;
            own.Flush();
            t_free!.SetTarget(own);
        }
    }

    private static Multicasting Take()
    {
        WeakReference<Multicasting> free = t_free ??= new WeakReference<Multicasting>(null!);
        if (!free.TryGetTarget(out Multicasting? own)) return new Multicasting();
        free.SetTarget(null!);
        return own;
    }

    private void Begin(ReadOnlySpan<byte> data)
    {
        if (_data.Length < data.Length) _data = new byte[data.Length];
        data.CopyTo(_data);
        _length = data.Length;
    }

    /// <summary>A session sends. True: the bytes are those of the message, and it gets them with the others.</summary>
    internal bool TryTake(Link link, Session session, ReadOnlySpan<byte> data)
    {
        bool isSame = data.SequenceEqual(_data.AsSpan(0, _length));
        if (!isSame || Holds(link)) Flush();
        if (!isSame) return false;
        if (_count == _sessions.Length) Grow();
        // What is there mostly is this one: to look costs less than to store.
        if (!ReferenceEquals(_sessions[_count], session) || !ReferenceEquals(_links[_count], link)) (_sessions[_count], _links[_count]) = (session, link);
        _count++;
        return true;
    }

    /// <summary>Bytes that were taken for this one, and are not in its queue yet.</summary>
    internal int PendingOf(Link link) => Holds(link) ? _length : 0;

    // They are asked one after the other.
    private bool Holds(Link link) => _count > 0 && ReferenceEquals(_links[_count - 1], link);

    private void Grow()
    {
        int size = Math.Max(64, _count * 2);
        Array.Resize(ref _sessions, size);
        Array.Resize(ref _links, size);
        _results = new SendResult[size];
    }

    /// <summary>What was taken goes to the sessions.</summary>
    internal void Flush()
    {
        if (_count == 0) return;
        int count = _count;
        _count = 0;
        List<Session>? late = null;
        if (Session.SendToEach(_data.AsSpan(0, _length), _sessions.AsSpan(0, count), _results) < count)
        {
            for (int i = 0; i < count; i++)
            {
                // One that has ended hears of that.
                if (_results[i] == SendResult.Full) (late ??= []).Add(_sessions[i]);
            }
        }

        if (late is null) return;
        // SendAsync had said that it takes them. Waiting may send more by this thread, which uses the same memory.
        byte[] data = _data.AsSpan(0, _length).ToArray();
        foreach (Session session in late) Link.SendLate(session, data);
    }
}
