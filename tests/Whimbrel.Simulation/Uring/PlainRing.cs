using System.Runtime.InteropServices;
using Whimbrel.Engines.Uring;
using Whimbrel.Linux;

namespace Whimbrel.Simulation.Uring;

// A ring with queues in its own memory: the common part of the simulated ring and the injecting one. Safe: the
// queues are one piece of memory of this object, which lives until Free; every index is masked with their size.
internal abstract unsafe class PlainRing : Ring
{
    private const int WordBytes = 64;

    private readonly byte* _memory;
    private readonly uint* _submitTail;
    private ushort _bufferHead;

    protected PlainRing(uint submitEntries, uint completeEntries, int bufferCount, int bufferBytes)
        : base(bufferCount, bufferBytes)
    {
        int entryBytes = (int)submitEntries * sizeof(SubmissionEntry);
        _memory = (byte*)NativeMemory.AllocZeroed(
            (nuint)(WordBytes + entryBytes + ((int)completeEntries * sizeof(CompletionEntry))));
        uint* words = (uint*)_memory;
        _submitHead = words;
        _submitTailShared = _submitTail = words + 1;
        _completeHeadShared = words + 2;
        _completeTail = words + 3;
        _entries = (SubmissionEntry*)(_memory + WordBytes);
        _submitMask = submitEntries - 1;
        _completions = (CompletionEntry*)(_memory + WordBytes + entryBytes);
        _completeMask = completeEntries - 1;
    }

    // Submitted operations that were not processed yet.
    private protected uint Handed => *_submitTail - *_submitHead;

    // Completions that the loop has not consumed yet.
    private protected uint Held => *_completeTail - *_completeHeadShared;

    private protected bool HasRoom => Held <= _completeMask;

    private protected SubmissionEntry TakeEntry()
    {
        SubmissionEntry entry = _entries[*_submitHead & _submitMask];
        *_submitHead += 1;
        return entry;
    }

    private protected void Write(CompletionEntry entry)
    {
        _completions[*_completeTail & _completeMask] = entry;
        *_completeTail += 1;
    }

    // Buffers that the loop returned: up to the last submit, or all of them.
    private protected void TakeBuffers(bool all)
    {
        ushort tail = all ? _bufferTail : *(ushort*)((byte*)_bufferRing + UringAbi.BufferRingTailOffset);
        for (; _bufferHead != tail; _bufferHead++)
            BufferReturned(in *(_bufferRing + (_bufferHead & (BufferCount - 1))));
    }

    private protected abstract void BufferReturned(in ProvidedBuffer buffer);

    // Called when no pointer into it can exist any more.
    internal void Free()
    {
        NativeMemory.Free(_memory);
        FreeMemory();
    }
}
