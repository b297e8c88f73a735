using System.Runtime.CompilerServices;
using Whimbrel.Buffers;
using Whimbrel.Connections;

namespace Whimbrel.Engines;

/// <summary>
/// Messages that several connections of the loop share (<see cref="Session.SendToEach"/>): the bytes are here once, with the list of those they go to. Each of them has room
/// for them, reserved by the caller. One that goes to the same as the item before it joins that one.
/// </summary>
internal sealed partial class Mailbox
{
    /// <summary>What each of the connections is charged.</summary>
    internal static readonly int TargetBytes = Unsafe.SizeOf<SendTarget>();

    private const int TargetsKept = 16 * 1024;

    private SendTarget[] _targets = [];
    private SendTarget[] _targetsDraining = [];
    private int _targetCount;
    private int _targetsToForget;
    private RunWriter _writer; // the loop's

    /// <summary>Copies the bytes in, and the list. Not Queued: nobody gets it, and the reservations stay the caller's.</summary>
    internal SendResult PostShared(ReadOnlySpan<SendTarget> targets, ReadOnlySpan<byte> data)
    {
        Loop? caller = Loop.Current;
        bool above = false;
        bool taken;
        lock (_gate)
        {
            if (_isClosed) return SendResult.Closed;
            int first = FirstOfSame(targets);
            int list = first < 0 ? targets.Length * TargetBytes : 0;
            taken = TryCharge((int)Math.Min((long)data.Length + list, int.MaxValue), targets[0].Connection, targets[0].Generation, mayWait: false);
            if (taken)
            {
                AppendShared(first < 0 ? AddTargets(targets) : first, targets.Length, data);
                above = caller is not null && _sendBytes > PaceBytes;
                if (above) Overcommit(caller!);
            }
            else
            {
                // All of them are told when there is room; the first is noted.
                foreach (SendTarget each in targets[1..]) TryOweRoom(ItemBytes, each.Connection, each.Generation);
            }
        }

        if (!taken) return Refused(mayWait: false);
        if (above) caller!.HoldActiveSession();
        WakeIfSleeping();
        return SendResult.Queued;
    }

    /// <summary>Where the list of the last item begins, when it is the same. Negative: it is not, or that is something else. Under the gate.</summary>
    private int FirstOfSame(ReadOnlySpan<SendTarget> targets)
    {
        if (_data.Count == 0) return -1;
        ref DataItem last = ref _data[_data.Count - 1];
        return last.Kind == DataKind.Shared && _targets.AsSpan(last.FirstMessage, (int)last.Generation).SequenceEqual(targets) ? last.FirstMessage : -1;
    }

    private int AddTargets(ReadOnlySpan<SendTarget> targets)
    {
        int first = _targetCount;
        int count = checked(first + targets.Length);
        if (count > _targets.Length) Array.Resize(ref _targets, Math.Max(count, (int)Math.Min(Math.Max(64, _targetCount * 2L), Array.MaxLength)));
        targets.CopyTo(_targets.AsSpan(first));
        _targetCount = count;
        return first;
    }

    private void AppendShared(int firstTarget, int targets, ReadOnlySpan<byte> data)
    {
        (int chunk, int offset) = _arena.Append(data, default);
        if (_data.Count > 0)
        {
            ref DataItem last = ref _data[_data.Count - 1];
            if (last.Kind == DataKind.Shared && !last.IsSplit && last.FirstMessage == firstTarget && TryJoin(ref last, chunk, data.Length)) return;
        }

        Add() = new DataItem { Kind = DataKind.Shared, Generation = (uint)targets, Chunk = chunk, Offset = offset, Length = data.Length, FirstMessage = firstTarget, Messages = 1 };
    }

    private void SwapTargets()
    {
        (_targets, _targetsDraining) = (_targetsDraining, _targets);
        _targetsToForget = _targetCount;
        _targetCount = 0;
    }

    private void DrainShared(in DataItem item)
    {
        Run run = _writer.Write(_arenaDraining.Slice(item.Chunk, item.Offset, item.Length), out int start);
        foreach (SendTarget each in _targetsDraining.AsSpan(item.FirstMessage, (int)item.Generation))
        {
            if (WasServedAhead(item, each.Connection)) continue;
            each.Connection.DrainShared(each.Generation, run, start, item.Length, item.Messages);
        }

        _loop.Blocks.Release(run);
    }

    /// <summary>All items were drained: no connection lives on because it is listed here.</summary>
    private void ForgetTargets()
    {
        if (_targetsDraining.Length > TargetsKept) _targetsDraining = [];
        else _targetsDraining.AsSpan(0, _targetsToForget).Clear();
        _targetsToForget = 0;
    }
}
