using System.Diagnostics;
using System.Net;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using Whimbrel.Buffers;
using Whimbrel.Connections;
using Whimbrel.Linux;

namespace Whimbrel.Engines.Uring;

/// <summary>
/// The kernel interface of the io_uring engine: a queue of operations, a queue of completions and a ring of receive
/// buffers. Calls that the engine makes on a socket directly are in <see cref="SocketCalls"/>. The queues are plain
/// memory, so pushing and taking are not virtual. Subclasses fill that memory: <see cref="KernelRing"/> on a system, a
/// simulation in tests.
/// </summary>
/// <remarks>
/// Owned by one <see cref="UringLoop"/>. Its thread only, except for <see cref="Wake"/>. Guarantees of a kernel:
/// <list type="number">
/// <item>Each pushed operation gets exactly one completion without <c>IORING_CQE_F_MORE</c>, and none after it.</item>
/// <item>Completions and receive buffers are transferred only inside <see cref="Enter"/>.</item>
/// <item>Memory that an operation points to is read before Enter has taken the operation (message header, vectors), or
/// until its last completion (data).</item>
/// <item>Completions of one operation arrive in the order of their events.</item>
/// </list>
/// </remarks>
// Safe: the subclass sets the pointers once, to memory of the given sizes that lives until Close; every index is masked
// with the size of its queue.
internal abstract unsafe class Ring
{
    private const int ScratchBytes = 256 * 1024;
    private const int PageBytes = 4096;

    private protected SubmissionEntry* _entries;
    private protected uint* _submitHead;
    private protected uint* _submitTailShared;
    private protected uint _submitMask;
    private protected CompletionEntry* _completions;
    private protected uint* _completeHeadShared;
    private protected uint* _completeTail;
    private protected uint _completeMask;
    private protected ushort _bufferTail; // buffers up to here are returned; published at the next submit

    private readonly int _bufferCount;
    private readonly int _bufferBytes;
    private readonly byte* _buffers;
    private readonly byte* _largeBuffer;
    private readonly byte* _scratch;
    private protected readonly ProvidedBuffer* _bufferRing;
    private uint _submitTail;
    private uint _completeHead;
    private int _scratchUsed;

    // Operations that the kernel did not take because its queue was full. Moved into the queue before the next wait.
    private SubmissionEntry[] _waiting = [];
    private int _waitingCount;

    // Completions taken out of their queue to free space in it, oldest first.
    private readonly Queue<CompletionEntry> _aside = new();

    private protected Ring(int bufferCount, int bufferBytes)
    {
        // The word after them is the loop's (WakeWord).
        Debug.Assert((bufferCount * sizeof(ProvidedBuffer)) + sizeof(ulong) <= PageBytes,
            "the ring of buffers has one page");
        _bufferCount = bufferCount;
        _bufferBytes = bufferBytes;
        _buffers = (byte*)NativeMemory.AlignedAlloc((nuint)(bufferCount * bufferBytes), PageBytes);
        _largeBuffer = (byte*)NativeMemory.AlignedAlloc((nuint)LargeBufferBytes, PageBytes);
        _bufferRing = (ProvidedBuffer*)NativeMemory.AlignedAlloc(PageBytes, PageBytes);
        _scratch = (byte*)NativeMemory.AlignedAlloc(ScratchBytes, 64);
        NativeMemory.Clear(_bufferRing, PageBytes);
        for (int i = 0; i < bufferCount; i++) ReturnBuffer(i);
    }

    /// <summary>Size of its native memory, with queues that are shared with the kernel.</summary>
    internal virtual long HeldBytes =>
        ((long)_bufferCount * _bufferBytes) + LargeBufferBytes + PageBytes + ScratchBytes;

    /// <summary>Number of receive buffers; a power of two.</summary>
    internal int BufferCount => _bufferCount;

    /// <summary>A receive of at least this size counts as large: half of a buffer.</summary>
    internal int LargeReceiveBytes => _bufferBytes / 2;

