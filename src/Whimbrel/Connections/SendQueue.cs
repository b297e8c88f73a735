using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using Whimbrel.Buffers;
using Whimbrel.Diagnostics;

namespace Whimbrel.Connections;

/// <summary>
/// What a connection has taken and not yet given to the system: the blocks, the fill (open room at their end), the counts and the
/// limit. It knows neither socket nor session, and judges nobody: who asks first whether there is room is Connection.Send.cs.
/// </summary>
/// <remarks>
/// Loop's thread, except for <see cref="Foreign"/> and <see cref="PendingFromElsewhere"/>. A field of its connection and never copied.
/// What is pending is what the blocks hold, what was written into the fill and not counted yet, what other threads have under way,
/// and what the connection counts besides (runs that a gate holds back, plaintext in the wire queue). All of it is charged to the limit,
/// but of a part of a file <see cref="FileRange.ChargeBytes"/> at most: its bytes are not in memory.
/// </remarks>
// Safe: _room > 0 only while _fill points at that many free bytes behind the last byte of the last block, and only the loop's thread
// changes either. What Reserve lends lies behind the last byte as well, and is taken for queued only while it is still there.
internal unsafe struct SendQueue
{
    /// <summary>Rooms of one callback that were reserved and then sent past: each holds a block of its own until it returns.</summary>
    internal const int MostLostRooms = 64;

    // The fill: while _room > 0 a flush is certain to follow, so Send need look at nothing else.
    private byte* _fill;
    private int _room;
    private int _granted;
    private int _moves;
    private int _moveDepth;
    private long _counted;
    private int _limit;
    private bool _allowsLarge;
    private long _inFiles; // of parts of files, beyond what they are charged: on disk, or read ahead

    private LentRoom? _lent; // what Reserve gave; most connections never ask

    /// <summary>What is queued, without what lies in the open fill.</summary>
    internal BlockQueue Blocks;

    internal ForeignWord Foreign;

    /// <summary>Most bytes that may be pending. Set where the session runs, which may be a thread of the pool.</summary>
    internal long Limit
    {
        readonly get => Volatile.Read(in _limit);
        set => Volatile.Write(ref _limit, (int)value);
    }

    /// <summary>With nothing pending a message may be larger than the limit. Set as that.</summary>
    internal bool AllowsLarge
    {
        readonly get => Volatile.Read(in _allowsLarge);
        set => Volatile.Write(ref _allowsLarge, value);
    }

    /// <summary>Bytes that may be copied into the fill now.</summary>
    internal readonly int Room => _room;

    /// <summary>Pending here, without what other threads have under way. Loop's thread.</summary>
    internal readonly long Queued => _counted + _granted - _room + _inFiles;

    /// <summary>The part of it that is not charged to the limit.</summary>
    internal readonly long InFiles => _inFiles;

    /// <summary>Taken and not yet given to the system, for the loop's thread: nothing moves meanwhile but what other threads add.</summary>
    internal readonly long Pending => Queued + Foreign.Bytes;

    /// <summary>What the limit allows beside what is charged to it now. Negative when a lower one was set. Loop's thread.</summary>
    internal readonly long RoomLeft => Limit - (_counted + _granted - _room) - Foreign.Bytes;

    internal readonly bool HasRoomFor(long length) => length <= RoomLeft || (AllowsLarge && RoomLeft == Limit);

    /// <summary>The same for any other thread.</summary>
    internal readonly bool HasRoomFromElsewhere(long length)
    {
        long charged = ReadFromElsewhere(withFiles: false);
        return charged + length <= Limit || (AllowsLarge && charged == 0);
    }

    /// <summary>There can be room for it, when enough has left.</summary>
    internal readonly bool MayEverFit(long length) => length <= Limit || AllowsLarge;

    /// <summary>For any other thread: reads again while the loop moves bytes from one count to another, so that none is seen twice or not at all.</summary>
    internal readonly long PendingFromElsewhere() => ReadFromElsewhere(withFiles: true);

    /// <summary>What of it is charged to the limit: of files next to nothing.</summary>
    internal readonly long ChargedFromElsewhere() => ReadFromElsewhere(withFiles: false);

    private readonly long ReadFromElsewhere(bool withFiles)
    {
        SpinWait spin = default;
        while (true)
        {
            int moves = Volatile.Read(in _moves);
            long pending = Volatile.Read(in _counted) + Volatile.Read(in _granted) - Volatile.Read(in _room) + Foreign.Bytes;
            if (withFiles) pending += Volatile.Read(in _inFiles);
            Volatile.ReadBarrier();
            if ((moves & 1) == 0 && moves == Volatile.Read(in _moves)) return pending;
            spin.SpinOnce(sleep1Threshold: -1);
        }
    }

