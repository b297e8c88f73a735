using System.Buffers;
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
    /// <summary>Classes of members that there may be: 0 up to 15.</summary>
    internal const int MemberClasses = 16;

    private readonly Lock _gate = new();
    private readonly bool _isHost;
    private GroupShard[] _shards = [];
    private int _count;

    // What makes it last in a directory: its members, and the joins under way to them. With the two flags under the gate.
    private int _holds;
    private int[]? _holdsOfClass; // of those above 0, once there is one
    private NamedGroups? _directory;
    private string? _refusal; // of plain bytes, by a session that has joined; it stays
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

    /// <summary>Adds a session, as a member of its <see cref="Session.MemberClass"/>. Nothing happens when it is a member already or has ended. Any thread.</summary>
    /// <param name="session">A connected session of any server, client or engine.</param>
    /// <exception cref="InvalidOperationException">It is not connected yet, or this is the group of all sessions.</exception>
    public void Join(Session session)
    {
        ArgumentNullException.ThrowIfNull(session);
        Join(session, session.MemberClass);
    }

    /// <summary>
    /// The same as a member of a class, for broadcasts that have a form for each of them
    /// (<see cref="Broadcast{TState}(TState, BroadcastEncoder{TState}, Session)"/>). To change it, leave and join.
    /// </summary>
    /// <param name="session">A connected session of any server, client or engine.</param>
    /// <param name="memberClass">0 up to 15: whatever the protocol means by it. 0 is that of sessions without a form of their own, and of all in <see cref="Server.Sessions"/>.</param>
    /// <exception cref="ArgumentException">Class 0 for a session whose protocol has forms of its own (<see cref="Session.MemberClass"/>).</exception>
    /// <exception cref="InvalidOperationException">It is not connected yet, or this is the group of all sessions.</exception>
    public void Join(Session session, int memberClass)
    {
        CheckChange(session);
        if ((uint)memberClass >= MemberClasses) Throw.OutOfRange(nameof(memberClass), memberClass, $"between 0 and {MemberClasses - 1}");
        if (!session.HasConnected) Throw.State($"{session.DisplayName} cannot join a group before it is connected. Call Join in OnConnected or later.");
        if (memberClass == 0 && session.MemberClass != 0)
            throw new ArgumentException($"Members of class 0 get plain bytes, and the protocol of {session.DisplayName} has a form of its own. Use Join(session), which knows its class.", nameof(memberClass));
        if (session.Connection is not { } connection) return;
        // Held from here on: between this call and the loop's turn nobody else's leave drops the group, and broadcasts are written for this class.
        SessionGroup group = Hold(memberClass);
        group.Admit(session);
        GroupShard shard = group.ShardOf(connection.Loop);
        if (connection.Loop.IsCurrent)
        {
            connection.SettleForeign();
            shard.DrainJoin(connection, session.Generation, memberClass);
        }
        else if (!connection.Loop.Mailbox.PostItem(DataKind.Join, connection, session.Generation, shard, memberClass == 0 ? null : memberClass)) group.Release(memberClass);
    }

    /// <summary>A session becomes a member: from now on its protocol decides whether plain bytes are broadcast.</summary>
    internal void Admit(Session session)
    {
        if (session.BroadcastRefusal is { } why) Volatile.Write(ref _refusal, why);
    }

    /// <summary>Throws when a member's protocol has forms of its own, and the broadcast has none for it.</summary>
    private static void CheckForms(SessionGroup group, bool hasForms)
    {
        if (Volatile.Read(ref group._refusal) is not { } why || (hasForms && !group._isHost)) return;
        if (hasForms) Throw.State($"The group of all sessions has no forms for members of different protocols, so nothing was sent. Let the sessions join a SessionGroup in OnConnected, and broadcast to that.");
        Throw.State($"Broadcast sends plain bytes, and nothing was sent: {why}");
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

    /// <summary>Number of its members on one loop. Any thread, also while the loop is busy.</summary>
    /// <param name="loop">Of any engine.</param>
    public int CountOn(Loop loop)
    {
        ArgumentNullException.ThrowIfNull(loop);
        return Target.FindShard(loop)?.Count ?? 0;
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

    /// <summary>Does not exist for async functions: nothing would wait for them, or handle what they throw.</summary>
    /// <param name="function">Not called.</param>
    /// <exception cref="NotSupportedException">Always.</exception>
    [Obsolete("ForEachAsync does not wait for async functions. Start one for each member in its own order: ForEachAsync(session => session.Post(async () => ...)).", error: true)]
    public ValueTask ForEachAsync(Func<Session, Task> function) => throw new NotSupportedException("ForEachAsync takes no async function.");

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
    /// <exception cref="InvalidOperationException">A member speaks a protocol with a form of its own, such as WebSocket: the message names what to use instead.</exception>
    [OverloadResolutionPriority(1)]
    public SendResult Broadcast(ReadOnlySpan<byte> data, Session? except = null) => SendToAll(new BroadcastData(data), except, null);

    /// <summary>Sends the bytes to the members that match; in all else the same.</summary>
    /// <param name="data">What to send. Free to be reused at once.</param>
    /// <param name="predicate">
    /// Chooses members, each on its own loop, later than this call when that is not the caller's loop. Of several
    /// broadcasts in a row with the same delegate it may choose once for all. If it throws, that member is left out and a notice tells.
    /// </param>
    public SendResult Broadcast(ReadOnlySpan<byte> data, Func<Session, bool> predicate)
    {
        ArgumentNullException.ThrowIfNull(predicate);
        return SendToAll(new BroadcastData(data), null, predicate);
    }

    /// <summary>
    /// Sends a message that has a form for each class of members (<see cref="Join(Session, int)"/>): the encoder is called on this thread,
    /// inside this call, once for each class that has members, and the members of a class share what it wrote. In all else the same as
    /// with bytes. The forms together are what must find room.
    /// </summary>
    /// <remarks>A session that joins meanwhile, in a class that had no member when this was called, does not get it.</remarks>
    /// <typeparam name="TState">A type of yours; may be a span.</typeparam>
    /// <param name="state">Handed on to the encoder. Free to be reused when this returns.</param>
    /// <param name="encoder">Writes one form. What it throws, this throws, and nobody gets anything.</param>
    /// <param name="except">A session that does not get it, or null.</param>
    public SendResult Broadcast<TState>(TState state, BroadcastEncoder<TState> encoder, Session? except = null)
        where TState : allows ref struct => BroadcastFormed(state, encoder, except, null);

    /// <summary>Sends a message that has a form for each class to the members that match; in all else the same.</summary>
    /// <typeparam name="TState">A type of yours; may be a span.</typeparam>
    /// <param name="state">Handed on to the encoder.</param>
    /// <param name="encoder">Writes one form.</param>
    /// <param name="predicate">Chooses members, as in the form with bytes.</param>
    public SendResult Broadcast<TState>(TState state, BroadcastEncoder<TState> encoder, Func<Session, bool> predicate)
        where TState : allows ref struct
    {
        ArgumentNullException.ThrowIfNull(predicate);
        return BroadcastFormed(state, encoder, null, predicate);
    }

    /// <summary>
    /// Sends a part of shared bytes; from 16 KiB on without a copy, on no loop and for no member. The caller keeps its reference, whatever the
    /// result. In all else the same as with bytes.
    /// </summary>
    /// <param name="bytes">The bytes.</param>
    /// <param name="offset">Where those to send begin.</param>
    /// <param name="length">How many they are.</param>
    /// <param name="except">A session that does not get it, or null.</param>
    /// <exception cref="ObjectDisposedException">All references were given back.</exception>
    public SendResult Broadcast(SharedBytes bytes, int offset, int length, Session? except = null)
    {
        BroadcastSource source = SourceOf(bytes, offset, length);
        using IMemoryOwner<byte> loan = bytes.Lend();
        return SendToAll(source.Data, except, null);
    }

    private SendResult BroadcastFormed<TState>(TState state, BroadcastEncoder<TState> encoder, Session? except, Func<Session, bool>? predicate)
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
        if ((uint)offset > (uint)memory.Length) Throw.OutOfRange(nameof(offset), offset, $"between 0 and {memory.Length}");
        if ((uint)length > (uint)(memory.Length - offset)) Throw.OutOfRange(nameof(length), length, $"between 0 and {memory.Length - offset}");
        // A short one is copied as others are, and joins what was broadcast before it.
        return new BroadcastSource(memory.Slice(offset, length), null, length < Connection.ByReferenceBytes ? null : bytes, offset);
    }

    /// <summary>What callbacks on the pool have sent comes first: this one's, and what others have: the caller may go on from one of them (contracts 7, 14).</summary>
    private static void PostGathered(GroupShard[] shards)
    {
        Strand.Current?.FlushBatch();
        foreach (GroupShard shard in shards)
        {
            // On its own loop a broadcast does not go by the mailbox.
            if (!shard.Loop.IsCurrent) shard.Loop.GatheringStrands.Post();
        }
    }

    private SendResult SendToAll(in BroadcastData data, Session? except, Func<Session, bool>? predicate)
    {
        if (data.Length == 0) return SendResult.Queued;
        SessionGroup target = Target;
        CheckForms(target, data.Forms.Length > 0);
        GroupShard[] shards = Volatile.Read(ref target._shards);
        PostGathered(shards);
        if (Reserve(shards, data.Length) is { } full)
        {
            full.Loop.Engine.CountRefusedBroadcast();
            return SendResult.Full;
        }

        object? extra = predicate ?? (object?)except;
        if (data.Shared is { } shared && HasOthers(shards)) extra = new SharedBroadcast(shared, extra);
        foreach (GroupShard shard in shards)
        {
            if (shard.Loop.IsCurrent) shard.Broadcast(data, except, predicate);
            else shard.Loop.Mailbox.PostBroadcast(shard, data, extra);
        }

        return SendResult.Queued;
    }

    /// <summary>Loops other than the caller's own.</summary>
    private static bool HasOthers(GroupShard[] shards)
    {
        foreach (GroupShard shard in shards)
        {
            if (!shard.Loop.IsCurrent) return true;
        }

        return false;
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
        SessionOrder.Keep(SessionOrder.Leave(), SendToAllAsync(new BroadcastSource(data), timeout, except, predicate, cancellationToken));

    /// <summary>Sends a message that has a form for each class of members to all that match, waiting for room on all loops, and counts. The encoder is called inside this call, as by the other <c>Broadcast</c> with one.</summary>
    /// <typeparam name="TState">A type of yours; may be a span.</typeparam>
    /// <param name="state">Handed on to the encoder. Free to be reused when this returns.</param>
    /// <param name="encoder">Writes one form. What it throws, this throws.</param>
    /// <param name="timeout">How long to wait for room; zero only tries, <see cref="Timeout.InfiniteTimeSpan"/> has no limit.</param>
    /// <param name="except">A session that does not get it, or null.</param>
    /// <param name="predicate">Chooses members; called on the member's loop. Null takes all.</param>
    /// <param name="cancellationToken">Gives up waiting: for room, then nobody gets it; or for the counts, when all loops have it.</param>
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

        return SessionOrder.Keep(SessionOrder.Leave(), SendFormsAsync(forms, timeout, except, predicate, cancellationToken));
    }

    private async ValueTask<BroadcastResult> SendFormsAsync(BroadcastForms forms, TimeSpan timeout, Session? except, Func<Session, bool>? predicate, CancellationToken cancellationToken)
    {
        try
        {
            return await SendToAllAsync(new BroadcastSource(forms.Written, forms.Lengths), timeout, except, predicate, cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            forms.Return();
        }
    }

    /// <summary>Sends a part of shared bytes to all members that match, waiting for room on all loops, and counts; from 16 KiB on without a copy. The caller keeps its reference, and may give it back at once.</summary>
    /// <param name="bytes">The bytes.</param>
    /// <param name="offset">Where those to send begin.</param>
    /// <param name="length">How many they are.</param>
    /// <param name="timeout">How long to wait for room; zero only tries, <see cref="Timeout.InfiniteTimeSpan"/> has no limit.</param>
    /// <param name="except">A session that does not get it, or null.</param>
    /// <param name="predicate">Chooses members; called on the member's loop. Null takes all.</param>
    /// <param name="cancellationToken">As above.</param>
    /// <exception cref="ObjectDisposedException">All references were given back.</exception>
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
        return SessionOrder.Keep(SessionOrder.Leave(), SendLentAsync(source, loan, timeout, except, predicate, cancellationToken));
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

    private async ValueTask<BroadcastResult> SendToAllAsync(BroadcastSource source, TimeSpan timeout, Session? except, Func<Session, bool>? predicate, CancellationToken cancellationToken)
    {
        if (timeout < TimeSpan.Zero && timeout != Timeout.InfiniteTimeSpan) Throw.OutOfRange(nameof(timeout), timeout, "zero, positive, or Timeout.InfiniteTimeSpan");
        cancellationToken.ThrowIfCancellationRequested();
        int length = source.Bytes.Length;
        if (length == 0) return default;
        SessionGroup target = Target;
        CheckForms(target, source.Data.Forms.Length > 0);
        GroupShard[] shards = Volatile.Read(ref target._shards);
        PostGathered(shards);
        long timedFrom = shards.Length > 0 && shards[0].Loop.Engine.HasWatchdog ? BroadcastMetrics.Begins() : 0;
        long? beganMs = null;
        while (Reserve(shards, length) is { } full)
        {
            long nowMs = full.Loop.Engine.NowMs;
            beganMs ??= nowMs;
            bool isLimited = timeout != Timeout.InfiniteTimeSpan;
            TimeSpan rest = isLimited ? timeout - TimeSpan.FromMilliseconds(nowMs - beganMs.Value) : timeout;
            // A limit that has passed by a millisecond looks like none: what was asked for decides.
            if ((isLimited && rest <= TimeSpan.Zero) || !await full.Loop.Mailbox.WaitForRoom(length, rest, cancellationToken).ConfigureAwait(false))
            {
                full.Loop.Engine.CountRefusedBroadcast();
                return new BroadcastResult(0, 0, SendResult.Full);
            }

            cancellationToken.ThrowIfCancellationRequested();
            shards = Volatile.Read(ref Target._shards);
        }

        if (shards.Length == 0) return default;
        return await PostCounted(shards, source, new BroadcastOperation(shards[0].Loop.Engine, except, predicate) { TimedFrom = timedFrom }, cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Room was reserved.</summary>
    private static async ValueTask<BroadcastResult> PostCounted(GroupShard[] shards, BroadcastSource source, BroadcastOperation operation, CancellationToken cancellationToken)
    {
        object extra = source.Shared is { } shared ? new SharedBroadcast(shared, operation) : operation;
        foreach (GroupShard shard in shards)
        {
            operation.Expect();
            if (shard.Loop.IsCurrent) operation.Count(shard.Broadcast(source.Data, operation.Except, operation.Predicate));
            else if (!shard.Loop.Mailbox.PostBroadcast(shard, source.Data, extra)) operation.Count(default);
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

    /// <summary>
    /// Like <see cref="WaitForRoomAsync"/>, blocking: for producers with a thread of their own, which the loop wakes directly, and for callbacks on the
    /// pool. On a loop it throws <see cref="InvalidOperationException"/>.
    /// </summary>
    /// <param name="timeout">Longest time, or <see cref="Timeout.InfiniteTimeSpan"/>.</param>
    /// <returns>False when there was no room in time.</returns>
    public bool WaitForRoom(TimeSpan timeout)
    {
        Engine.CheckWait(timeout);
        long beganAt = System.Diagnostics.Stopwatch.GetTimestamp();
        foreach (GroupShard shard in Volatile.Read(ref Target._shards))
        {
            if (shard.Loop.Mailbox.BeginWaitForRoom(Mailbox.RunLimitBytes / 2) is { } room && !Block(room)) return false;
            if (!shard.IsCongested) continue;
            RoomWait waiter = new(shard.Loop.Engine);
            if (shard.Loop.PostControl(static (_, s, w, _) => ((GroupShard)s!).AddWaiter((RoomWait)w!), shard, waiter) && !Block(waiter)) return false;
        }

        return true;

        // What was not in time stays where it is listed until there is room, and tells nobody.
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
    private SessionGroup Hold(int memberClass)
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
                    if (memberClass > 0) (group._holdsOfClass ??= new int[MemberClasses])[memberClass]++;
                    return group;
                }
            }

            group = _directory!.Find(Name) ?? this;
        }
    }

    /// <summary>A member has left, or a join came to nothing.</summary>
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

    /// <summary>A bit for each class that somebody is in, or is on its way to.</summary>
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
