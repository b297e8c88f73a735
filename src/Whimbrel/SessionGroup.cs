using System.Runtime.CompilerServices;
using System.Text;
using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel;

/// <summary>
/// A set of sessions that get the same messages. Join, leave and broadcast from any thread; sessions leave by
/// themselves when they end. Membership is judged on the member's loop when it gets to the broadcast. From a loop, its
/// own members are served at once; each member sees the broadcasts of one caller in call order, and the members of one
/// loop see all broadcasts in one order.
/// </summary>
/// <remarks>
/// A group that <see cref="NamedGroups"/> gave acts for its name: while another object is listed under that name, each call
/// goes to that one. So it may be kept, and used after it was dropped for being empty.
/// </remarks>
public class SessionGroup
{
    private readonly Lock _gate = new();
    private readonly bool _isHost;
    private GroupShard[] _shards = [];
    private int _count;

    // What makes it last in a directory: its members, and the joins under way to them. With the two flags under the gate.
    private int _holds;
    private NamedGroups? _directory;
    private bool _isListed;
    private bool _isKept;

    /// <summary>Makes an empty group.</summary>
    /// <param name="name">For logs.</param>
    public SessionGroup(string name = "")
    {
        ArgumentNullException.ThrowIfNull(name);
        Name = name;
    }

    internal SessionGroup(string name, bool isHost)
        : this(name) => _isHost = isHost;

    /// <summary>The name it was made with.</summary>
    public string Name { get; }

    /// <summary>Members now. Any thread; a moment old.</summary>
    public int Count => Volatile.Read(ref Target._count);

    /// <summary>True while the typical member is more than 32 KiB behind. A producer that sends without pause should await <see cref="WaitForRoomAsync"/>.</summary>
    public bool IsCongested
    {
        get
        {
            foreach (GroupShard shard in Volatile.Read(ref Target._shards))
            {
                if (shard.IsCongested) return true;
            }

            return false;
        }
    }

    /// <summary>Adds a session. Nothing happens when it is a member already, is not connected yet, or has ended.</summary>
    /// <param name="session">A connected session of any server, client or engine.</param>
    public void Join(Session session)
    {
        CheckChange(session);
        if (session.Connection is not { } connection) return;
        // Held from here on: between this call and the loop's turn nobody else's leave drops the group.
        SessionGroup group = Hold();
        GroupShard shard = group.ShardOf(connection.Loop);
        if (connection.Loop.IsCurrent) shard.DrainJoin(connection, session.Generation);
        else if (!connection.Loop.Mailbox.PostItem(DataKind.Join, connection, session.Generation, shard)) group.Release();
    }

    /// <summary>Removes a session. Nothing happens when it is no member.</summary>
    /// <param name="session">The session.</param>
    public void Leave(Session session)
    {
        CheckChange(session);
        if (session.Connection is not { } connection || Target.FindShard(connection.Loop) is not { } shard) return;
        if (connection.Loop.IsCurrent) shard.DrainLeave(connection, session.Generation);
        else connection.Loop.Mailbox.PostItem(DataKind.Leave, connection, session.Generation, shard);
    }

    /// <summary>Removes all members of this moment. On each loop it takes its place among the caller's other calls.</summary>
    public void Clear()
    {
        CheckChange();
        foreach (GroupShard shard in Volatile.Read(ref Target._shards))
        {
            if (shard.Loop.IsCurrent) shard.DrainLeaveAll();
            else shard.Loop.Mailbox.PostItem(DataKind.LeaveAll, null, 0, shard);
        }
    }

    // ------------------------------------------------------------------ looking at members

    /// <summary>Its members on the current loop, to enumerate. On a loop's thread only; those of the other loops have a <see cref="GroupMembers"/> there.</summary>
    /// <exception cref="InvalidOperationException">This thread is no loop's.</exception>
    public GroupMembers MembersHere
    {
        get
        {
            Loop? loop = Loop.Current;
            if (loop is null) Throw.NotOnLoop(nameof(MembersHere));
            return new GroupMembers(Target.FindShard(loop));
        }
    }

