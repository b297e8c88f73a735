using System.Buffers;
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
    private const string SharedText = "memory that was broadcast";
    private const long BacklogMark = 32 * 1024;
    private const long BacklogClip = 2 * BacklogMark;

    private readonly bool _isHost;
    private RunWriter _runs;

    // The first _end places; one that was left during a walk is empty until the outermost walk has ended.
    private Connection?[] _members = [];
    private byte[] _classes = []; // of the same places; shorter, all behind it are of class 0
    private int _end;
    private int _count;
    private int _walks;
    private long _sentAtCongestion;
    private LoopTimer? _congestionTimer;
    private List<RoomWait>? _waiters;
    private bool _isCongested;

    internal GroupShard(SessionGroup group, Loop loop, bool isHost)
    {
        Group = group;
        _isHost = isHost;
        Loop = loop;
        _runs = new RunWriter(loop);
    }

    internal SessionGroup Group { get; }

    internal Loop Loop { get; }

    internal int Count => Volatile.Read(ref _count);

    /// <summary>The members of now: a copy, for who ends or tells them.</summary>
    internal Connection[] Members
    {
        get
        {
            Connection[] members = new Connection[_count];
            int count = 0;
            for (int i = 0; i < _end; i++)
            {
                if (_members[i] is { } member) members[count++] = member;
            }

            return members;
        }
    }

    /// <summary>The typical member is behind: producers that ask should wait. Any thread.</summary>
    internal bool IsCongested => Volatile.Read(ref _isCongested);

    // ------------------------------------------------------------------ members

    internal bool Contains(Connection connection) => IndexOf(connection) >= 0;

    private int IndexOf(Connection connection)
    {
        if (_isHost) return connection.HostMemberIndex;
        if (connection.MembershipsIfAny is not { } memberships) return -1;
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

    internal void Add(Connection connection, int memberClass = 0)
    {
        if (Contains(connection)) return;
        if (_end == _members.Length) Array.Resize(ref _members, Math.Max(4, _end * 2));
        SetIndex(connection, _end);
        SetClass(_end, memberClass);
        _members[_end++] = connection;
        Volatile.Write(ref _count, _count + 1);
        Group.MemberAdded();
    }

    internal void Remove(Connection connection)
    {
        int index = IndexOf(connection);
        if (index < 0) return;
        int memberClass = ClassAt(index);
        _members[index] = null;
        // In a walk nobody is moved: whoever was moved would be served twice, or not at all.
        if (_walks == 0) FillPlace(index);
        SetIndex(connection, -1);
        Volatile.Write(ref _count, _count - 1);
        if (_count == 0) _runs.Close();
        Group.MemberRemoved(memberClass);
    }

    /// <summary>The last member moves to an empty place; with it go the empty ones at the end.</summary>
    private void FillPlace(int index)
    {
        while (_end > 0 && _members[_end - 1] is null) _end--;
        if (index >= _end) return;
        Connection last = _members[--_end]!;
        _members[_end] = null;
        _members[index] = last;
        SetClass(index, ClassAt(_end));
        SetIndex(last, index);
    }

    private int ClassAt(int index) => index < _classes.Length ? _classes[index] : 0;

    private void SetClass(int index, int memberClass)
    {
        if (index >= _classes.Length)
        {
            if (memberClass == 0) return;
            Array.Resize(ref _classes, _members.Length);
        }

        _classes[index] = (byte)memberClass;
    }

    /// <summary>The places that were left during a walk are filled when the outermost one has ended.</summary>
    private void EndWalk()
    {
        if (--_walks > 0 || _end == _count) return;
        for (int i = 0; i < _end; i++)
        {
            if (_members[i] is null) FillPlace(i);
        }
    }

    /// <summary>The group was held for this join: it has a member more, or the hold is given back.</summary>
    internal void DrainJoin(Connection connection, uint generation, int memberClass)
    {
        if (connection.Generation == generation && connection.State == ConnectionState.Open && !Contains(connection)) Add(connection, memberClass);
        else Group.Release(memberClass);
    }

    internal void DrainLeave(Connection connection, uint generation)
    {
        if (connection.Generation == generation) Remove(connection);
    }

    internal void DrainLeaveAll()
    {
        // Whoever joins meanwhile, told that the last has left, comes behind and stays.
        _walks++;
        for (int i = _end - 1; i >= 0; i--)
        {
            if (_members[i] is { } member) Remove(member);
        }

        EndWalk();
    }

    // ------------------------------------------------------------------ broadcasts

    /// <summary>A broadcast from this loop's own thread: served at once, behind what its members were sent before on
    /// other threads (contract 7): the caller may have come from there.</summary>
    internal BroadcastResult Broadcast(in BroadcastData data, Session? except, Func<Session, bool>? predicate)
    {
        Loop.GatheringStrands.Post();
        if (data.Shared is { } shared) return BroadcastShared(shared.LendMore(), data.Offset, data.Length, except, predicate);
        if (data.Forms.Length > 0) return Broadcast(data.Bytes, data.Forms, isByClass: true, except, predicate);
        return Broadcast(data.Bytes, [data.Length], isByClass: false, except, predicate);
    }

    /// <param name="data">The bytes of all messages.</param>
    /// <param name="messages">The lengths of joined messages, which all go to everybody; or of one message's forms, by class.</param>
    /// <param name="isByClass">Which of the two.</param>
    /// <param name="except">Does not get it.</param>
    /// <param name="predicate">Chooses.</param>
    private BroadcastResult Broadcast(ReadOnlySpan<byte> data, ReadOnlySpan<int> messages, bool isByClass, Session? except, Func<Session, bool>? predicate)
    {
        if (_count == 0 || data.IsEmpty) return default;
        // A predicate or a notice may broadcast or leave in the middle: the run is held.
        Run run = _runs.Write(data, out int start);
        BroadcastResult result = Distribute(run, start, data.Length, messages, isByClass, except, predicate);
        Loop.Blocks.Release(run);
        return result;
    }

    /// <summary>Queues the user's memory itself. The loan is given back when the last member has sent it.</summary>
    private BroadcastResult BroadcastShared(IMemoryOwner<byte> loan, int offset, int length, Session? except, Func<Session, bool>? predicate)
    {
        Run run;
        try
        {
            run = Loop.Blocks.TakeSharedRun(loan, offset, length);
        }
        catch (Exception e)
        {
            // The user's memory could not be pinned: as with a predicate that throws, the members go without.
            Loop.Engine.ReportException(SharedText, e);
            GiveBack(loan);
            return default;
        }

        BroadcastResult result = Distribute(run, 0, length, [length], isByClass: false, except, predicate);
        if (Loop.Blocks.Release(run) is { } thrown) Loop.Engine.ReportException(SharedText, thrown);
        return result;
    }

    private void GiveBack(IMemoryOwner<byte> loan)
    {
        try
        {
            loan.Dispose();
        }
        catch (Exception e)
        {
            Loop.Engine.ReportException(SharedText, e);
        }
    }

    /// <summary>Broadcasts that came through the mailbox, joined; or one in the forms of several classes.</summary>
    /// <param name="data">Their bytes.</param>
    /// <param name="messages">Their lengths, or those of the forms.</param>
    /// <param name="isByClass">Which of the two.</param>
    /// <param name="extra">The session that does not get them, a predicate, or the operation of somebody who waits; or null.</param>
    internal void DrainBroadcast(ReadOnlySpan<byte> data, ReadOnlySpan<int> messages, bool isByClass, object? extra)
    {
        (BroadcastOperation? operation, Session? except, Func<Session, bool>? predicate) = Read(extra);
        BroadcastResult result = Broadcast(data, messages, isByClass, except, predicate);
        operation?.Count(result);
    }

    /// <summary>One of shared bytes; their loan is this loop's.</summary>
    internal void DrainShared(SharedBroadcast broadcast, int offset, int length)
    {
        (BroadcastOperation? operation, Session? except, Func<Session, bool>? predicate) = Read(broadcast.Extra);
        BroadcastResult result = BroadcastShared(broadcast.Bytes.Loan, offset, length, except, predicate);
        operation?.Count(result);
    }

    private static (BroadcastOperation? Operation, Session? Except, Func<Session, bool>? Predicate) Read(object? extra) =>
        extra is BroadcastOperation operation ? (operation, operation.Except, operation.Predicate) : (null, extra as Session, extra as Func<Session, bool>);

    private BroadcastResult Distribute(Run run, int start, int length, ReadOnlySpan<int> messages, bool isByClass, Session? except, Func<Session, bool>? predicate)
    {
        int first = start;
        ReadOnlySpan<int> forms = isByClass ? messages : [];
        int formOf = -1; // start, length and messages are those of this class now
        int queued = 0;
        int skipped = 0;
        long backlog = 0;
        // A predicate, or who hears of a slow member, may make any member leave and others join, or broadcast in between: each
        // member of now that is still one at its turn is served, once; who joins comes behind the first place of the walk.
        _walks++;
        for (int i = _end - 1; i >= 0; i--)
        {
            if (_members[i] is not { } member) continue;
            if (except is not null && ReferenceEquals(member.Session, except)) continue;
            if (isByClass)
            {
                int memberClass = ClassAt(i);
                if (memberClass >= forms.Length || forms[memberClass] == 0) continue;
                if (memberClass != formOf)
                {
                    formOf = memberClass;
                    start = first + Sum(forms[..memberClass]);
                    length = forms[memberClass];
                    messages = forms.Slice(memberClass, 1);
                }
            }

            if (predicate is not null && !Matches(predicate, member)) continue;
            // What other threads have sent to it before goes first.
            if (member.HasInbox) member.SettleForeign();
            // Before the append: what this turn's flush has not seen yet says nothing about how fast the member reads.
            backlog += Math.Min(member.BytesPending, BacklogClip);
            if (member.AppendRun(run, start, length, messages)) queued++;
            else skipped++;
            Loop.FlushIfMany();
        }

        EndWalk();
        if (_count > 0 && backlog / _count > BacklogMark) Congest();
        return new BroadcastResult(queued, skipped);
    }

    private static int Sum(ReadOnlySpan<int> lengths)
    {
        int sum = 0;
        foreach (int length in lengths) sum += length;
        return sum;
    }

    private bool Matches(Func<Session, bool> predicate, Connection member)
    {
        try
        {
            return predicate(member.Session);
        }
        catch (Exception e)
        {
            Loop.Engine.ReportException("a broadcast predicate", e);
            return false;
        }
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
        for (int i = 0; i < _end; i++) backlog += Math.Min(_members[i]?.BytesPending ?? 0, BacklogClip);
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
