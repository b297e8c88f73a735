using Whimbrel.Buffers;

namespace Whimbrel.Connections;

/// <summary>
/// Groups of a connection: broadcasts into its queue, the broadcast gate, and memberships (contract 17).
/// </summary>
// Safe: a run lives while this connection has a reference to it, and start and length were within it when it was
// written.
internal sealed unsafe partial class Connection
{
    // ------------------------------------------------------------------ broadcasts (contract 17)

    private List<(Run Run, int Start, int Length)>? _heldRuns;

    internal BroadcastGate BroadcastGate
    {
        get => _tenancy.BroadcastGate;
        set
        {
            _tenancy.BroadcastGate = value;
            ReleaseHeldRuns();
            UseRoom();
        }
    }

    /// <summary>
    /// Sets the gate for the session itself, on the loop: earlier sends are queued before broadcasts that the gate
    /// releases.
    /// </summary>
    internal void SetBroadcastGate(BroadcastGate gate)
    {
        SettleForeign();
        BroadcastGate = gate;
    }

    /// <summary>Queues or drops held broadcasts when the gate is no longer held.</summary>
    private void ReleaseHeldRuns()
    {
        if (_heldRuns is not { Count: > 0 } held || _tenancy.BroadcastGate == BroadcastGate.Held) return;
        // A message that is sent in pieces is finished first; there was space for it in addition to the held
        // broadcasts.
        if (_tenancy.FirstOperation is { HasStarted: true }) return;
        foreach ((Run run, int start, int length) in held)
        {
            _queue.Count(-length);
            if (_tenancy.BroadcastGate == BroadcastGate.Open && State == ConnectionState.Open && !IsFinishing
                && _tenancy.SendError == 0)
                QueueRun(run, start, length);
            Release(run);
        }

        held.Clear();
    }

    /// <summary>Queues a part of a run by reference. Returns false if this member does not get all of it.</summary>
    /// <param name="run">Run with the messages.</param>
    /// <param name="start">Offset of the first byte in the run.</param>
    /// <param name="length">Number of bytes.</param>
    /// <param name="messages">Lengths of the messages that were joined.</param>
    internal bool AppendRun(Run run, int start, int length, ReadOnlySpan<int> messages)
    {
        if (State != ConnectionState.Open || IsFinishing || _tenancy.SendError != 0 || _tenancy.QueueFault is not null
            || _tenancy.BroadcastGate == BroadcastGate.Shut)
            return false;
        if (_tenancy.FirstOperation is not null)
        {
            // Between the pieces of a message, or before an earlier message, a broadcast cannot be queued (contracts 6,
            // 7).
            Shard.BroadcastsDropped += messages.Length;
            return false;
        }

        if (!_queue.HasRoomFor(length))
        {
            bool isTooLarge = !_queue.MayEverFit(length);
            // With Disconnect, the first message that does not fit ends the connection, even if earlier ones fitted.
            if (messages.Length > 1
                && (isTooLarge || Shard.Options.CommonLimits.SlowConsumer != SlowConsumer.Disconnect))
                return AppendFitting(run, start, messages);
            Shard.BroadcastsDropped += messages.Length;
            if (isTooLarge) Shard.Host.NoteTooLarge(Session, length, _queue.Limit);
            else OverLimit();
            return false;
        }

        if (_tenancy.BroadcastGate == BroadcastGate.Held)
        {
            (_heldRuns ??= []).Add((run, start, length));
            run.References++;
            _queue.Count(length);
            return true;
        }

        QueueRun(run, start, length);
        return true;
    }

    /// <summary>
    /// Queues the messages of a joined run that fit, as if each had arrived alone. Returns false if not all of them
    /// fit.
    /// </summary>
    private bool AppendFitting(Run run, int start, ReadOnlySpan<int> messages)
    {
        bool all = true;
        for (int i = 0; i < messages.Length; i++)
        {
            all &= AppendRun(run, start, messages[i], messages.Slice(i, 1));
            start += messages[i];
        }

        return all;
    }

    private void QueueRun(Run run, int start, int length)
    {
        SettleStrand();
        if (_queue.Queued >= CopyRunFromQueuedBytes && length < ByReferenceBytes
            && _queue.Blocks.Tail is { Kind: BlockKind.Pooled })
        {
            Append(new ReadOnlySpan<byte>(run.Memory + start, length));
            return;
        }

        if (length < CopyRunBelowBytes && length <= _queue.Room)
        {
            _queue.Copy(new ReadOnlySpan<byte>(run.Memory + start, length));
            return;
        }

        _queue.CloseFill();
        if (_queue.Blocks.Tail is { Kind: BlockKind.Run } tail && ReferenceEquals(tail.Run, run) && tail.End == start)
        {
            tail.End += length;
            _queue.Count(length);
        }
        else
        {
            _queue.Enqueue(Loop.Blocks.TakeReference(run, start, length));
        }

        MarkDirty();
    }

    // ------------------------------------------------------------------ memberships

    private List<(GroupShard Shard, int Index)>? _memberships;

    internal List<(GroupShard Shard, int Index)> Memberships => _memberships ??= new(2);

    internal List<(GroupShard Shard, int Index)>? MembershipsIfAny => _memberships;

    /// <summary>Groups that this connection is in now, without the group of all connections.</summary>
    internal SessionGroup[] Groups
    {
        get
        {
            if (_memberships is not { Count: > 0 } memberships) return [];
            SessionGroup[] groups = new SessionGroup[memberships.Count];
            for (int i = 0; i < groups.Length; i++) groups[i] = memberships[i].Shard.Group;
            return groups;
        }
    }

    private void LeaveGroups()
    {
        if (Shard.Members.Contains(this)) Shard.Members.Remove(this);
        while (_memberships is { Count: > 0 } memberships) memberships[^1].Shard.Remove(this);
    }

    private void DropHeldRuns()
    {
        if (_heldRuns is null) return;
        foreach ((Run run, _, _) in _heldRuns) Release(run);
        _heldRuns.Clear();
    }

    private void Release(Run run)
    {
        if (Loop.Blocks.Release(run) is { } thrown) MemoryThrew(thrown);
    }
}
