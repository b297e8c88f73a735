using Whimbrel.Buffers;
using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// A group's members on one loop. Loop's thread only, but for the count. Small broadcasts of one turn are written once
/// into a run that members queue by reference; a member that is up to date only moves its end. The run goes back to the
/// loop's pool when all have sent it, so a quiet group holds none.
/// </summary>
internal sealed class GroupShard
{
    private const int SmallBroadcast = 16 * 1024;
    private const long BacklogMark = 32 * 1024;
    private const long BacklogClip = 2 * BacklogMark;

    private readonly bool _isHost;
    private Connection[] _members = [];
    private int _count;
    private Run? _run;
    private int _lease;
    private long _sentAtCongestion;
    private LoopTimer? _congestionTimer;
    private List<RoomWait>? _waiters;
    private bool _isCongested;

    internal GroupShard(SessionGroup group, Loop loop, bool isHost)
    {
        Group = group;
        _isHost = isHost;
        Loop = loop;
    }

    internal SessionGroup Group { get; }

    internal Loop Loop { get; }

    internal int Count => Volatile.Read(ref _count);

    internal ReadOnlySpan<Connection> Members => _members.AsSpan(0, _count);

    /// <summary>The typical member is behind: producers that ask should wait. Any thread.</summary>
    internal bool IsCongested => Volatile.Read(ref _isCongested);

    // ------------------------------------------------------------------ members

    internal bool Contains(Connection connection) => IndexOf(connection) >= 0;

    private int IndexOf(Connection connection)
    {
        if (_isHost) return connection.HostMemberIndex;
        List<(GroupShard Shard, int Index)> memberships = connection.Memberships;
        // From the end, where an ending connection takes them out: one in thousands of groups does not search for each.
        for (int i = memberships.Count - 1; i >= 0; i--)
        {
            if (ReferenceEquals(memberships[i].Shard, this)) return memberships[i].Index;
        }

        return -1;
    }

    private void SetIndex(Connection connection, int index)
    {
        if (_isHost)
        {
            connection.HostMemberIndex = index;
            return;
        }

        List<(GroupShard Shard, int Index)> memberships = connection.Memberships;
        for (int i = memberships.Count - 1; i >= 0; i--)
        {
            if (!ReferenceEquals(memberships[i].Shard, this)) continue;
            if (index < 0) memberships.RemoveAt(i);
            else memberships[i] = (this, index);
            return;
        }

        if (index >= 0) memberships.Add((this, index));
    }

    internal void Add(Connection connection)
    {
        if (Contains(connection)) return;
        if (_count == _members.Length) Array.Resize(ref _members, Math.Max(4, _count * 2));
        SetIndex(connection, _count);
        _members[_count] = connection;
        Volatile.Write(ref _count, _count + 1);
        Group.MemberAdded();
    }

    internal void Remove(Connection connection)
    {
        int index = IndexOf(connection);
        if (index < 0) return;
        Connection last = _members[_count - 1];
        _members[_count - 1] = null!;
        Volatile.Write(ref _count, _count - 1);
        if (!ReferenceEquals(last, connection))
        {
            _members[index] = last;
            SetIndex(last, index);
        }

        SetIndex(connection, -1);
        if (_count == 0) CloseRun();
        Group.MemberRemoved();
    }

    /// <summary>The group was held for this join: it has a member more, or the hold is given back.</summary>
    internal void DrainJoin(Connection connection, uint generation)
    {
        if (connection.Generation == generation && connection.State == ConnectionState.Open && !Contains(connection)) Add(connection);
        else Group.Release();
    }

    internal void DrainLeave(Connection connection, uint generation)
    {
        if (connection.Generation == generation) Remove(connection);
    }

    internal void DrainLeaveAll()
    {
        // From the end: nobody is moved. Whoever joins meanwhile, told that the last has left, comes behind and stays.
        for (int i = _count - 1; i >= 0; i--)
        {
            if (i < _count) Remove(_members[i]);
        }
    }

    // ------------------------------------------------------------------ broadcasts

    /// <summary>A broadcast from this loop's own thread: served at once.</summary>
    internal BroadcastResult Broadcast(ReadOnlySpan<byte> data, Session? except, Func<Session, bool>? predicate) =>
        Broadcast(data, [data.Length], except, predicate);

    private BroadcastResult Broadcast(ReadOnlySpan<byte> data, ReadOnlySpan<int> messages, Session? except, Func<Session, bool>? predicate)
    {
        if (_count == 0 || data.IsEmpty) return default;
        Run run = RunFor(data.Length);
        int start = run.Length;
        run.Append(data);
        // A predicate or a notice may broadcast or leave in the middle: held, the run is neither begun again nor given back.
        if (ReferenceEquals(run, _run)) run.References++;
        BroadcastResult result = Distribute(run, start, data.Length, messages, except, predicate);
        Loop.Blocks.Release(run);
        return result;
    }