    /// <summary>
    /// Calls <paramref name="action"/> for each member on its loop, outside of any callback; several at a time when there are several loops.
    /// Completes when all loops have done so. Members are those of the moment in which a loop gets to it. With
    /// <see cref="Scheduling.ThreadPool"/> the callbacks of a session may run at the same time: post to it (<see cref="Session.Post(Action)"/>).
    /// Any thread; blocking on it on a loop throws.
    /// </summary>
    /// <param name="action">Must not block. When it throws, the others are visited all the same, and the first exception goes to who awaits.</param>
    public ValueTask ForEachAsync(Action<Session> action)
    {
        ArgumentNullException.ThrowIfNull(action);
        Strand.Current?.FlushBatch();
        GroupShard[] shards = Volatile.Read(ref Target._shards);
        if (shards.Length == 0) return default;
        MemberVisit visit = new(shards[0].Loop.Engine, action, shards.Length);
        ValueTask task = visit.PlainTask;
        foreach (GroupShard shard in shards)
        {
            // A loop that has ended has no members.
            if (!shard.Loop.PostControl(static (_, v, s, _) => ((MemberVisit)v!).Run((GroupShard)s!), visit, shard)) visit.LoopDone();
        }

        return task;
    }

    private void CheckChange(Session session)
    {
        ArgumentNullException.ThrowIfNull(session);
        CheckChange();
    }

    /// <summary>Before a change of the members; what a callback on the pool has sent comes before it (contracts 7, 14).</summary>
    private void CheckChange()
    {
        if (_isHost) throw new InvalidOperationException("The group of all sessions has its members by itself.");
        Strand.Current?.FlushBatch();
    }

    /// <summary>
    /// Sends the bytes to all members, or all but one. Never waits. All loops take it or none does. A member at its limit is treated by its
    /// <see cref="SlowConsumer"/> policy and counted (<see cref="ServerCounters.BroadcastsDropped"/>); the others get the message.
    /// </summary>
    /// <param name="data">What to send. Free to be reused at once.</param>
    /// <param name="except">A session that does not get it, or null.</param>
    /// <returns>
    /// <see cref="SendResult.Full"/> when a loop has no room for it now: then nobody gets it, on no loop. Else <see cref="SendResult.Queued"/>;
    /// a loop that has ended has no members, and counts for nothing.
    /// </returns>
    [OverloadResolutionPriority(1)]
    public SendResult Broadcast(ReadOnlySpan<byte> data, Session? except = null) => Broadcast(data, except, null);

    /// <summary>Sends the bytes to the members that match; in all else the same.</summary>
    /// <param name="data">What to send. Free to be reused at once.</param>
    /// <param name="predicate">
    /// Chooses members, each on its own loop, later than this call when that is not the caller's loop. Of several
    /// broadcasts in a row with the same delegate it may choose once for all. If it throws, that member is left out and a notice tells.
    /// </param>
    public SendResult Broadcast(ReadOnlySpan<byte> data, Func<Session, bool> predicate)
    {
        ArgumentNullException.ThrowIfNull(predicate);
        return Broadcast(data, null, predicate);
    }

    private SendResult Broadcast(ReadOnlySpan<byte> data, Session? except, Func<Session, bool>? predicate)
    {
        if (data.IsEmpty) return SendResult.Queued;
        Strand.Current?.FlushBatch();
        GroupShard[] shards = Volatile.Read(ref Target._shards);
        if (Reserve(shards, data.Length) is { } full)
        {
            full.Loop.Engine.CountRefusedBroadcast();
            return SendResult.Full;
        }

        object? extra = predicate ?? (object?)except;
        foreach (GroupShard shard in shards)
        {
            if (shard.Loop.IsCurrent) shard.Broadcast(data, except, predicate);
            else shard.Loop.Mailbox.PostBroadcast(shard, data, extra);
        }

        return SendResult.Queued;
    }

