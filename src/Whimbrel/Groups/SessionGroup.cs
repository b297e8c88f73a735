using System.Buffers;
using System.Runtime.CompilerServices;
using System.Text;
using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel;

/// <summary>
/// A set of sessions that receive the same messages. Join, leave and broadcast are thread-safe; sessions leave
/// automatically when they end. Membership is evaluated on the member's loop when the loop processes the broadcast. A
/// broadcast made on a loop reaches that loop's members at once. Each member receives the broadcasts of one caller in
/// call order, and the members of one loop receive all broadcasts in the same order.
/// </summary>
/// <remarks>
/// A group from <see cref="NamedGroups"/> stands for its name: while another object is listed under that name, each
/// call is forwarded to it. So a reference may be kept and used after the group was removed for being empty.
/// </remarks>
public class SessionGroup
{
    /// <summary>Number of member classes: 0 to 15.</summary>
    internal const int MemberClasses = 16;

    private readonly Lock _gate = new();
    private readonly bool _isHost;
    private GroupShard[] _shards = [];
    private int _count;

    // Members and pending joins keep the group in its directory. Guarded by the lock, like the two flags.
    private int _holds;
    private int[]? _holdsOfClass; // for classes above 0, created when needed
    private NamedGroups? _directory;
    private string? _refusal; // of plain bytes, set by a joining session and never cleared
    private bool _isListed;
    private bool _isKept;

    /// <summary>Creates an empty group.</summary>
    /// <param name="name">Name for logs.</param>
    public SessionGroup(string name = "")
    {
        ArgumentNullException.ThrowIfNull(name);
        Name = name;
    }

    internal SessionGroup(string name, bool isHost)
        : this(name) => _isHost = isHost;

    /// <summary>Name of the group.</summary>
    public string Name { get; }

    /// <summary>Current number of members. Any thread; may be slightly outdated.</summary>
    public int Count => Volatile.Read(ref Target._count);

    /// <summary>
    /// True while the typical member has more than 32 KiB pending. A producer that sends continuously should await
    /// <see cref="WaitForRoomAsync"/>.
    /// </summary>
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

    /// <summary>
    /// Adds a session, as a member of its <see cref="Session.MemberClass"/>. Has no effect if it is a member already or
    /// has ended. Any thread.
    /// </summary>
    /// <param name="session">Connected session of any server, client or engine.</param>
    /// <exception cref="InvalidOperationException">The session is not connected yet, or this is the group of all
    /// sessions.</exception>
    public void Join(Session session)
    {
        ArgumentNullException.ThrowIfNull(session);
        Join(session, session.MemberClass);
    }

    /// <summary>
    /// Adds a session as a member of a class, for broadcasts that are encoded for each class
    /// (<see cref="Broadcast{TState}(TState, BroadcastEncoder{TState}, Session)"/>). To change the class, leave and
    /// join.
    /// </summary>
    /// <param name="session">Connected session of any server, client or engine.</param>
    /// <param name="memberClass">Class, 0 to 15, with a meaning defined by the protocol. 0 is for sessions without an
    /// encoding of their own, and for all members of <see cref="Server.Sessions"/>.</param>
    /// <exception cref="ArgumentException">Class 0 for a session whose protocol has its own encoding
    /// (<see cref="Session.MemberClass"/>).</exception>
    /// <exception cref="InvalidOperationException">The session is not connected yet, or this is the group of all
    /// sessions.</exception>
    public void Join(Session session, int memberClass)
    {
        CheckChange(session);
        if ((uint)memberClass >= MemberClasses)
            Throw.OutOfRange(nameof(memberClass), memberClass, $"between 0 and {MemberClasses - 1}");
        if (!session.HasConnected)
            Throw.State($"{session.DisplayName} cannot join a group before it is connected. Call Join in "
                + $"OnConnected or later.");
        if (memberClass == 0 && session.MemberClass != 0)
            throw new ArgumentException($"Members of class 0 get plain bytes, and the protocol of "
                + $"{session.DisplayName} has a form of its own. Use Join(session), which knows its class.",
                nameof(memberClass));
        if (session.Connection is not { } connection) return;
        // Held from here on: until the loop processes the join, another member's leave must not drop the group, and
        // broadcasts are encoded for this class.
        SessionGroup group = Hold(memberClass);
        group.Admit(session);
        GroupShard shard = group.ShardOf(connection.Loop);
        if (connection.Loop.IsCurrent)
        {
            shard.DrainJoin(connection, session.Generation, memberClass);
        }
        else if (!connection.Loop.Mailbox.Post(new DataItem
        {
            Kind = DataKind.Join,
            Receiver = shard,
            Subject = connection,
            Generation = session.Generation,
            Value = memberClass
        }))
        {
            group.Release(memberClass);
        }
    }

