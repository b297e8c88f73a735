using System.Diagnostics;

namespace Whimbrel.Dashboard;

/// <summary>
/// All connections of servers and clients at one moment, and pages of them in an order. Its memory is used again for
/// the next sample. Used by the sampler alone.
/// </summary>
internal sealed class Sample
{
    // Subtracted, because the ticks of a date exceed the precision of a double.
    private static readonly long s_baseTicks = new DateTime(2020, 1, 1).Ticks;

    private Row[] _rows = [];
    private (double Key, long Id, int Index)[] _order = [];
    private Dictionary<long, (long Received, long Sent)> _before = [];
    private Dictionary<long, (long Received, long Sent)> _now = [];
    private long _takenAt;
    private double _seconds; // since the sample before; 0 in the first one

    /// <summary>Number of connections.</summary>
    internal int Count { get; private set; }

    /// <summary>Number of connections of the last <see cref="Select"/>, on all its pages.</summary>
    internal int Matching { get; private set; }

    internal ref readonly Row this[int index] => ref _rows[index];

    /// <summary>
    /// Visits all connections once. Any thread; reads values that other threads write, without waiting.
    /// </summary>
    internal void Take(IReadOnlyList<Server.Host> servers, IReadOnlyList<Session> clients)
    {
        long now = Stopwatch.GetTimestamp();
        _seconds = _takenAt == 0 ? 0 : Stopwatch.GetElapsedTime(_takenAt, now).TotalSeconds;
        _takenAt = now;
        (_before, _now) = (_now, _before);
        _now.Clear();
        int before = Count;
        Count = 0;
        foreach (Server.Host server in servers)
        {
            foreach (Session session in server.Connected) Add(session, server.Id);
        }

        foreach (Session session in clients) Add(session, Row.OfClient);

        // Ended sessions must not stay alive.
        if (Count < before) Array.Clear(_rows, Count, before - Count);
    }

    private void Add(Session session, long server)
    {
        if (Count == _rows.Length) Array.Resize(ref _rows, Math.Max(64, Count * 2));
        ref Row row = ref _rows[Count++];
        row = new Row
        {
            Session = session,
            Server = server,
            Received = session.BytesReceived,
            Sent = session.BytesSent,
            Pending = session.PendingBytes,
        };
        _now[session.Id] = (row.Received, row.Sent);
        if (_seconds <= 0 || !_before.TryGetValue(session.Id, out (long Received, long Sent) earlier)) return;
        row.InPerSecond = Math.Max(0, (row.Received - earlier.Received) / _seconds);
        row.OutPerSecond = Math.Max(0, (row.Sent - earlier.Sent) / _seconds);
    }

    /// <summary>Returns the index of a connection, or -1.</summary>
    internal int IndexOf(long id)
    {
        for (int i = 0; i < Count; i++)
        {
            if (_rows[i].Session.Id == id) return i;
        }

        return -1;
    }

    /// <summary>
    /// Returns one page of the connections that match, in the order of the view. Connections with equal
    /// keys are in the order of their ids, so that rows do not jump.
    /// </summary>
    /// <param name="view">Order, page and filter.</param>
    /// <param name="members">Ids of the members of the view's group; null for all connections.</param>
    /// <param name="page">Number of the page, which is the last one if the view asks for a later one.</param>
    internal ReadOnlySpan<(double Key, long Id, int Index)> Select(View view, HashSet<long>? members, out int page)
    {
        if (_order.Length < Count) _order = new (double, long, int)[_rows.Length];
        int count = 0;
        for (int i = 0; i < Count; i++)
        {
            if (!Matches(_rows[i], view, members)) continue;
            _order[count++] = (KeyOf(_rows[i], view), _rows[i].Session.Id, i);
        }

        Matching = count;
        page = Math.Min(view.Page, Math.Max(0, count - 1) / view.Rows);
        Span<(double Key, long Id, int Index)> order = _order.AsSpan(0, count);
        order.Sort(static (a, b) => a.Key.CompareTo(b.Key) is var byKey && byKey != 0 ? byKey : a.Id.CompareTo(b.Id));
        int from = page * view.Rows;
        return order.Slice(from, Math.Min(view.Rows, count - from));
    }

    private static bool Matches(in Row row, View view, HashSet<long>? members)
    {
        if (view.Server != 0 && members is null && row.Server != view.Server) return false;
        if (members is not null && !members.Contains(row.Session.Id)) return false;
        return view.Filter.Length == 0
            || row.Session.DisplayName.Contains(view.Filter, StringComparison.OrdinalIgnoreCase)
            || StatusSnapshot.TextOf(row.Session.RemoteEndPoint).Contains(view.Filter,
                StringComparison.OrdinalIgnoreCase);
    }

    /// <summary>Returns a number that is lower for rows that come earlier.</summary>
    private static double KeyOf(in Row row, View view)
    {
        double key = view.Sort switch
        {
            // A later time is a lower age.
            ViewSort.Age => s_baseTicks - (row.Session.ConnectedAt?.Ticks ?? 0),
            ViewSort.Queue => row.Pending,
            ViewSort.Bytes => row.Received + row.Sent,
            ViewSort.Rate => row.InPerSecond + row.OutPerSecond,
            _ => row.DrainSeconds,
        };
        return view.IsAscending ? key : -key;
    }
}