    /// <summary>Room on all loops but the caller's own, which needs none, or on no loop: then it gives the first that had none.</summary>
    private static GroupShard? Reserve(GroupShard[] shards, int length)
    {
        for (int i = 0; i < shards.Length; i++)
        {
            if (shards[i].Loop.IsCurrent || shards[i].Loop.Mailbox.TryReserveRun(length)) continue;
            for (int taken = 0; taken < i; taken++)
            {
                if (!shards[taken].Loop.IsCurrent) shards[taken].Loop.Mailbox.GiveBackRun(length);
            }

            return shards[i];
        }

        return null;
    }

    /// <summary>Sends the text as UTF-8, encoded once; in all else the same.</summary>
    /// <param name="text">What to send.</param>
    /// <param name="except">A session that does not get it, or null.</param>
    public SendResult Broadcast(string text, Session? except = null)
    {
        ArgumentNullException.ThrowIfNull(text);
        using Utf8Text encoded = new(text, stackalloc byte[Utf8Text.SmallBytes]);
        return Broadcast(encoded.Bytes, except);
    }

    /// <summary>
    /// Sends the bytes to all members that match, waiting for room on all loops, and counts. Completes when every loop has queued it for its
    /// members.
    /// </summary>
    /// <param name="data">What to send. Not to be changed until it completes.</param>
    /// <param name="except">A session that does not get it, or null.</param>
    /// <param name="predicate">Chooses members; called on the member's loop. Null takes all.</param>
    /// <param name="cancellationToken">Gives up waiting: for room, then nobody gets it; or for the counts, when all loops have it.</param>
    [OverloadResolutionPriority(1)]
    public ValueTask<BroadcastResult> BroadcastAsync(
        ReadOnlyMemory<byte> data,
        Session? except = null,
        Func<Session, bool>? predicate = null,
        CancellationToken cancellationToken = default) => BroadcastAsync(data, Timeout.InfiniteTimeSpan, except, predicate, cancellationToken);

    /// <summary>The same, waiting for room for at most so long. Then <see cref="BroadcastResult.Result"/> is <see cref="SendResult.Full"/>, and nobody gets it.</summary>
    /// <param name="data">What to send. Not to be changed until it completes.</param>
    /// <param name="timeout">How long to wait for room; zero only tries, <see cref="Timeout.InfiniteTimeSpan"/> has no limit. A loop that is blocked does not make it longer.</param>
    /// <param name="except">A session that does not get it, or null.</param>
    /// <param name="predicate">Chooses members; called on the member's loop. Null takes all.</param>
    /// <param name="cancellationToken">As above.</param>
    [OverloadResolutionPriority(1)]
    public ValueTask<BroadcastResult> BroadcastAsync(
        ReadOnlyMemory<byte> data,
        TimeSpan timeout,
        Session? except = null,
        Func<Session, bool>? predicate = null,
        CancellationToken cancellationToken = default) =>
        SessionOrder.Keep(SessionOrder.Leave(), SendToAllAsync(data, timeout, except, predicate, cancellationToken));

