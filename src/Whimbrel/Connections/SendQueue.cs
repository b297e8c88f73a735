using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using Whimbrel.Buffers;
using Whimbrel.Diagnostics;

namespace Whimbrel.Connections;

/// <summary>
/// Data that a connection has accepted and not yet passed to the system: the blocks, the fill (open space at their
/// end), the counts and the limit. It refers neither to the socket nor to the session, and applies no policy;
/// Connection.Outbound.Send.cs checks for space first.
/// </summary>
/// <remarks>
/// Loop's thread, except <see cref="Foreign"/> and <see cref="PendingFromElsewhere"/>. A field of its connection, never
/// copied. Pending are the bytes in the blocks, bytes written into the fill and not counted yet, and sends of other
/// threads in progress. In addition the connection counts runs held by a gate, and plaintext in the wire queue.
/// All of it counts against the limit, except that a part of a file counts at most <see cref="FileRange.ChargeBytes"/>,
/// because its bytes are not in memory.
/// </remarks>
// Safe: _room > 0 only while _fill points at that many free bytes after the last byte of the last block, and only the
// loop's thread changes either.
internal unsafe struct SendQueue
{
    // The fill: while _room > 0 a flush is certain to follow, so Send has nothing else to check.
    private byte* _fill;
    private int _room;
    private int _granted;
    private int _moves;
    private int _moveDepth;
    private long _counted;
    private int _limit;
    private bool _allowsLarge;
    private long _inFiles; // bytes of file parts beyond their accounted size: on disk, or read ahead

    /// <summary>Queued blocks, without the bytes in the open fill.</summary>
    internal BlockQueue Blocks;

    internal ForeignWord Foreign;

    /// <summary>
    /// Maximum number of pending bytes. Set where the session runs, which may be a thread of the pool.
    /// </summary>
    internal long Limit
    {
        readonly get => Volatile.Read(in _limit);
        set => Volatile.Write(ref _limit, (int)value);
    }

    /// <summary>True if a message may exceed the limit while nothing is pending. Set like the limit.</summary>
    internal bool AllowsLarge
    {
        readonly get => Volatile.Read(in _allowsLarge);
        set => Volatile.Write(ref _allowsLarge, value);
    }

    /// <summary>Number of bytes that may be copied into the fill now.</summary>
    internal readonly int Room => _room;

    /// <summary>Number of bytes pending here, without sends of other threads in progress. Loop's thread.</summary>
    internal readonly long Queued => _counted + _granted - _room + _inFiles;

    /// <summary>Part of them that does not count against the limit.</summary>
    internal readonly long InFiles => _inFiles;

    /// <summary>
    /// Number of bytes accepted and not yet passed to the system. For the loop's thread, because then only other
    /// threads' additions change it.
    /// </summary>
    internal readonly long Pending => Queued + Foreign.Bytes;

    /// <summary>
    /// Number of bytes that the limit still allows. Negative if a lower limit was set. Loop's thread.
    /// </summary>
    internal readonly long RoomLeft => Limit - (_counted + _granted - _room) - Foreign.Bytes;

    internal readonly bool HasRoomFor(long length) => length <= RoomLeft || (AllowsLarge && RoomLeft == Limit);

    /// <summary>The same for any other thread.</summary>
    internal readonly bool HasRoomFromElsewhere(long length)
    {
        long charged = ReadFromElsewhere(withFiles: false);
        return charged + length <= Limit || (AllowsLarge && charged == 0);
    }

    /// <summary>True if a message of this length fits once enough has been sent.</summary>
    internal readonly bool MayEverFit(long length) => length <= Limit || AllowsLarge;

    /// <summary>
    /// Number of pending bytes, for any other thread. Reads again while the loop moves bytes between two counts, so
    /// that none is counted twice or missed.
    /// </summary>
    internal readonly long PendingFromElsewhere() => ReadFromElsewhere(withFiles: true);

    /// <summary>Number of those bytes that count against the limit.</summary>
    internal readonly long ChargedFromElsewhere() => ReadFromElsewhere(withFiles: false);

