using Whimbrel.Buffers;

namespace Whimbrel.Connections;

/// <summary>What groups do with a connection: broadcasts into its queue, the gate before it, memberships (contract 17).</summary>
// Safe: a run lives while this connection holds a reference to it, and start and length were within it when it was written.
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

    /// <summary>By the session itself, on the loop: what was sent before stands before what the gate lets through.</summary>
    internal void SetBroadcastGate(BroadcastGate gate)
    {
        SettleForeign();
        BroadcastGate = gate;
    }

    /// <summary>The gate is not held any more: what waited at it goes on or is dropped.</summary>
    private void ReleaseHeldRuns()
    {
        if (_heldRuns is not { Count: > 0 } held || _tenancy.BroadcastGate == BroadcastGate.Held) return;
        // A message that goes in pieces is finished first; there was room for it beside what is held.
        if (_tenancy.FirstOperation is { HasStarted: true }) return;
        foreach ((Run run, int start, int length) in held)
        {
            _queue.Count(-length);
            if (_tenancy.BroadcastGate == BroadcastGate.Open && State == ConnectionState.Open && !IsFinishing && _tenancy.SendError == 0) QueueRun(run, start, length);
            Release(run);
        }

        held.Clear();
    }

    /// <summary>Queues a stretch of a run by reference. False when this member does not get all of it.</summary>
    /// <param name="run">The run.</param>
    /// <param name="start">Where the stretch begins.</param>
    /// <param name="length">Its length.</param>
    /// <param name="messages">The lengths of the messages that it was joined of.</param>
    internal bool AppendRun(Run run, int start, int length, ReadOnlySpan<int> messages)
    {
        if (State != ConnectionState.Open || IsFinishing || _tenancy.SendError != 0 || _tenancy.QueueFault is not null || _tenancy.BroadcastGate == BroadcastGate.Shut) return false;
        if (_tenancy.FirstOperation is not null)
        {
            // Between the pieces of a message, or before one that came first, there is no place for it (contracts 6, 7).
            Shard.BroadcastsDropped += messages.Length;
            return false;
        }

        if (!_queue.HasRoomFor(length))
        {
            bool isTooLarge = !_queue.MayEverFit(length);
            // With Disconnect the first that does not fit ends it all, whatever fitted before.
            if (messages.Length > 1 && (isTooLarge || Shard.Options.SlowConsumer != SlowConsumer.Disconnect)) return AppendFitting(run, start, messages);
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

    /// <summary>The messages of a joined run that there is room for, as if each had come alone. False: not all of them.</summary>
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
        if (_queue.Queued >= CopyRunFromQueuedBytes && length < ByReferenceBytes && _queue.Blocks.Tail is { Kind: BlockKind.Pooled })
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

    /// <summary>The groups that this connection is in now, without that of all connections.</summary>
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
