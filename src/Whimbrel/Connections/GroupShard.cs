using System.Buffers;
using Whimbrel.Buffers;
using Whimbrel.Engines;

namespace Whimbrel.Connections;

/// <summary>
/// Members of a group on one loop. Loop's thread only, except the count. Small broadcasts of one turn are written once
/// into a run that members queue by reference; a member that has sent the previous ones only extends its reference. The
/// run returns to the loop's pool when all members have sent it, so a quiet group holds none.
/// </summary>
internal sealed class GroupShard : IMailboxReceiver
{
    private const string SharedText = "memory that was broadcast";
    private const long BacklogMark = 32 * 1024;
    private const long BacklogClip = 2 * BacklogMark;

    private readonly bool _isHost;
    private RunWriter _runs;

    // The first _end entries. An entry that is removed during an enumeration stays empty until the outermost
    // enumeration has ended.
    private Connection?[] _members = [];
    private byte[] _classes = []; // of the same entries; entries beyond its length have class 0
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

    /// <summary>Copy of the current members, for code that ends or notifies them.</summary>
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

    /// <summary>
    /// True if the average member has a backlog, so that producers that check it should wait. Any thread.
    /// </summary>
    internal bool IsCongested => Volatile.Read(ref _isCongested);

    // ------------------------------------------------------------------ members

    internal bool Contains(Connection connection) => IndexOf(connection) >= 0;

    private int IndexOf(Connection connection)
    {
        if (_isHost) return connection.HostMemberIndex;
        if (connection.MembershipsIfAny is not { } memberships) return -1;
        // From the end, where an ending connection removes them: a member of thousands of groups does not search for
        // each.
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
        // During an enumeration no member is moved, because it could be served twice, or not at all.
        if (_walks == 0) FillPlace(index);
        SetIndex(connection, -1);
        Volatile.Write(ref _count, _count - 1);
        if (_count == 0) _runs.Close();
        Group.MemberRemoved(memberClass);
    }

    /// <summary>Moves the last member to an empty entry, and drops empty entries at the end.</summary>
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

    /// <summary>Ends an enumeration. Entries emptied during it are filled when the outermost one has ended.</summary>
    private void EndWalk()
    {
        if (--_walks > 0 || _end == _count) return;
        for (int i = 0; i < _end; i++)
        {
            if (_members[i] is null) FillPlace(i);
        }
    }

    // ------------------------------------------------------------------ posts of other threads

    void IMailboxReceiver.RunItem(in DataItem item, ReadOnlySpan<byte> bytes, ReadOnlySpan<int> lengths)
    {
        switch (item.Kind)
        {
            case DataKind.Join:
                DrainJoin((Connection)item.Subject!, item.Generation, item.Value);
                break;
            case DataKind.Leave:
                DrainLeave((Connection)item.Subject!, item.Generation);
                break;
            case DataKind.LeaveAll:
                DrainLeaveAll();
                break;
            case DataKind.SharedBroadcast:
                DrainShared((SharedBroadcast)item.Payload!);
                break;
            default:
                DrainBroadcast(bytes, lengths, item.Kind == DataKind.FormedBroadcast, item.Extra);
                break;
        }
    }

    bool IMailboxReceiver.Concerns(in DataItem item, Resident resident) => item.Kind switch
    {
        DataKind.Join => ReferenceEquals(item.Subject, resident) && item.Generation == resident.Generation,
        DataKind.Leave => false,
        _ => Contains((Connection)resident),
    };

    /// <summary>
    /// Completes a join, for which the group was held: adds the member, or releases the hold. Earlier sends of other
    /// threads to the member come before broadcasts that it gets from now on.
    /// </summary>
    internal void DrainJoin(Connection connection, uint generation, int memberClass)
    {
        connection.Outbound.SettleForeign();
        if (connection.Generation == generation && connection.State == ConnectionState.Open && !Contains(connection))
            Add(connection, memberClass);
        else Group.Release(memberClass);
    }

    internal void DrainLeave(Connection connection, uint generation)
    {
        if (connection.Generation == generation) Remove(connection);
    }

    internal void DrainLeaveAll()
    {
        // Members that join during this call (called because the last one has left) are added after the others and
        // stay.
        _walks++;
        for (int i = _end - 1; i >= 0; i--)
        {
            if (_members[i] is { } member) Remove(member);
        }

        EndWalk();
    }

    // ------------------------------------------------------------------ broadcasts

    /// <summary>
    /// Broadcasts from this loop's own thread: queued at once, after earlier sends of other threads to the members
    /// (contract 7), because the caller may have come from there.
    /// </summary>
    internal BroadcastResult Broadcast(in BroadcastData data, Session? except, Func<Session, bool>? predicate)
    {
        if (data.Shared is { } shared)
            return BroadcastShared(shared.LendMore(), data.Offset, data.Length, except, predicate);
        if (data.Forms.Length > 0) return Broadcast(data.Bytes, data.Forms, isByClass: true, except, predicate);
        return Broadcast(data.Bytes, [data.Length], isByClass: false, except, predicate);
    }