    /// <summary>Records whether a new member's protocol allows broadcasts of plain bytes.</summary>
    internal void Admit(Session session)
    {
        if (session.BroadcastRefusal is { } why) Volatile.Write(ref _refusal, why);
    }

    /// <summary>Throws if a member's protocol needs an encoding that the broadcast does not have.</summary>
    private static void CheckForms(SessionGroup group, bool hasForms)
    {
        if (Volatile.Read(ref group._refusal) is not { } why || (hasForms && !group._isHost)) return;
        if (group._isHost)
            Throw.State("The group of all sessions of a server takes plain bytes only, and the protocol of some "
                + "members has a form of its own, so nothing was sent. Let the sessions join a SessionGroup in "
                + "OnConnected, and broadcast to that.");
        Throw.State($"Broadcast sends plain bytes, and nothing was sent: {why}");
    }

    /// <summary>Removes a session. Has no effect if it is not a member.</summary>
    /// <param name="session">The session.</param>
    public void Leave(Session session)
    {
        CheckChange(session);
        if (session.Connection is not { } connection || Target.FindShard(connection.Loop) is not { } shard) return;
        if (connection.Loop.IsCurrent) shard.DrainLeave(connection, session.Generation);
        else
            connection.Loop.Mailbox.Post(new DataItem
            {
                Kind = DataKind.Leave,
                Receiver = shard,
                Subject = connection,
                Generation = session.Generation
            });
    }

    /// <summary>
    /// Removes all current members. On each loop it takes effect in order with the caller's other calls.
    /// </summary>
    public void Clear()
    {
        CheckChange();
        foreach (GroupShard shard in Volatile.Read(ref Target._shards))
        {
            if (shard.Loop.IsCurrent) shard.DrainLeaveAll();
            else shard.Loop.Mailbox.Post(new DataItem { Kind = DataKind.LeaveAll, Receiver = shard });
        }
    }

    // ------------------------------------------------------------------ enumerating members

    /// <summary>
    /// The members on the current loop, for enumeration. On a loop's thread only; each loop has its own
    /// <see cref="GroupMembers"/>.
    /// </summary>
    /// <exception cref="InvalidOperationException">The current thread is not a loop's thread.</exception>
    public GroupMembers MembersHere
    {
        get
        {
            Loop? loop = Loop.Current;
            if (loop is null) Throw.NotOnLoop(nameof(MembersHere));
            return new GroupMembers(Target.FindShard(loop));
        }
    }

    /// <summary>Returns the number of members on one loop. Any thread, also while the loop is busy.</summary>
    /// <param name="loop">Loop of any engine.</param>
    public int CountOn(Loop loop)
    {
        ArgumentNullException.ThrowIfNull(loop);
        return Target.FindShard(loop)?.Count ?? 0;
    }

    /// <summary>
    /// Calls <paramref name="action"/> for each member on its loop, outside of callbacks; several at the same time if
    /// there are several loops. Completes when all loops have done so. Includes the sessions that are members when
    /// their loop runs it. With <see cref="Scheduling.ThreadPool"/> callbacks of a session may run at the same time:
    /// use <see cref="Session.Post(Action)"/>. Any thread; blocking on it on a loop throws.
    /// </summary>
    /// <param name="action">Action to call; must not block. If it throws, the other members are still visited, and the
    /// first exception goes to the awaiting code.</param>
    public ValueTask ForEachAsync(Action<Session> action)
    {
        ArgumentNullException.ThrowIfNull(action);
        GroupShard[] shards = Volatile.Read(ref Target._shards);
        if (shards.Length == 0) return default;
        MemberVisit visit = new(shards[0].Loop.Engine, action, shards.Length);
        ValueTask task = visit.PlainTask;
        foreach (GroupShard shard in shards)
        {
            // A loop that has ended has no members.
            if (!shard.Loop.PostControl(static (_, v, s, _) => ((MemberVisit)v!).Run((GroupShard)s!), visit, shard))
                visit.LoopDone();
        }

        return task;
    }