    /// <summary>A receive below this size counts as small.</summary>
    internal int SmallReceiveBytes => _bufferBytes / 8;

    /// <summary>Buffer of large receives, which are direct calls.</summary>
    internal byte* LargeBuffer => _largeBuffer;

    internal int LargeBufferBytes => _bufferBytes * 2;

    /// <summary>Number of completions that can be taken now.</summary>
    internal int Ready => _aside.Count + (int)(Volatile.Read(ref *_completeTail) - _completeHead);

    /// <summary>
    /// Target of the loop's read of <see cref="WakeDescriptor"/>: the end of the page of the buffer ring.
    /// </summary>
    internal ulong* WakeWord => (ulong*)((byte*)_bufferRing + PageBytes) - 1;

    // ------------------------------------------------------------------ operations

    /// <summary>Queues an operation, which the kernel gets with the next submit. Always succeeds.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal void Push(in SubmissionEntry entry)
    {
        if (_waitingCount != 0 || _submitTail - Volatile.Read(ref *_submitHead) > _submitMask)
        {
            PushToFull(entry);
            return;
        }

        _entries[_submitTail & _submitMask] = entry;
        _submitTail++;
    }

    private void PushToFull(in SubmissionEntry entry)
    {
        // Nothing is delivered here, only taken: a completion for which its full queue has no space would cost kernel
        // memory.
        if (Ready > _completeMask / 2) SetAside();
        _ = Submit(0, takesEvents: false, 0);
        MoveWaiting();
        if (_waitingCount == 0 && _submitTail - Volatile.Read(ref *_submitHead) <= _submitMask)
        {
            _entries[_submitTail & _submitMask] = entry;
            _submitTail++;
            return;
        }

        if (_waitingCount == _waiting.Length) Array.Resize(ref _waiting, Math.Max(64, _waitingCount * 2));
        _waiting[_waitingCount++] = entry;
    }

    private void MoveWaiting()
    {
        if (_waitingCount == 0) return;
        int moved = 0;
        while (moved < _waitingCount && _submitTail - Volatile.Read(ref *_submitHead) <= _submitMask)
            _entries[_submitTail++ & _submitMask] = _waiting[moved++];
        _waitingCount -= moved;
        Array.Copy(_waiting, moved, _waiting, 0, _waitingCount);
    }

    /// <summary>
    /// True if the operation with this mark was pushed and the kernel has not taken it. For a ring that is being
    /// replaced.
    /// </summary>
    internal bool IsUntaken(ulong mark)
    {
        for (uint i = Volatile.Read(ref *_submitHead); i != _submitTail; i++)
        {
            if (_entries[i & _submitMask].UserData == mark) return true;
        }

        for (int i = 0; i < _waitingCount; i++)
        {
            if (_waiting[i].UserData == mark) return true;
        }

        return false;
    }

    /// <summary>
    /// Returns memory for a message header and vectors, valid until their operation is taken. Null if none is left.
    /// </summary>
    internal byte* TryTakeScratch(int bytes)
    {
        if (bytes > ScratchBytes - _scratchUsed) return null;
        byte* memory = _scratch + _scratchUsed;
        _scratchUsed += (bytes + 15) & ~15;
        return memory;
    }

    /// <summary>
    /// Submits queued operations and waits for a completion for at most <paramref name="timeoutMs"/> (-1: no limit).
    /// Returns 0, or the error number of a ring that is no longer usable.
    /// </summary>
    internal int SubmitAndWait(long timeoutMs)
    {
        MoveWaiting();
        bool waits = timeoutMs != 0 && _waitingCount == 0 && _aside.Count == 0;
        int error = Submit(waits ? 1U : 0, takesEvents: true, waits ? timeoutMs : 0);
        FreeScratch();
        return error;
    }

    /// <summary>
    /// Submits queued operations, without taking completions. Otherwise like <see cref="SubmitAndWait"/>.
    /// </summary>
    internal int Submit()
    {
        MoveWaiting();
        int error = Submit(0, takesEvents: false, 0);
        FreeScratch();
        return error;
    }