    /// <summary>Odd while bytes are between two counts.</summary>
    internal void BeginMove()
    {
        if (_moveDepth++ > 0) return;
        _moves++;
        Volatile.WriteBarrier();
    }

    internal void EndMove()
    {
        Debug.Assert(_moveDepth > 0, "a move ended that did not begin");
        if (--_moveDepth > 0) return;
        Volatile.WriteBarrier();
        _moves++;
    }

    /// <summary>Counts what becomes pending beside the blocks, or (negative) what is pending no more.</summary>
    internal void Count(long bytes)
    {
        _counted += bytes;
        Debug.Assert(_counted >= 0, "more left the queue than was in it");
    }

    // ------------------------------------------------------------------ the fill

    /// <summary>One comparison for both: nothing to send does not fit either.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal readonly bool FitsFill(int length) => (uint)(length - 1) < (uint)_room;

    /// <summary>Copies into the fill what fits there.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal void Copy(ReadOnlySpan<byte> data)
    {
        Debug.Assert(data.Length <= _room, "the fill has no room for it");
        Unsafe.CopyBlockUnaligned(ref *_fill, ref Unsafe.AsRef(in MemoryMarshal.GetReference(data)), (uint)data.Length);
        _fill += data.Length;
        _room -= data.Length;
    }

    /// <summary>Copies from the start what fits into the fill, which is closed when that was all of it. How much it was.</summary>
    internal int CopyPart(ReadOnlySpan<byte> data)
    {
        int count = Math.Min(_room, data.Length);
        Copy(data[..count]);
        if (_room == 0) CloseFill();
        return count;
    }

    /// <summary>The last block has room behind it that nobody has been lent.</summary>
    internal readonly bool HasFreeTail(long call) =>
        Blocks.Tail is { Kind: BlockKind.Pooled } tail && tail.End < tail.Capacity && !(IsLent(call) && ReferenceEquals(tail, _lent!.Block));

    /// <summary>
    /// Opens what the last block has left, and no more of it than the limit allows (and what was admitted already), so that the one
    /// comparison of a send checks the limit as well.
    /// </summary>
    internal void OpenFill(int needed)
    {
        Block tail = Blocks.Tail!;
        Debug.Assert(_granted == 0 && tail.Kind == BlockKind.Pooled && tail.End < tail.Capacity, "there is nothing to open");
        _fill = tail.Memory + tail.End;
        int room = (int)Math.Min(tail.Capacity - tail.End, Math.Max(RoomLeft, needed));
        BeginMove();
        _granted = room;
        _room = room;
        EndMove();
    }

    /// <summary>Counts what was written into the open fill. The room is gone until it is opened again.</summary>
    internal void CloseFill()
    {
        if (_granted == 0) return;
        int written = _granted - _room;
        Blocks.Tail!.End += written;
        _fill = null;
        BeginMove();
        _granted = 0;
        _room = 0;
        _counted += written;
        EndMove();
    }

    /// <summary>Puts a block behind all that was sent so far, and counts what it holds.</summary>
    internal void Enqueue(Block block)
    {
        CloseFill();
        Blocks.Enqueue(block);
        int charge = block.Charge;
        _counted += charge;
        if (charge != block.Length) _inFiles += block.Length - charge;
    }

    /// <summary>As <see cref="BlockQueue.Advance"/>, for what was sent: it is pending no more.</summary>
    internal Block? Advance(ref long count)
    {
        Block head = Blocks.Head!;
        long before = count;
        int charge = head.Charge;
        Block? done = Blocks.Advance(ref count);
        charge -= head.Charge;
        _counted -= charge;
        _inFiles -= before - count - charge;
        Debug.Assert(_counted >= 0 && _inFiles >= 0, "more left the queue than was in it");
        return done;
    }

    /// <summary>Bytes of files that are pending in the queue of somebody else (negative: were taken there), or are pending no more.</summary>
    internal void CountFiles(long bytes)
    {
        _inFiles += bytes;
        Debug.Assert(_inFiles >= 0, "more of files left the queue than was in it");
    }

    /// <summary>Part of a file's charge is one of its bytes on disk now, as it got so short.</summary>
    internal void Uncharge(int bytes)
    {
        _counted -= bytes;
        _inFiles += bytes;
    }

