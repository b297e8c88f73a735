using System.Runtime.InteropServices;
using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// One call of <see cref="Session.SendToEach"/>: takes room on each connection in turn, and then gives each loop the bytes once. A thread has one for its next call, which
/// mostly goes to the same: it keeps what it has listed, and the collector takes it all.
/// </summary>
internal sealed class SharedSend
{
    [ThreadStatic] private static WeakReference<SharedSend>? t_free;

    private readonly List<Part> _parts = [];
    private int _used;

    internal static int Run(ReadOnlySpan<byte> data, ReadOnlySpan<Session> sessions, Span<SendResult> results)
    {
        if (data.Length > ConnectionOptions.LeastSendLimit) CheckFits(data.Length, sessions);
        // What a session says of its sends (OnSending) is the user's, and may come here again.
        SharedSend send = Take();
        int taken = 0;
        // Of the thread, and the same for all of them.
        Loop? here = Loop.Current;
        Strand? strand = Strand.Current;
        try
        {
            for (int i = 0; i < sessions.Length; i++)
            {
                SendResult result = send.Reserve(sessions[i], data, i, here, strand);
                if (result == SendResult.Queued) taken++;
                if (!results.IsEmpty) results[i] = result;
            }
        }
        finally
        {
            // Also when the user's code threw: those before it have been promised the message.
            taken -= send.Post(data, results);
            t_free!.SetTarget(send);
        }

        return taken;
    }

    /// <summary>Before anybody gets it.</summary>
    private static void CheckFits(int length, ReadOnlySpan<Session> sessions)
    {
        foreach (Session session in sessions)
        {
            if (session?.Connection is { } connection && connection.IsTooLarge(length, session.Generation)) Diagnostics.Throw.TooLarge(length, connection.SendLimit);
        }
    }

    private static SharedSend Take()
    {
        WeakReference<SharedSend> free = t_free ??= new WeakReference<SharedSend>(null!);
        if (!free.TryGetTarget(out SharedSend? send)) return new SharedSend();
        free.SetTarget(null!);
        return send;
    }

    private SendResult Reserve(Session session, ReadOnlySpan<byte> data, int place, Loop? here, Strand? strand)
    {
        ArgumentNullException.ThrowIfNull(session);
        if (session.Connection is not { } connection) return SendResult.Closed;
        uint generation = session.Generation;
        // On its own thread a send costs less than this.
        if (ReferenceEquals(connection.Loop, here) || data.IsEmpty || (strand is not null && Strand.CurrentOf(connection, generation) is not null)) return connection.Send(data, generation);
        SendResult result = connection.ReserveShared(data.Length, generation);
        if (result == SendResult.Queued) PartOf(connection.Loop).Add(new SendTarget(connection, generation), place);
        return result;
    }

    private Part PartOf(Loop loop)
    {
        for (int i = 0; i < _used; i++)
        {
            if (ReferenceEquals(_parts[i].Loop, loop)) return _parts[i];
        }

        if (_used == _parts.Count) _parts.Add(new Part());
        Part part = _parts[_used++];
        part.Loop = loop;
        return part;
    }

    /// <summary>How many do not get it after all.</summary>
    private int Post(ReadOnlySpan<byte> data, Span<SendResult> results)
    {
        int lost = 0;
        foreach (Part part in CollectionsMarshal.AsSpan(_parts)[.._used])
        {
            SendResult result = part.Loop!.Mailbox.PostShared(part.Targets, data);
            if (result != SendResult.Queued) lost += part.TakeBack(data.Length, result, results);
            part.Reset();
        }

        _used = 0;
        return lost;
    }

    /// <summary>Those of one loop.</summary>
    private sealed class Part
    {
        private SendTarget[] _targets = new SendTarget[16];
        private int[] _places = new int[16];
        private int _count;

        internal Loop? Loop { get; set; }

        internal ReadOnlySpan<SendTarget> Targets => _targets.AsSpan(0, _count);

        internal void Add(SendTarget target, int place)
        {
            if (_count == _targets.Length)
            {
                Array.Resize(ref _targets, _count * 2);
                Array.Resize(ref _places, _count * 2);
            }

            // What is there mostly is this one: to look costs less than to store.
            if (_targets[_count] != target) _targets[_count] = target;
            _places[_count++] = place;
        }

        internal int TakeBack(int length, SendResult result, Span<SendResult> results)
        {
            for (int i = 0; i < _count; i++)
            {
                _targets[i].Connection.TakeBackForeign(length, _targets[i].Generation);
                if (!results.IsEmpty) results[_places[i]] = result;
            }

            return _count;
        }

        internal void Reset()
        {
            _count = 0;
            Loop = null;
        }
    }
}