    /// <summary>Not available for async functions, because their completion and exceptions would be ignored.</summary>
    /// <param name="function">Not called.</param>
    /// <exception cref="NotSupportedException">Always.</exception>
    [Obsolete("ForEachAsync does not wait for async functions. Start one for each member in its own order: "
        + "ForEachAsync(session => session.Post(async () => ...)).", error: true)]
    public ValueTask ForEachAsync(Func<Session, Task> function) =>
        throw new NotSupportedException("ForEachAsync takes no async function.");

    private void CheckChange(Session session)
    {
        ArgumentNullException.ThrowIfNull(session);
        CheckChange();
    }

    /// <summary>
    /// Checks a change of the members. Sends of the current callback on the pool come first (contracts 7, 14).
    /// </summary>
    private void CheckChange()
    {
        if (_isHost) throw new InvalidOperationException("The group of all sessions has its members by itself.");
    }

    /// <summary>
    /// Sends the data to all members, or all but one. Never waits. All loops accept it or none does. A member with a
    /// full send queue is handled by its <see cref="SlowConsumer"/> policy and counted
    /// (<see cref="ServerCounters.BroadcastsDropped"/>); the others receive the message.
    /// </summary>
    /// <param name="data">Bytes to send. May be reused at once.</param>
    /// <param name="except">Session to skip, or null.</param>
    /// <returns><see cref="SendResult.Full"/> if a loop has no space now: no member receives it, on any loop. Otherwise
    /// <see cref="SendResult.Queued"/>; loops that have ended have no members and are ignored.</returns>
    /// <exception cref="InvalidOperationException">A member's protocol has its own encoding, such as WebSocket; the
    /// message names what to use instead.</exception>
    [OverloadResolutionPriority(1)]
    public SendResult Broadcast(ReadOnlySpan<byte> data, Session? except = null) =>
        SendToAll(new BroadcastData(data), except, null);

    /// <summary>Sends the data to the members that match; otherwise as the other <c>Broadcast</c>.</summary>
    /// <param name="data">Bytes to send. May be reused at once.</param>
    /// <param name="predicate">Filter, called for each member on its own loop, possibly after this call has returned.
    /// For several successive broadcasts with the same delegate one result may be used. If it throws, that member is
    /// skipped and a diagnostic event is reported.</param>
    public SendResult Broadcast(ReadOnlySpan<byte> data, Func<Session, bool> predicate)
    {
        ArgumentNullException.ThrowIfNull(predicate);
        return SendToAll(new BroadcastData(data), null, predicate);
    }

    /// <summary>
    /// Sends a message that is encoded for each class of members (<see cref="Join(Session, int)"/>). The encoder is
    /// called inside this call, once for each class that has members; the members of a class share its output. All
    /// encodings together must fit. Otherwise as with bytes.
    /// </summary>
    /// <remarks>
    /// A session that joins during the call, in a class without members, does not receive the message.
    /// </remarks>
    /// <typeparam name="TState">Type of the state; may be a span.</typeparam>
    /// <param name="state">State passed to the encoder. May be reused when this returns.</param>
    /// <param name="encoder">Function that writes the encoding of one class. If it throws, this call throws and no
    /// member receives anything.</param>
    /// <param name="except">Session to skip, or null.</param>
    public SendResult Broadcast<TState>(TState state, BroadcastEncoder<TState> encoder, Session? except = null)
        where TState : allows ref struct => BroadcastFormed(state, encoder, except, null);

    /// <summary>Sends a message that is encoded for each class to the members that match; otherwise the same.</summary>
    /// <typeparam name="TState">Type of the state; may be a span.</typeparam>
    /// <param name="state">State passed to the encoder.</param>
    /// <param name="encoder">Function that writes the encoding of one class.</param>
    /// <param name="predicate">Filter, as in the form with bytes.</param>
    public SendResult Broadcast<TState>(TState state, BroadcastEncoder<TState> encoder, Func<Session, bool> predicate)
        where TState : allows ref struct
    {
        ArgumentNullException.ThrowIfNull(predicate);
        return BroadcastFormed(state, encoder, null, predicate);
    }

