using Whimbrel.Connections;
using Whimbrel.Engines;

namespace Whimbrel;

/// <summary>
/// A set of sessions that get the same messages. Join, leave and broadcast from any thread; sessions leave by
/// themselves when they end. Membership is judged on the member's loop when it gets to the broadcast. From a loop, its
/// own members are served at once; each member sees the broadcasts of one caller in call order, and the members of one
/// loop see all broadcasts in one order.
/// </summary>
public class SessionGroup
{
    private readonly Lock _gate = new();
    private readonly bool _isHost;
    private GroupShard[] _shards = [];
    private int _count;

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
    public int Count => Volatile.Read(ref _count);

    /// <summary>True while the typical member is more than 32 KiB behind. A producer that sends without pause should await <see cref="WaitForRoomAsync"/>.</summary>
    public bool IsCongested
    {
        get
        {
            foreach (GroupShard shard in Volatile.Read(ref _shards))
            {
                if (shard.IsCongested) return true;
            }

            return false;
        }
    }

    /// <summary>Adds a session. Nothing happens when it is a member already or has ended.</summary>
    /// <param name="session">A connected session of any server, client or engine.</param>
    public void Join(Session session) => Change(session, DataKind.Join);

    /// <summary>Removes a session. Nothing happens when it is no member.</summary>
    /// <param name="session">The session.</param>
    public void Leave(Session session) => Change(session, DataKind.Leave);

    private void Change(Session session, DataKind change)
    {
        ArgumentNullException.ThrowIfNull(session);
        if (_isHost) throw new InvalidOperationException("The group of all sessions has its members by itself.");
        if (session.Connection is not { } connection) return;
        GroupShard shard = ShardOf(connection.Loop);
        Strand.Current?.FlushBatch();
        if (!connection.Loop.IsCurrent) connection.Loop.Mailbox.PostItem(change, connection, session.Generation, shard);
        else if (change == DataKind.Join) shard.DrainJoin(connection, session.Generation);
        else shard.DrainLeave(connection, session.Generation);
    }

    /// <summary>
    /// Sends the bytes to all members, or all but one. Never waits. A member at its limit is treated by its
    /// <see cref="SlowConsumer"/> policy; the others get the message.
    /// </summary>
    /// <param name="data">What to send. Free to be reused at once.</param>
    /// <param name="except">A session that does not get it, or null.</param>
    /// <returns><see cref="SendResult.Full"/> when a loop's mailbox was full, so that the members on that loop do not get it; else <see cref="SendResult.Queued"/>.</returns>
    public SendResult Broadcast(ReadOnlySpan<byte> data, Session? except = null)
    {
        SendResult result = SendResult.Queued;
        if (data.IsEmpty) return result;
        Strand.Current?.FlushBatch();
        foreach (GroupShard shard in Volatile.Read(ref _shards))
        {
            if (shard.Loop.IsCurrent) shard.Broadcast(data, except, null);
            else if (shard.Loop.Mailbox.PostBroadcast(shard, data, except, null) == SendResult.Full) result = SendResult.Full;
        }

        return result;
    }

    /// <summary>Sends the bytes to all members that match, waiting for room in the mailboxes, and counts. Completes when every loop has queued it.</summary>
    /// <param name="data">What to send. Not to be changed until it completes.</param>
    /// <param name="except">A session that does not get it, or null.</param>
    /// <param name="predicate">Chooses members; called on the member's loop. Null takes all.</param>
    /// <param name="cancellationToken">Gives up waiting for room; loops that took it already keep it.</param>
    public async ValueTask<BroadcastResult> BroadcastAsync(
        ReadOnlyMemory<byte> data,
        Session? except = null,
        Func<Session, bool>? predicate = null,
        CancellationToken cancellationToken = default)
    {
        GroupShard[] shards = Volatile.Read(ref _shards);
        if (shards.Length == 0 || data.IsEmpty) return default;
        Strand.Current?.FlushBatch();
        BroadcastOperation operation = new(shards[0].Loop.Engine, except, predicate);
        foreach (GroupShard shard in shards)
        {
            operation.Expect();
            if (shard.Loop.IsCurrent)
            {
                operation.Count(shard.Broadcast(data.Span, except, predicate));
                continue;
            }

            SendResult result;
            while ((result = shard.Loop.Mailbox.PostBroadcast(shard, data.Span, except, operation)) == SendResult.Full)
            {
                cancellationToken.ThrowIfCancellationRequested();
                await shard.Loop.Mailbox.WaitForRoom(data.Length).ConfigureAwait(false);
            }

            if (result == SendResult.Closed) operation.Count(default);
        }

        operation.Count(default);
        return await operation.Task.ConfigureAwait(false);
    }

    /// <summary>
    /// For producers that send without pause: completes when the mailboxes have room and the typical member has caught
    /// up. One dead member does not hold it: after a tenth of a second without any progress it completes, so that the
    /// slow-consumer policy can act.
    /// </summary>
    public async ValueTask WaitForRoomAsync()
    {
        foreach (GroupShard shard in Volatile.Read(ref _shards))
        {
            await shard.Loop.Mailbox.WaitForRoom(Mailbox.RunLimitBytes / 2).ConfigureAwait(false);
            if (!shard.IsCongested) continue;
            Completion<bool> waiter = new(shard.Loop.Engine);
            if (!shard.Loop.PostControl(static (_, s, w, _) => ((GroupShard)s!).AddWaiter((Completion<bool>)w!), shard, waiter)) continue;
            await waiter.Task.ConfigureAwait(false);
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

    internal GroupShard ShardOf(Loop loop)
    {
        foreach (GroupShard shard in Volatile.Read(ref _shards))
        {
            if (ReferenceEquals(shard.Loop, loop)) return shard;
        }

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
}