    /// <summary>All was thrown away but so much.</summary>
    internal void CountOnly(long bytes)
    {
        CloseFill();
        _counted = bytes;
        _inFiles = 0;
    }

    // ------------------------------------------------------------------ Reserve and Commit

    /// <summary>What was reserved may be written into until the user's code that runs now (that call) returns: until then nothing of the queue leaves.</summary>
    internal readonly bool IsLent(long call) => _lent is { } lent && lent.Call == call;

    private readonly bool IsAtEnd(LentRoom lent) => _granted == 0 && lent.Block is { } block && ReferenceEquals(Blocks.Tail, block) && block.End == lent.At;

    /// <summary>What was reserved before and not committed is given back. False: too many rooms were sent past in this call.</summary>
    internal bool TryBeginReserve(long call)
    {
        LentRoom lent = _lent ??= new LentRoom();
        if (lent.Call != call) lent.Lost = 0;
        else if (lent.Length > 0 && !IsAtEnd(lent)) lent.Lose();
        lent.Length = 0;
        return lent.Lost < MostLostRooms;
    }

    /// <summary>The last block has so much room. Otherwise a new one must be queued before <see cref="Reserve"/>.</summary>
    internal bool HasTailFor(int count, long call)
    {
        CloseFill();
        if (Blocks.Tail is { Kind: BlockKind.Pooled } tail && tail.Capacity - tail.End >= count) return true;
        if (_lent is { Block: not null } lent && lent.Call == call) lent.Lose();
        return false;
    }

    internal Span<byte> Reserve(int count, long call)
    {
        Block tail = Blocks.Tail!;
        Debug.Assert(_granted == 0 && tail.Capacity - tail.End >= count, "the last block has not that much room");
        _lent!.Lend(tail, count, call);
        return new Span<byte>(tail.Memory + tail.End, count);
    }

    /// <summary>Queues what was written into the reserved room. True when that was something.</summary>
    /// <param name="count">Bytes from its start.</param>
    /// <param name="call">The user's code that runs now.</param>
    /// <param name="isOpen">Sends are taken. When they are not any more, what was written is forgotten.</param>
    internal bool Commit(int count, long call, bool isOpen)
    {
        int reserved = _lent?.Length ?? 0;
        if (count < 0 || (count > reserved && reserved == 0)) CommitOutOfRange(count, reserved);
        if (_lent is not { Length: > 0 } lent) return false; // nothing to give back
        bool isLent = lent.Call == call;
        bool isAtEnd = IsAtEnd(lent);
        if (count > 0 && !isOpen)
        {
            // Ended in between.
            lent.Length = 0;
            return false;
        }

        if (count > 0 && !(isLent && isAtEnd))
        {
            lent.Length = 0;
            if (isLent) lent.Lose();
            RoomIsLost();
        }

        if (count > reserved) CommitOutOfRange(count, reserved);
        lent.Length = 0;
        if (!isAtEnd)
        {
            if (isLent) lent.Lose();
            return false;
        }

        lent.Block = null;
        if (lent.Lost == 0) lent.Call = 0;
        if (count == 0) return false;
        Blocks.Tail!.End += count;
        _counted += count;
        return true;
    }

    internal static void CheckReserve(int count)
    {
        if (count is < 1 or > BlockPool.BlockBytes) Throw.OutOfRange(nameof(count), count, $"between 1 and {BlockPool.BlockBytes}");
    }

    internal static void CommitOutOfRange(int count, int reserved) => Throw.OutOfRange(nameof(count), count, $"between 0 and the {reserved} reserved");

    internal static void RoomIsLost() => Throw.State("The room of Reserve is not at the end of the queue any more: something was sent behind it, or the callback that reserved it has returned. Nothing of it is sent. Commit before any other send, and in the same callback.");

    internal static void TooManyLost() => Throw.State($"{MostLostRooms} rooms of Reserve were neither committed nor given back before the next send of this callback. Call Commit, with 0 when nothing was written.");

    // ------------------------------------------------------------------ tenants

    /// <summary>The next tenant's, whose generation comes first: who comes late finds nobody here.</summary>
    internal void Recycle(uint generation)
    {
        Debug.Assert(_counted == 0 && _granted == 0 && _moveDepth == 0 && Blocks.IsEmpty, "the queue was not discarded");
        Debug.Assert(_inFiles == 0, "files were not discarded");
        Foreign.Begin(generation, isClosed: true);
        _lent = null;
    }
}