    private async ValueTask<BroadcastResult> SendToAllAsync(ReadOnlyMemory<byte> data, TimeSpan timeout, Session? except, Func<Session, bool>? predicate, CancellationToken cancellationToken)
    {
        if (timeout < TimeSpan.Zero && timeout != Timeout.InfiniteTimeSpan) Throw.OutOfRange(nameof(timeout), timeout, "zero, positive, or Timeout.InfiniteTimeSpan");
        cancellationToken.ThrowIfCancellationRequested();
        if (data.IsEmpty) return default;
        Strand.Current?.FlushBatch();
        GroupShard[] shards = Volatile.Read(ref Target._shards);
        long? beganMs = null;
        while (Reserve(shards, data.Length) is { } full)
        {
            long nowMs = full.Loop.Engine.NowMs;
            beganMs ??= nowMs;
            bool isLimited = timeout != Timeout.InfiniteTimeSpan;
            TimeSpan rest = isLimited ? timeout - TimeSpan.FromMilliseconds(nowMs - beganMs.Value) : timeout;
            // A limit that has passed by a millisecond looks like none: what was asked for decides.
            if ((isLimited && rest <= TimeSpan.Zero) || !await full.Loop.Mailbox.WaitForRoom(data.Length, rest, cancellationToken).ConfigureAwait(false))
            {
                full.Loop.Engine.CountRefusedBroadcast();
                return new BroadcastResult(0, 0, SendResult.Full);
            }

            cancellationToken.ThrowIfCancellationRequested();
            shards = Volatile.Read(ref Target._shards);
        }

        if (shards.Length == 0) return default;
        return await PostCounted(shards, data, except, predicate, cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Room was reserved.</summary>
    private static async ValueTask<BroadcastResult> PostCounted(GroupShard[] shards, ReadOnlyMemory<byte> data, Session? except, Func<Session, bool>? predicate, CancellationToken cancellationToken)
    {
        BroadcastOperation operation = new(shards[0].Loop.Engine, except, predicate);
        foreach (GroupShard shard in shards)
        {
            operation.Expect();
            if (shard.Loop.IsCurrent) operation.Count(shard.Broadcast(data.Span, except, predicate));
            else if (!shard.Loop.Mailbox.PostBroadcast(shard, data.Span, operation)) operation.Count(default);
        }

        operation.Count(default);
        ValueTask<BroadcastResult> counted = operation.Task;
        operation.WatchCancellation(cancellationToken);
        return await counted.ConfigureAwait(false);
    }

    /// <summary>Sends the text as UTF-8, encoded once, waiting for room; in all else as the form with bytes.</summary>
    /// <param name="text">What to send.</param>
    /// <param name="except">A session that does not get it, or null.</param>
    /// <param name="predicate">Chooses members; called on the member's loop. Null takes all.</param>
    /// <param name="cancellationToken">Gives up waiting: for room, then nobody gets it; or for the counts, when all loops have it.</param>
    public ValueTask<BroadcastResult> BroadcastAsync(string text, Session? except = null, Func<Session, bool>? predicate = null, CancellationToken cancellationToken = default) =>
        BroadcastAsync(text, Timeout.InfiniteTimeSpan, except, predicate, cancellationToken);

    /// <summary>The same, waiting for room for at most so long. Then <see cref="BroadcastResult.Result"/> is <see cref="SendResult.Full"/>, and nobody gets it.</summary>
    /// <param name="text">What to send.</param>
    /// <param name="timeout">How long to wait for room; zero only tries, <see cref="Timeout.InfiniteTimeSpan"/> has no limit.</param>
    /// <param name="except">A session that does not get it, or null.</param>
    /// <param name="predicate">Chooses members; called on the member's loop. Null takes all.</param>
    /// <param name="cancellationToken">As above.</param>
    public ValueTask<BroadcastResult> BroadcastAsync(string text, TimeSpan timeout, Session? except = null, Func<Session, bool>? predicate = null, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(text);
        return BroadcastAsync(Encoding.UTF8.GetBytes(text), timeout, except, predicate, cancellationToken);
    }

    /// <summary>
    /// For producers that send without pause: completes when the mailboxes have room and the typical member has caught
    /// up. One dead member does not hold it: after a tenth of a second without any progress it completes, so that the
    /// slow-consumer policy can act.
    /// </summary>
    /// <param name="cancellationToken">Gives up waiting.</param>
    public ValueTask WaitForRoomAsync(CancellationToken cancellationToken = default) => SessionOrder.Keep(SessionOrder.Leave(), WaitForAllAsync(cancellationToken));

    private async ValueTask WaitForAllAsync(CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        foreach (GroupShard shard in Volatile.Read(ref Target._shards))
        {
            await shard.Loop.Mailbox.WaitForRoom(Mailbox.RunLimitBytes / 2, cancellationToken).ConfigureAwait(false);
            if (!shard.IsCongested) continue;
            RoomWait waiter = new(shard.Loop.Engine);
            if (!shard.Loop.PostControl(static (_, s, w, _) => ((GroupShard)s!).AddWaiter((RoomWait)w!), shard, waiter)) continue;
            ValueTask<bool> task = waiter.Task;
            waiter.WatchCancellation(cancellationToken);
            await task.ConfigureAwait(false);
        }
    }

    /// <summary>The group got its first member, or lost its last. On that member's loop; calls for different loops may cross.</summary>
    /// <param name="isOccupied">True for the first join, false for the last leave.</param>
    protected virtual void OnOccupiedChanged(bool isOccupied)
    {
    }

    /// <summary>Name and number of members.</summary>
    public override string ToString() => $"{Name} ({Count})";

    internal void MemberAdded()
    {
        if (Interlocked.Increment(ref _count) == 1) Tell(true);
    }

    internal void MemberRemoved()
    {
        if (Interlocked.Decrement(ref _count) == 0) Tell(false);
        Release();
    }

    private void Tell(bool isOccupied)
    {
        try
        {
            OnOccupiedChanged(isOccupied);
        }
        catch (Exception e)
        {
            Loop.Current?.Engine.NoteException(nameof(OnOccupiedChanged), e);
        }
    }

    // ------------------------------------------------------------------ shards

    private GroupShard? FindShard(Loop loop)
    {
        foreach (GroupShard shard in Volatile.Read(ref _shards))
        {
            if (ReferenceEquals(shard.Loop, loop)) return shard;
        }

        return null;
    }

    internal GroupShard ShardOf(Loop loop)
    {
        if (FindShard(loop) is { } found) return found;
        lock (_gate)
        {
            foreach (GroupShard shard in _shards)
            {
                if (ReferenceEquals(shard.Loop, loop)) return shard;
            }

            GroupShard added = new(this, loop, _isHost);
            Volatile.Write(ref _shards, [.. _shards, added]);
            return added;
        }
    }

    // ------------------------------------------------------------------ its place in a directory (docs/design/0013)

    /// <summary>
    /// The object that has this one's name now. One that is not listed has no members and no joins under way, so nothing
    /// is lost by looking elsewhere.
    /// </summary>
    private SessionGroup Target =>
        Volatile.Read(ref _directory) is not { } directory || Volatile.Read(ref _isListed) ? this : directory.Find(Name) ?? this;

    /// <summary>For <see cref="NamedGroups"/>: from now on this object acts for its name there.</summary>
    internal void ActFor(NamedGroups directory) => _directory = directory;

    /// <summary>Lists it until <see cref="Unkeep"/>, also while it has no members. False when the name is taken.</summary>
    internal bool TryKeep(NamedGroups directory)
    {
        lock (_gate)
        {
            if (_directory is not null) throw new InvalidOperationException($"The group '{Name}' is in a directory already.");
            if (!directory.TryList(this)) return false;
            _isKept = true;
            Volatile.Write(ref _isListed, true);
            Volatile.Write(ref _directory, directory);
            return true;
        }
    }

    /// <summary>It goes when its last member has left; at once when it has none.</summary>
    internal void Unkeep()
    {
        lock (_gate)
        {
            _isKept = false;
            DropIfUnused();
        }
    }

    /// <summary>One more hold on the object that has the name, listing this one when there is none. Pairs with <see cref="Release"/>.</summary>
    private SessionGroup Hold()
    {
        SessionGroup group = this;
        while (true)
        {
            // Listing, holding and dropping one object are one step each under its gate: the last leave either comes
            // first, and the name is free, or finds the hold of this join and drops nothing.
            lock (group._gate)
            {
                if (group._directory is null || group._isListed || group._directory.TryList(group))
                {
                    if (group._directory is not null) Volatile.Write(ref group._isListed, true);
                    group._holds++;
                    return group;
                }
            }

            group = _directory!.Find(Name) ?? this;
        }
    }

    /// <summary>A member has left, or a join came to nothing.</summary>
    internal void Release()
    {
        if (_isHost) return;
        lock (_gate)
        {
            _holds--;
            DropIfUnused();
        }
    }

    private void DropIfUnused()
    {
        if (_holds > 0 || _isKept || !_isListed) return;
        Volatile.Write(ref _isListed, false);
        _directory!.Unlist(this);
    }
}