    /// <summary>
    /// Sends a part of shared bytes; from 16 KiB on without a copy for loops or members. The caller keeps its
    /// reference, whatever the result. Otherwise as with bytes.
    /// </summary>
    /// <param name="bytes">Shared bytes.</param>
    /// <param name="offset">Offset of the first byte to send.</param>
    /// <param name="length">Number of bytes to send.</param>
    /// <param name="except">Session to skip, or null.</param>
    /// <exception cref="ObjectDisposedException">All references were released.</exception>
    public SendResult Broadcast(SharedBytes bytes, int offset, int length, Session? except = null)
    {
        BroadcastSource source = SourceOf(bytes, offset, length);
        using IMemoryOwner<byte> loan = bytes.Lend();
        return SendToAll(source.Data, except, null);
    }

    private SendResult BroadcastFormed<TState>(TState state, BroadcastEncoder<TState> encoder, Session? except,
        Func<Session, bool>? predicate)
        where TState : allows ref struct
    {
        ArgumentNullException.ThrowIfNull(encoder);
        BroadcastForms forms = BroadcastForms.Take();
        try
        {
            forms.Write(Target.ClassesHeld(), state, encoder);
            return SendToAll(new BroadcastData(forms.Written.Span, forms.Lengths), except, predicate);
        }
        finally
        {
            forms.Return();
        }
    }

    private static BroadcastSource SourceOf(SharedBytes bytes, int offset, int length)
    {
        ArgumentNullException.ThrowIfNull(bytes);
        ReadOnlyMemory<byte> memory = bytes.Memory;
        if ((uint)offset > (uint)memory.Length)
            Throw.OutOfRange(nameof(offset), offset, $"between 0 and {memory.Length}");
        if ((uint)length > (uint)(memory.Length - offset))
            Throw.OutOfRange(nameof(length), length, $"between 0 and {memory.Length - offset}");
        // A short message is copied like any other, and combined with earlier broadcasts.
        return new BroadcastSource(memory.Slice(offset, length), null,
            length < OutboundQueue.ByReferenceBytes ? null : bytes, offset);
    }

    private SendResult SendToAll(in BroadcastData data, Session? except, Func<Session, bool>? predicate)
    {
        if (data.Length == 0) return SendResult.Queued;
        SessionGroup target = Target;
        CheckForms(target, data.Forms.Length > 0);
        GroupShard[] shards = Volatile.Read(ref target._shards);
        if (Reserve(shards, data.Length) is { } full)
        {
            full.Loop.Engine.CountRefusedBroadcast();
            return SendResult.Full;
        }

        object? extra = predicate ?? (object?)except;
        if (data.Shared is { } shared && HasOthers(shards)) extra = new SharedBroadcast(data, extra);
        foreach (GroupShard shard in shards)
        {
            if (shard.Loop.IsCurrent) shard.Broadcast(data, except, predicate);
            else shard.Loop.Mailbox.PostBroadcast(shard, data, extra);
        }

        return SendResult.Queued;
    }

    /// <summary>Returns whether there are loops other than the caller's own.</summary>
    private static bool HasOthers(GroupShard[] shards)
    {
        foreach (GroupShard shard in shards)
        {
            if (!shard.Loop.IsCurrent) return true;
        }

        return false;
    }

    /// <summary>
    /// Reserves space on all loops but the caller's own, which needs none, or on no loop; then it returns the first
    /// shard without space.
    /// </summary>
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

    /// <summary>Sends the text as UTF-8, encoded once; otherwise as with bytes.</summary>
    /// <param name="text">Text to send.</param>
    /// <param name="except">Session to skip, or null.</param>
    public SendResult Broadcast(string text, Session? except = null)
    {
        ArgumentNullException.ThrowIfNull(text);
        using Utf8Text encoded = new(text, stackalloc byte[Utf8Text.SmallBytes]);
        return Broadcast(encoded.Bytes, except);
    }