    /// <summary>
    /// Not called when a full queue was submitted: the operation being pushed already has its scratch memory and is not
    /// in the queue yet.
    /// </summary>
    private void FreeScratch()
    {
        if (_waitingCount == 0 && Volatile.Read(ref *_submitHead) == _submitTail) _scratchUsed = 0;
    }

    private int Submit(uint complete, bool takesEvents, long timeoutMs)
    {
        Volatile.Write(ref *(ushort*)((byte*)_bufferRing + UringAbi.BufferRingTailOffset), _bufferTail);
        Volatile.Write(ref *_completeHeadShared, _completeHead);
        Volatile.Write(ref *_submitTailShared, _submitTail);
        int result = Enter(_submitTail - Volatile.Read(ref *_submitHead), complete, takesEvents, timeoutMs);
        if (result >= 0) return 0;
        switch (-result)
        {
            // A signal, the end of the wait, or no memory at present: the next turn tries again.
            case Errno.EINTR or Errno.ETIME or Errno.EAGAIN or Errno.ENOMEM:
                return 0;
            case Errno.EBUSY:
                SetAside();
                return 0;
            default:
                return -result;
        }
    }

    // ------------------------------------------------------------------ completions

    /// <summary>Takes the oldest completion. The caller has checked <see cref="Ready"/>.</summary>
    internal void Take(out CompletionEntry entry)
    {
        if (_aside.Count > 0)
        {
            entry = _aside.Dequeue();
            return;
        }

        entry = _completions[_completeHead & _completeMask];
        _completeHead++;
    }

    /// <summary>
    /// Empties the queue, so that the kernel can complete more before these completions are delivered.
    /// </summary>
    private void SetAside()
    {
        uint tail = Volatile.Read(ref *_completeTail);
        while (_completeHead != tail) _aside.Enqueue(_completions[_completeHead++ & _completeMask]);
    }

    // ------------------------------------------------------------------ receive buffers

    internal byte* BufferAt(int id) => _buffers + ((long)id * _bufferBytes);

    /// <summary>Returns a buffer, into which the kernel may receive from the next submit on.</summary>
    internal void ReturnBuffer(int id)
    {
        // Field by field, because the tail of the ring overlaps the unused field of the first entry.
        ProvidedBuffer* buffer = _bufferRing + (_bufferTail & (_bufferCount - 1));
        buffer->Address = (ulong)BufferAt(id);
        buffer->Length = (uint)_bufferBytes;
        buffer->Id = (ushort)id;
        _bufferTail++;
    }

    private protected void FreeMemory()
    {
        NativeMemory.AlignedFree(_buffers);
        NativeMemory.AlignedFree(_largeBuffer);
        NativeMemory.AlignedFree(_bufferRing);
        NativeMemory.AlignedFree(_scratch);
    }

    // ------------------------------------------------------------------ what the kernel does

    /// <summary>True if a multishot receive can have a limit of bytes after which it ends (Linux 6.16).</summary>
    internal abstract bool CanLimitReceive { get; }

    /// <summary>Descriptor that <see cref="Wake"/> makes readable; the loop keeps a read of 8 bytes on it.</summary>
    internal abstract int WakeDescriptor { get; }

    /// <summary>
    /// Takes <paramref name="submit"/> operations. With <paramref name="takesEvents"/> it also processes pending
    /// events, and waits for <paramref name="complete"/> completions. Returns the number of operations taken, or a
    /// negated error number.
    /// </summary>
    private protected abstract int Enter(uint submit, uint complete, bool takesEvents, long timeoutMs);

    /// <summary>Ends the current or the next wait. Any thread.</summary>
    internal abstract void Wake();

    /// <summary>
    /// Closes the ring. Its memory and eventfd are released only if no operation is running and no thread can wake it.
    /// Otherwise the kernel may still write to the memory, and another thread to the eventfd.
    /// </summary>
    internal abstract void Close(bool isIdle);
}