    /// <param name="data">Bytes of all messages.</param>
    /// <param name="messages">Lengths of joined messages, which all members get; or lengths of one message's forms, by
    /// class.</param>
    /// <param name="isByClass">True if <paramref name="messages"/> has forms.</param>
    /// <param name="except">Session that does not get it; or null.</param>
    /// <param name="predicate">Selects the members; or null.</param>
    private BroadcastResult Broadcast(ReadOnlySpan<byte> data, ReadOnlySpan<int> messages, bool isByClass,
        Session? except, Func<Session, bool>? predicate)
    {
        if (_count == 0 || data.IsEmpty) return default;
        // A predicate or a diagnostic event handler may broadcast or leave meanwhile, so a reference holds the run.
        Run run = _runs.Write(data, out int start);
        BroadcastResult result = Distribute(run, start, data.Length, messages, isByClass, except, predicate);
        Loop.Blocks.Release(run);
        return result;
    }

    /// <summary>Queues the user's memory itself. The reference is released when the last member has sent it.</summary>
    private BroadcastResult BroadcastShared(IMemoryOwner<byte> loan, int offset, int length, Session? except,
        Func<Session, bool>? predicate)
    {
        Run run;
        try
        {
            run = Loop.Blocks.TakeSharedRun(loan, offset, length);
        }
        catch (Exception e)
        {
            // The user's memory could not be pinned. The members do not get the message, as with a predicate that
            // throws.
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

    /// <summary>Processes joined broadcasts of the mailbox, or one broadcast in the forms of several classes.</summary>
    /// <param name="data">Bytes of all messages.</param>
    /// <param name="messages">Lengths of the messages, or of the forms.</param>
    /// <param name="isByClass">True if <paramref name="messages"/> has forms.</param>
    /// <param name="extra">Session that does not get them, predicate, or operation of an awaited broadcast; or
    /// null.</param>
    private void DrainBroadcast(ReadOnlySpan<byte> data, ReadOnlySpan<int> messages, bool isByClass, object? extra)
    {
        (BroadcastOperation? operation, Session? except, Func<Session, bool>? predicate) = Read(extra);
        BroadcastResult result = Broadcast(data, messages, isByClass, except, predicate);
        operation?.Count(result);
    }

    /// <summary>Processes a broadcast of shared bytes, with a reference of this loop.</summary>
    private void DrainShared(SharedBroadcast broadcast)
    {
        (BroadcastOperation? operation, Session? except, Func<Session, bool>? predicate) = Read(broadcast.Extra);
        BroadcastResult result = BroadcastShared(broadcast.Bytes.Loan, broadcast.Offset, broadcast.Length, except,
            predicate);
        operation?.Count(result);
    }

    private static (BroadcastOperation? Operation, Session? Except, Func<Session, bool>? Predicate) Read(
        object? extra) =>
        extra is BroadcastOperation operation
            ? (operation, operation.Except, operation.Predicate)
            : (null, extra as Session, extra as Func<Session, bool>);

    private BroadcastResult Distribute(Run run, int start, int length, ReadOnlySpan<int> messages, bool isByClass,
        Session? except, Func<Session, bool>? predicate)
    {
        int first = start;
        ReadOnlySpan<int> forms = isByClass ? messages : [];
        int formOf = -1; // class of start, length and messages now
        int queued = 0;
        int skipped = 0;
        long backlog = 0;
        // A predicate, or a handler called for a slow member, may remove any member, add others, or broadcast
        // meanwhile. Each current member that is still one at its turn is served once. New members are added after the
        // first entry of this enumeration.
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
            // Earlier sends of other threads to this member come first.
            if (member.HasInbox) member.Outbound.SettleForeign();
            // Before the append, because data of this turn does not show how fast the member reads.
            backlog += Math.Min(member.BytesPending, BacklogClip);
            if (member.Outbound.AppendRun(run, start, length, messages)) queued++;
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
    /// Marks the shard as congested and checks again soon. One dead peer does not stop producers, because each member
    /// counts for at most twice the mark. If no member takes anything for a while, the mark is removed, so that the
    /// slow-consumer policy applies.
    /// </summary>
    private void Congest()
    {
        if (_isCongested) return;
        Volatile.Write(ref _isCongested, true);
        _sentAtCongestion = Loop.Counters.BytesSent;
        // also when the engine is stopped: no producer may wait forever
        _congestionTimer = Loop.StartTimer(TimeSpan.FromMilliseconds(1),
            static (state, _) => ((GroupShard)state!).LookAgain(), this, TimeSpan.FromMilliseconds(1));
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

    /// <summary>Completes the waiter when the group is not congested, or not any more. Loop's thread.</summary>
    internal void AddWaiter(RoomWait waiter)
    {
        if (_isCongested) (_waiters ??= []).Add(waiter);
        else waiter.TryComplete();
    }
}