    /// <summary>Broadcasts that came through the mailbox, joined.</summary>
    /// <param name="data">Their bytes.</param>
    /// <param name="messages">Their lengths.</param>
    /// <param name="extra">The session that does not get them, a predicate, or the operation of somebody who waits; or null.</param>
    internal void DrainBroadcast(ReadOnlySpan<byte> data, ReadOnlySpan<int> messages, object? extra)
    {
        switch (extra)
        {
            case BroadcastOperation operation:
                operation.Count(Broadcast(data, messages, operation.Except, operation.Predicate));
                break;
            case Func<Session, bool> predicate:
                Broadcast(data, messages, null, predicate);
                break;
            default:
                Broadcast(data, messages, (Session?)extra, null);
                break;
        }
    }

    private BroadcastResult Distribute(Run run, int start, int length, ReadOnlySpan<int> messages, Session? except, Func<Session, bool>? predicate)
    {
        int queued = 0;
        int skipped = 0;
        long backlog = 0;
        // Downwards: a member that this broadcast ends is not taken out before the completion phase, but stay on the safe side.
        for (int i = _count - 1; i >= 0; i--)
        {
            if (i >= _count) continue; // a predicate took members out
            Connection member = _members[i];
            if (except is not null && ReferenceEquals(member.Session, except)) continue;
            if (predicate is not null && !Matches(predicate, member)) continue;
            // Before the append: what this turn's flush has not seen yet says nothing about how fast the member reads.
            backlog += Math.Min(member.BytesPending, BacklogClip);
            if (member.AppendRun(run, start, length, messages)) queued++;
            else skipped++;
            Loop.FlushIfMany();
        }

        if (_count > 0 && backlog / _count > BacklogMark) Congest();
        return new BroadcastResult(queued, skipped);
    }

    private bool Matches(Func<Session, bool> predicate, Connection member)
    {
        try
        {
            return predicate(member.Session);
        }
        catch (Exception e)
        {
            Loop.Engine.NoteException("a broadcast predicate", e);
            return false;
        }
    }

    private Run RunFor(int length)
    {
        if (length >= SmallBroadcast) return Loop.Blocks.TakeRun(length);

        if (_run is { } current && current.Lease == _lease)
        {
            // Nobody refers to it any more: start again at its front, which is still in the cache.
            if (current.References == 1) current.Length = 0;
            if (current.Room >= length) return current;
            CloseRun();
        }

        Run opened = _run = Loop.TakeOpenRun(length);
        _lease = opened.Lease;
        return opened;
    }

    private void CloseRun()
    {
        Run? run = _run;
        _run = null;
        if (run is not null && run.Lease == _lease) Loop.Blocks.CloseRun(run);
    }

    // ------------------------------------------------------------------ pace for producers that ask

    /// <summary>
    /// Marks the shard and looks again soon. One dead peer does not hold producers: each member counts for at most
    /// twice the mark, and when nobody takes anything for a while the mark is lifted, so that the slow-consumer
    /// policy gets to act.
    /// </summary>
    private void Congest()
    {
        if (_isCongested) return;
        Volatile.Write(ref _isCongested, true);
        _sentAtCongestion = Loop.Counters.BytesSent;
        _congestionTimer = Loop.StartTimer(TimeSpan.FromMilliseconds(1), static (state, _) => ((GroupShard)state!).LookAgain(), this, TimeSpan.FromMilliseconds(1)); // also when the engine is stopped: nobody may wait for ever
        _stillTurns = 0;
    }

    private int _stillTurns;

    private void LookAgain()
    {
        if (_congestionTimer is null) return;
        long backlog = 0;
        foreach (Connection member in Members) backlog += Math.Min(member.BytesPending, BacklogClip);
        _stillTurns = Loop.Counters.BytesSent == _sentAtCongestion ? _stillTurns + 1 : 0;
        _sentAtCongestion = Loop.Counters.BytesSent;
        if (_count > 0 && backlog / _count > BacklogMark / 2 && _stillTurns < 100) return;
        Volatile.Write(ref _isCongested, false);
        _congestionTimer?.Cancel();
        _congestionTimer = null;
        List<RoomWait>? waiters = _waiters;
        _waiters = null;
        if (waiters is null) return;
        foreach (RoomWait waiter in waiters) waiter.TryComplete();
    }

    /// <summary>Loop's thread. Completes the waiter when the group is not congested (any more).</summary>
    internal void AddWaiter(RoomWait waiter)
    {
        if (_isCongested) (_waiters ??= []).Add(waiter);
        else waiter.TryComplete();
    }
}