    /// <summary>
    /// Waits for space on all loops, sends the data to all members that match, and counts them. Completes when every
    /// loop has queued it for its members.
    /// </summary>
    /// <param name="data">Bytes to send. Must not change until the task completes.</param>
    /// <param name="except">Session to skip, or null.</param>
    /// <param name="predicate">Filter, called on the member's loop. Null takes all.</param>
    /// <param name="cancellationToken">Cancels the wait. While waiting for space: no member receives the message. While
    /// waiting for the counts: all loops already have it.</param>
    [OverloadResolutionPriority(1)]
    public ValueTask<BroadcastResult> BroadcastAsync(
        ReadOnlyMemory<byte> data,
        Session? except = null,
        Func<Session, bool>? predicate = null,
        CancellationToken cancellationToken = default) =>
        BroadcastAsync(data, Timeout.InfiniteTimeSpan, except, predicate, cancellationToken);

    /// <summary>
    /// Sends as the other form does, with a maximum wait. After it <see cref="BroadcastResult.Result"/> is
    /// <see cref="SendResult.Full"/>, and no member receives the message.
    /// </summary>
    /// <param name="data">Bytes to send. Must not change until the task completes.</param>
    /// <param name="timeout">Maximum time to wait for space; zero does not wait, <see cref="Timeout.InfiniteTimeSpan"/>
    /// has no limit. A blocked loop does not extend it.</param>
    /// <param name="except">Session to skip, or null.</param>
    /// <param name="predicate">Filter, called on the member's loop. Null takes all.</param>
    /// <param name="cancellationToken">Cancels the wait, as in the other form.</param>
    [OverloadResolutionPriority(1)]
    public ValueTask<BroadcastResult> BroadcastAsync(
        ReadOnlyMemory<byte> data,
        TimeSpan timeout,
        Session? except = null,
        Func<Session, bool>? predicate = null,
        CancellationToken cancellationToken = default) =>
        SessionOrder.Keep(SessionOrder.Leave(),
            SendToAllAsync(new BroadcastSource(data), timeout, except, predicate, cancellationToken));

    /// <summary>
    /// Waits for space on all loops, sends a message that is encoded for each class to all members that match, and
    /// counts them. The encoder is called inside this call, as in <c>Broadcast</c>.
    /// </summary>
    /// <typeparam name="TState">Type of the state; may be a span.</typeparam>
    /// <param name="state">State passed to the encoder. May be reused when this returns.</param>
    /// <param name="encoder">Function that writes the encoding of one class. If it throws, this call throws.</param>
    /// <param name="timeout">Maximum time to wait for space; zero does not wait, <see cref="Timeout.InfiniteTimeSpan"/>
    /// has no limit.</param>
    /// <param name="except">Session to skip, or null.</param>
    /// <param name="predicate">Filter, called on the member's loop. Null takes all.</param>
    /// <param name="cancellationToken">Cancels the wait. While waiting for space: no member receives the message. While
    /// waiting for the counts: all loops already have it.</param>
    public ValueTask<BroadcastResult> BroadcastAsync<TState>(
        TState state,
        BroadcastEncoder<TState> encoder,
        TimeSpan timeout,
        Session? except = null,
        Func<Session, bool>? predicate = null,
        CancellationToken cancellationToken = default)
        where TState : allows ref struct
    {
        ArgumentNullException.ThrowIfNull(encoder);
        BroadcastForms forms = BroadcastForms.Take();
        try
        {
            forms.Write(Target.ClassesHeld(), state, encoder);
        }
        catch
        {
            forms.Return();
            throw;
        }

        return SessionOrder.Keep(SessionOrder.Leave(),
            SendFormsAsync(forms, timeout, except, predicate, cancellationToken));
    }