    private readonly long ReadFromElsewhere(bool withFiles)
    {
        SpinWait spin = default;
        while (true)
        {
            int moves = Volatile.Read(in _moves);
            long pending = Volatile.Read(in _counted) + Volatile.Read(in _granted) - Volatile.Read(in _room)
                + Foreign.Bytes;
            if (withFiles) pending += Volatile.Read(in _inFiles);
            Volatile.ReadBarrier();
            if ((moves & 1) == 0 && moves == Volatile.Read(in _moves)) return pending;
            spin.SpinOnce(sleep1Threshold: -1);
        }
    }

    /// <summary>Starts a move of bytes between two counts; the number of moves is odd meanwhile.</summary>
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

    /// <summary>Counts bytes that become pending outside the blocks, or (negative) are no longer pending.</summary>
    internal void Count(long bytes)
    {
        _counted += bytes;
        Debug.Assert(_counted >= 0, "more left the queue than was in it");
    }

    // ------------------------------------------------------------------ the fill

    /// <summary>
    /// True if the message fits the fill. One comparison covers both cases: an empty message does not fit either.
    /// </summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal readonly bool FitsFill(int length) => (uint)(length - 1) < (uint)_room;

    /// <summary>Copies a message that fits into the fill.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal void Copy(ReadOnlySpan<byte> data)
    {
        Debug.Assert(data.Length <= _room, "the fill has no room for it");
        Unsafe.CopyBlockUnaligned(ref *_fill, ref Unsafe.AsRef(in MemoryMarshal.GetReference(data)), (uint)data.Length);
        _fill += data.Length;
        _room -= data.Length;
    }

    /// <summary>Copies the first part into the fill, and closes a full fill. Returns the number of bytes.</summary>
    internal int CopyPart(ReadOnlySpan<byte> data)
    {
        int count = Math.Min(_room, data.Length);
        Copy(data[..count]);
        if (_room == 0) CloseFill();
        return count;
    }

    /// <summary>True if the last block has free space.</summary>
    internal readonly bool HasFreeTail => Blocks.Tail is { Kind: BlockKind.Pooled } tail && tail.End < tail.Capacity;

    /// <summary>
    /// Opens the free space of the last block as the fill, but no more than the limit allows (plus bytes already
    /// admitted), so that the one comparison of a send also checks the limit.
    /// </summary>
    internal void OpenFill(int needed)
    {
        Block tail = Blocks.Tail!;
        Debug.Assert(_granted == 0 && tail.Kind == BlockKind.Pooled && tail.End < tail.Capacity,
            "there is nothing to open");
        _fill = tail.Memory + tail.End;
        int room = (int)Math.Min(tail.Capacity - tail.End, Math.Max(RoomLeft, needed));
        BeginMove();
        _granted = room;
        _room = room;
        EndMove();
    }

    /// <summary>Counts the bytes written into the open fill, and closes it.</summary>
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

    /// <summary>Appends a block, and counts its bytes.</summary>
    internal void Enqueue(Block block)
    {
        CloseFill();
        Blocks.Enqueue(block);
        int charge = block.Charge;
        _counted += charge;
        if (charge != block.Length) _inFiles += block.Length - charge;
    }

    /// <summary>As <see cref="BlockQueue.Advance"/>, for sent bytes, which are no longer pending.</summary>
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

    /// <summary>
    /// Counts file bytes that are pending in another queue (negative: were taken there), or no longer pending.
    /// </summary>
    internal void CountFiles(long bytes)
    {
        _inFiles += bytes;
        Debug.Assert(_inFiles >= 0, "more of files left the queue than was in it");
    }

    /// <summary>
    /// Moves bytes from a file part's accounted size to its bytes on disk, because the rest has become shorter.
    /// </summary>
    internal void Uncharge(int bytes)
    {
        _counted -= bytes;
        _inFiles += bytes;
    }

    /// <summary>Sets the counts after everything except this number of bytes was discarded.</summary>
    internal void CountOnly(long bytes)
    {
        CloseFill();
        _counted = bytes;
        _inFiles = 0;
    }

    // ------------------------------------------------------------------ tenants

    /// <summary>Prepares the next use. The generation changes first, so that late callers are rejected.</summary>
    internal void Recycle(uint generation)
    {
        Debug.Assert(_counted == 0 && _granted == 0 && _moveDepth == 0 && Blocks.IsEmpty,
            "the queue was not discarded");
        Debug.Assert(_inFiles == 0, "files were not discarded");
        Foreign.Begin(generation, isClosed: true);
    }
}