    private async ValueTask<BroadcastResult> SendFormsAsync(BroadcastForms forms, TimeSpan timeout, Session? except,
        Func<Session, bool>? predicate, CancellationToken cancellationToken)
    {
        try
        {
            return await SendToAllAsync(new BroadcastSource(forms.Written, forms.Lengths), timeout, except, predicate,
                cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            forms.Return();
        }
    }

    /// <summary>
    /// Waits for space on all loops, sends a part of shared bytes to all members that match, and counts them; from 16
    /// KiB on without a copy. The caller keeps its reference, and may release it at once.
    /// </summary>
    /// <param name="bytes">Shared bytes.</param>
    /// <param name="offset">Offset of the first byte to send.</param>
    /// <param name="length">Number of bytes to send.</param>
    /// <param name="timeout">Maximum time to wait for space; zero does not wait, <see cref="Timeout.InfiniteTimeSpan"/>
    /// has no limit.</param>
    /// <param name="except">Session to skip, or null.</param>
    /// <param name="predicate">Filter, called on the member's loop. Null takes all.</param>
    /// <param name="cancellationToken">Cancels the wait, as in the other forms.</param>
    /// <exception cref="ObjectDisposedException">All references were released.</exception>
    public ValueTask<BroadcastResult> BroadcastAsync(
        SharedBytes bytes,
        int offset,
        int length,
        TimeSpan timeout,
        Session? except = null,
        Func<Session, bool>? predicate = null,
        CancellationToken cancellationToken = default)
    {
        BroadcastSource source = SourceOf(bytes, offset, length);
        IMemoryOwner<byte> loan = bytes.Lend();
        return SessionOrder.Keep(SessionOrder.Leave(),
            SendLentAsync(source, loan, timeout, except, predicate, cancellationToken));
    }

    private async ValueTask<BroadcastResult> SendLentAsync(
        BroadcastSource source,
        IMemoryOwner<byte> loan,
        TimeSpan timeout,
        Session? except,
        Func<Session, bool>? predicate,
        CancellationToken cancellationToken)
    {
        try
        {
            return await SendToAllAsync(source, timeout, except, predicate, cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            loan.Dispose();
        }
    }

    private async ValueTask<BroadcastResult> SendToAllAsync(BroadcastSource source, TimeSpan timeout, Session? except,
        Func<Session, bool>? predicate, CancellationToken cancellationToken)
    {
        if (timeout < TimeSpan.Zero && timeout != Timeout.InfiniteTimeSpan)
            Throw.OutOfRange(nameof(timeout), timeout, "zero, positive, or Timeout.InfiniteTimeSpan");
        cancellationToken.ThrowIfCancellationRequested();
        int length = source.Bytes.Length;
        if (length == 0) return default;
        SessionGroup target = Target;
        CheckForms(target, source.Data.Forms.Length > 0);
        GroupShard[] shards = Volatile.Read(ref target._shards);
        long timedFrom = shards.Length > 0 && shards[0].Loop.Engine.HasWatchdog ? BroadcastMetrics.Begins() : 0;
        long? beganMs = null;
        while (Reserve(shards, length) is { } full)
        {
            long nowMs = full.Loop.Engine.NowMs;
            beganMs ??= nowMs;
            bool isLimited = timeout != Timeout.InfiniteTimeSpan;
            TimeSpan rest = isLimited ? timeout - TimeSpan.FromMilliseconds(nowMs - beganMs.Value) : timeout;
            // A rest of zero could be read as no limit, so the requested timeout decides.
            if ((isLimited && rest <= TimeSpan.Zero)
                || !await full.Loop.Mailbox.WaitForRoom(length, rest, cancellationToken).ConfigureAwait(false))
            {
                full.Loop.Engine.CountRefusedBroadcast();
                return new BroadcastResult(0, 0, SendResult.Full);
            }

            cancellationToken.ThrowIfCancellationRequested();
            shards = Volatile.Read(ref Target._shards);
        }

        if (shards.Length == 0) return default;
        return await PostCounted(shards, source,
            new BroadcastOperation(shards[0].Loop.Engine, except, predicate) { TimedFrom = timedFrom },
            cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Posts the broadcast after space was reserved.</summary>
    private static async ValueTask<BroadcastResult> PostCounted(GroupShard[] shards, BroadcastSource source,
        BroadcastOperation operation, CancellationToken cancellationToken)
    {
        object extra = source.Shared is null ? operation : new SharedBroadcast(source.Data, operation);
        foreach (GroupShard shard in shards)
        {
            operation.Expect();
            if (shard.Loop.IsCurrent)
                operation.Count(shard.Broadcast(source.Data, operation.Except, operation.Predicate));
            else if (!shard.Loop.Mailbox.PostBroadcast(shard, source.Data, extra)) operation.Count(default);
        }

        operation.Count(default);
        ValueTask<BroadcastResult> counted = operation.Task;
        operation.WatchCancellation(cancellationToken);
        return await counted.ConfigureAwait(false);
    }

    /// <summary>Waits for space and sends the text as UTF-8, encoded once; otherwise as the form with bytes.</summary>
    /// <param name="text">Text to send.</param>
    /// <param name="except">Session to skip, or null.</param>
    /// <param name="predicate">Filter, called on the member's loop. Null takes all.</param>
    /// <param name="cancellationToken">Cancels the wait. While waiting for space: no member receives the message. While
    /// waiting for the counts: all loops already have it.</param>
    public ValueTask<BroadcastResult> BroadcastAsync(string text, Session? except = null,
        Func<Session, bool>? predicate = null, CancellationToken cancellationToken = default) =>
        BroadcastAsync(text, Timeout.InfiniteTimeSpan, except, predicate, cancellationToken);

    /// <summary>
    /// Sends as the other form does, with a maximum wait. After it <see cref="BroadcastResult.Result"/> is
    /// <see cref="SendResult.Full"/>, and no member receives the message.
    /// </summary>
    /// <param name="text">Text to send.</param>
    /// <param name="timeout">Maximum time to wait for space; zero does not wait, <see cref="Timeout.InfiniteTimeSpan"/>
    /// has no limit.</param>
    /// <param name="except">Session to skip, or null.</param>
    /// <param name="predicate">Filter, called on the member's loop. Null takes all.</param>
    /// <param name="cancellationToken">Cancels the wait, as in the other forms.</param>
    public ValueTask<BroadcastResult> BroadcastAsync(string text, TimeSpan timeout, Session? except = null,
        Func<Session, bool>? predicate = null, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(text);
        return BroadcastAsync(Encoding.UTF8.GetBytes(text), timeout, except, predicate, cancellationToken);
    }

    /// <summary>
    /// For producers that send continuously: completes when the mailboxes have space and the typical member has caught
    /// up. A dead member does not block it: without any progress it completes after a tenth of a second, so that the
    /// slow-consumer policy can act.
    /// </summary>
    /// <param name="cancellationToken">Cancels the wait.</param>
    public ValueTask WaitForRoomAsync(CancellationToken cancellationToken = default) =>
        SessionOrder.Keep(SessionOrder.Leave(), WaitForAllAsync(cancellationToken));

    /// <summary>
    /// Waits like <see cref="WaitForRoomAsync"/> and blocks: for producers with a thread of their own, which the loop
    /// wakes directly, and for callbacks on the pool. Throws <see cref="InvalidOperationException"/> on a loop.
    /// </summary>
    /// <param name="timeout">Maximum time, or <see cref="Timeout.InfiniteTimeSpan"/>.</param>
    /// <returns>False if there was no space in time.</returns>
    public bool WaitForRoom(TimeSpan timeout)
    {
        Engine.CheckWait(timeout);
        long beganAt = System.Diagnostics.Stopwatch.GetTimestamp();
        foreach (GroupShard shard in Volatile.Read(ref Target._shards))
        {
            if (shard.Loop.Mailbox.BeginWaitForRoom(Mailbox.RunLimitBytes / 2) is { } room && !Block(room))
                return false;
            if (!shard.IsCongested) continue;
            RoomWait waiter = new(shard.Loop.Engine);
            if (shard.Loop.PostControl(static (_, s, w, _) => ((GroupShard)s!).AddWaiter((RoomWait)w!), shard, waiter)
                && !Block(waiter))
                return false;
        }

        return true;

        // A wait that timed out stays in its list until there is space; its completion then has no effect.
        bool Block(RoomWait wait)
        {
            if (wait.SignalWhenCompleted() is not { } signal) return true;
            if (timeout == Timeout.InfiniteTimeSpan) return wait.Engine.Block(signal, timeout);
            TimeSpan left = timeout - System.Diagnostics.Stopwatch.GetElapsedTime(beganAt);
            return wait.Engine.Block(signal, left > TimeSpan.Zero ? left : TimeSpan.Zero);
        }
    }

    private async ValueTask WaitForAllAsync(CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        foreach (GroupShard shard in Volatile.Read(ref Target._shards))
        {
            await shard.Loop.Mailbox.WaitForRoom(Mailbox.RunLimitBytes / 2, cancellationToken).ConfigureAwait(false);
            if (!shard.IsCongested) continue;
            RoomWait waiter = new(shard.Loop.Engine);
            if (!shard.Loop.PostControl(static (_, s, w, _) => ((GroupShard)s!).AddWaiter((RoomWait)w!), shard, waiter))
                continue;
            ValueTask<bool> task = waiter.Task;
            waiter.WatchCancellation(cancellationToken);
            await task.ConfigureAwait(false);
        }
    }

    /// <summary>
    /// Called when the group got its first member, or lost its last. On that member's loop; calls for different loops
    /// may be reordered.
    /// </summary>
    /// <param name="isOccupied">True for the first join, false for the last leave.</param>
    protected virtual void OnOccupiedChanged(bool isOccupied)
    {
    }

    /// <summary>Returns the name and the number of members.</summary>
    public override string ToString() => $"{Name} ({Count})";

    internal void MemberAdded()
    {
        if (Interlocked.Increment(ref _count) == 1) Tell(true);
    }

    internal void MemberRemoved(int memberClass)
    {
        if (Interlocked.Decrement(ref _count) == 0) Tell(false);
        Release(memberClass);
    }

    private void Tell(bool isOccupied)
    {
        try
        {
            OnOccupiedChanged(isOccupied);
        }
        catch (Exception e)
        {
            Loop.Current?.Engine.ReportException(nameof(OnOccupiedChanged), e);
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

    // ------------------------------------------------------------------ listing in a directory (docs/design/0013)

    /// <summary>
    /// The object that is listed under this group's name. An object that is not listed has no members and no pending
    /// joins, so no member is missed.
    /// </summary>
    private SessionGroup Target =>
        Volatile.Read(ref _directory) is not { } directory || Volatile.Read(ref _isListed)
            ? this
            : directory.Find(Name) ?? this;

    /// <summary>Makes this object stand for its name in a <see cref="NamedGroups"/>.</summary>
    internal void ActFor(NamedGroups directory) => _directory = directory;

    /// <summary>
    /// Lists the group until <see cref="Unkeep"/>, also while it has no members. Returns false if the name is taken.
    /// </summary>
    internal bool TryKeep(NamedGroups directory)
    {
        lock (_gate)
        {
            if (_directory is not null)
                throw new InvalidOperationException($"The group '{Name}' is in a directory already.");
            if (!directory.TryList(this)) return false;
            _isKept = true;
            Volatile.Write(ref _isListed, true);
            Volatile.Write(ref _directory, directory);
            return true;
        }
    }

    /// <summary>Removes the group when its last member has left; at once if it has none.</summary>
    internal void Unkeep()
    {
        lock (_gate)
        {
            _isKept = false;
            DropIfUnused();
        }
    }

    /// <summary>
    /// Adds a hold on the object that is listed under the name; lists this one if there is none. Pairs with
    /// <see cref="Release"/>.
    /// </summary>
    private SessionGroup Hold(int memberClass)
    {
        SessionGroup group = this;
        while (true)
        {
            // Listing, holding and dropping an object are one step each under its lock. The last leave either comes
            // first, and the name is free; or it finds the hold of this join and drops nothing.
            lock (group._gate)
            {
                if (group._directory is null || group._isListed || group._directory.TryList(group))
                {
                    if (group._directory is not null) Volatile.Write(ref group._isListed, true);
                    group._holds++;
                    if (memberClass > 0) (group._holdsOfClass ??= new int[MemberClasses])[memberClass]++;
                    return group;
                }
            }

            group = _directory!.Find(Name) ?? this;
        }
    }

    /// <summary>Called when a member has left or a join failed.</summary>
    internal void Release(int memberClass)
    {
        if (_isHost) return;
        lock (_gate)
        {
            _holds--;
            if (memberClass > 0) _holdsOfClass![memberClass]--;
            DropIfUnused();
        }
    }

    /// <summary>Returns a bit for each class that has members or pending joins.</summary>
    private int ClassesHeld()
    {
        if (_isHost) return Volatile.Read(ref _count) > 0 ? 1 : 0;
        lock (_gate)
        {
            if (_holdsOfClass is not { } holds) return _holds > 0 ? 1 : 0;
            int classes = 0;
            int others = 0;
            for (int i = 1; i < holds.Length; i++)
            {
                others += holds[i];
                if (holds[i] > 0) classes |= 1 << i;
            }

            return _holds > others ? classes | 1 : classes;
        }
    }

    private void DropIfUnused()
    {
        if (_holds > 0 || _isKept || !_isListed) return;
        Volatile.Write(ref _isListed, false);
        _directory!.Unlist(this);
    }
}
