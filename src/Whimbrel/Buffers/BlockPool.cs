using System.Buffers;
using System.Diagnostics;
using System.Runtime.InteropServices;
using Whimbrel.Linux;

namespace Whimbrel.Buffers;

/// <summary>
/// The blocks of one loop: native memory, last in first out, so that the block just sent is filled next and is still in
/// the cache. Start addresses are staggered, otherwise blocks would compete for the same cache sets. Loop's thread
/// only. Keeps at most <see cref="MaxKept"/> free blocks; others are freed.
/// </summary>
internal sealed unsafe class BlockPool
{
    /// <summary>Size of a whole window of 1,000 messages of 32 bytes (docs/design/0002).</summary>
    internal const int BlockBytes = 32 * 1024;

    /// <summary>A block for each of a thousand connections with a send in progress, as io_uring has them.</summary>
    internal const int MaxKept = 1024;

    /// <summary>Number of free blocks that are kept when the others were not needed for a second.</summary>
    internal const int KeptIdle = 16;
    private const int MaxKeptHeaders = 16 * 1024;
    private const int MaxFreeRuns = 32;
    private const int StaggerBytes = 64;
    private const int StaggerSteps = 32;
    private const int AllocatedBytes = BlockBytes + (StaggerBytes * StaggerSteps);

    private Block? _free;
    private Block? _freeHeaders;
    private int _freeCount;
    private int _freeHeaderCount;
    private int _created;
    private int _leastFree = int.MaxValue; // since the last call of AskIdle
    private Run? _freeRun;
    private int _freeRunCount;
    private Run? _freeSharedRun;
    private int _freeSharedRunCount;
    private readonly List<Run> _idleRuns = [];

    /// <summary>Number of blocks of every kind in use. Zero when all connections have ended.</summary>
    internal int Outstanding { get; private set; }

    /// <summary>
    /// Size of the native memory of its blocks and runs, in use or kept for reuse. Any thread; may be slightly
    /// outdated.
    /// </summary>
    internal long HeldBytes { get; private set; }

    /// <summary>Number of runs, in use or kept for reuse.</summary>
    internal int RunCount { get; private set; }

    internal Block Take()
    {
        Outstanding++;
        Block? block = _free;
        if (block is null) return Create();
        _free = block.Next;
        _freeCount--;
        if (_freeCount < _leastFree) _leastFree = _freeCount;
        block.Next = null;
        return block;
    }

    // Safe: allocated with the stagger in addition, so Memory + BlockBytes stays inside; freed by Origin.
    private Block Create()
    {
        int stagger = _created++ % StaggerSteps * StaggerBytes;
        byte* memory = (byte*)NativeMemory.Alloc(AllocatedBytes);
        HeldBytes += AllocatedBytes;
        return new Block { Origin = memory, Memory = memory + stagger, Capacity = BlockBytes, Kind = BlockKind.Pooled };
    }

    /// <summary>Takes a separate block for one message that does not fit into a pooled block.</summary>
    internal Block TakeLarge(int capacity)
    {
        Block block = TakeHeader(BlockKind.Large);
        block.Memory = (byte*)NativeMemory.Alloc((nuint)capacity);
        HeldBytes += capacity;
        block.Capacity = capacity;
        return block;
    }

    /// <summary>
    /// Takes a block for memory that the application has passed with its ownership. Pinned until returned. If the
    /// memory throws, nothing is taken.
    /// </summary>
    internal Block TakeOwned(IMemoryOwner<byte> owner, Memory<byte> memory, int length)
    {
        MemoryHandle pin = memory[..length].Pin();
        Block block = TakeHeader(BlockKind.Owned);
        block.Owner = owner;
        block.Pin = pin;
        block.Memory = (byte*)block.Pin.Pointer;
        block.Capacity = length;
        block.End = length;
        return block;
    }

    internal Block TakeReference(Run run, int start, int length)
    {
        Block block = TakeHeader(BlockKind.Run);
        run.References++;
        block.Run = run;
        block.Memory = run.Memory;
        block.Start = start;
        block.End = start + length;
        return block;
    }

    /// <summary>Takes a block for a part of a file; the block has its own loan.</summary>
    internal Block TakeFile(OpenFile file, long offset, int length)
    {
        Block block = TakeHeader(BlockKind.File);
        file.LendOn();
        block.File = file;
        block.FileOffset = offset;
        block.End = length;
        return block;
    }

    private Block TakeHeader(BlockKind kind)
    {
        Outstanding++;
        Block? block = _freeHeaders;
        if (block is null) return new Block { Kind = kind };
        _freeHeaders = block.Next;
        _freeHeaderCount--;
        block.Next = null;
        block.Kind = kind;
        return block;
    }

    /// <summary>
    /// Returns a block, and with it the reference to a run. Returns the exception that the application's memory threw
    /// when it was released, or null.
    /// </summary>
    internal Exception? Return(Block block)
    {
        Exception? thrown = null;
        Outstanding--;
        Debug.Assert(Outstanding >= 0, "a block was returned twice");
        block.Start = 0;
        block.End = 0;
        if (block.Kind == BlockKind.Pooled)
        {
            if (_freeCount >= MaxKept)
            {
                Destroy(block);
                return null;
            }

            block.Next = _free;
            _free = block;
            _freeCount++;
            return null;
        }

        switch (block.Kind)
        {
            case BlockKind.Large:
                NativeMemory.Free(block.Memory);
                Freed(block.Capacity);
                break;
            case BlockKind.Owned:
                thrown = GiveBack(ref block.Pin, ref block.Owner);
                break;
            case BlockKind.Run:
                thrown = Release(block.Run!);
                block.Run = null;
                break;
            case BlockKind.File:
                block.File!.EndLoan();
                block.File = null;
                block.IsRead = false;
                break;
        }

        block.Memory = null;
        block.Capacity = 0;
        block.IsOfFile = false;
        if (_freeHeaderCount < MaxKeptHeaders)
        {
            block.Next = _freeHeaders;
            _freeHeaders = block;
            _freeHeaderCount++;
        }

        return thrown;
    }

    /// <summary>Unpins and disposes the application's memory: both are user code.</summary>
    private static Exception? GiveBack(ref MemoryHandle pin, ref IMemoryOwner<byte>? owner)
    {
        Exception? thrown = null;
        try
        {
            pin.Dispose();
        }
        catch (Exception e)
        {
            thrown = e;
        }

        pin = default;
        try
        {
            owner!.Dispose();
        }
        catch (Exception e)
        {
            thrown ??= e;
        }

        owner = null;
        return thrown;
    }

    // ------------------------------------------------------------------ runs

    /// <summary>Takes an empty run with one reference, the caller's.</summary>
    internal Run TakeRun(int length)
    {
        Run run;
        if (length > Run.FixedCapacity || _freeRun is null)
        {
            run = new Run(Math.Max(length, Run.FixedCapacity));
            HeldBytes += run.Capacity;
            RunCount++;
        }
        else
        {
            run = _freeRun;
            _freeRun = run.Next;
            _freeRunCount--;
            run.Next = null;
        }

        run.Length = 0;
        run.References = 1;
        return run;
    }

    /// <summary>
    /// Takes an empty run that stays open for appending, with one reference, the caller's. When it has no other
    /// references, it is closed after the next flush: ten thousand quiet groups share a few runs instead of keeping one
    /// each.
    /// </summary>
    internal Run TakeOpenRun(int length)
    {
        Run run = TakeRun(length);
        run.IsOpen = true;
        return run;
    }

    /// <summary>Ends appending, and releases the reference of the code that opened the run.</summary>
    internal void CloseRun(Run run)
    {
        run.IsOpen = false;
        run.Lease++;
        Release(run);
    }

    /// <summary>True if an open run may have no other references.</summary>
    internal bool HasIdleRuns => _idleRuns.Count > 0;

    /// <summary>
    /// Closes the open runs without other references. A run that is being written has another reference, held by its
    /// writer.
    /// </summary>
    internal void CloseIdleRuns()
    {
        foreach (Run run in _idleRuns)
        {
            run.IsNotedIdle = false;
            if (run.IsOpen && run.References == 1) CloseRun(run);
        }

        _idleRuns.Clear();
    }

    /// <summary>
    /// Takes a full run for the application's memory, pinned, with one reference, the caller's. If the memory throws,
    /// nothing is taken. Its last reference releases the memory.
    /// </summary>
    internal Run TakeSharedRun(IMemoryOwner<byte> owner, int offset, int length)
    {
        MemoryHandle pin = owner.Memory.Slice(offset, length).Pin();
        Run? run = _freeSharedRun;
        if (run is null)
        {
            run = new Run();
        }
        else
        {
            _freeSharedRun = run.Next;
            _freeSharedRunCount--;
            run.Next = null;
        }

        run.Owner = owner;
        run.Pin = pin;
        run.Memory = (byte*)pin.Pointer;
        run.Capacity = length;
        run.Length = length;
        run.References = 1;
        return run;
    }

    /// <summary>
    /// Releases one reference. Returns the exception that the application's memory threw when the last reference of a
    /// shared run was released, or null.
    /// </summary>
    internal Exception? Release(Run run)
    {
        if (--run.References > 0)
        {
            if (run.References > 1 || !run.IsOpen || run.IsNotedIdle) return null;
            run.IsNotedIdle = true;
            _idleRuns.Add(run);
            return null;
        }

        Debug.Assert(run.References == 0, "a run was released twice");
        if (run.Owner is not null) return ReleaseShared(run);
        if (run.Capacity != Run.FixedCapacity || _freeRunCount >= MaxFreeRuns)
        {
            run.Free();
            Freed(run.Capacity);
            RunCount--;
            return null;
        }

        run.Next = _freeRun;
        _freeRun = run;
        _freeRunCount++;
        return null;
    }

    private Exception? ReleaseShared(Run run)
    {
        run.Memory = null;
        Exception? thrown = GiveBack(ref run.Pin, ref run.Owner);
        if (_freeSharedRunCount >= MaxFreeRuns) return thrown;
        run.Next = _freeSharedRun;
        _freeSharedRun = run;
        _freeSharedRunCount++;
        return thrown;
    }

    private void Freed(long bytes)
    {
        HeldBytes -= bytes;
        NativeHeap.Freed(bytes);
    }

    /// <summary>
    /// Returns the number of free blocks that were not needed since the last call. Any thread; may miss concurrent
    /// changes.
    /// </summary>
    internal int AskIdle()
    {
        int idle = Math.Min(Volatile.Read(ref _leastFree), Volatile.Read(ref _freeCount));
        Volatile.Write(ref _leastFree, int.MaxValue);
        return idle - KeptIdle;
    }

    /// <summary>Frees this number of free blocks.</summary>
    internal void FreeIdle(int count)
    {
        for (; count > 0 && _free is { } block; count--)
        {
            _free = block.Next;
            _freeCount--;
            Destroy(block);
        }
    }

    // Safe: only pooled blocks have an Origin, and a free block is in no queue.
    private void Destroy(Block block)
    {
        NativeMemory.Free(block.Origin);
        Freed(AllocatedBytes);
        block.Origin = null;
        block.Memory = null;
    }

    internal void Clear()
    {
        for (Block? block = _free; block is not null; block = block.Next) Destroy(block);
        _free = null;
        RunCount -= _freeRunCount;
        for (Run? run = _freeRun; run is not null; run = run.Next)
        {
            run.Free();
            Freed(run.Capacity);
        }

        _freeRun = null;
        _freeRunCount = 0;
        _freeSharedRun = null;
        _freeSharedRunCount = 0;
        _idleRuns.Clear();
        _freeHeaders = null;
        _freeCount = 0;
        _freeHeaderCount = 0;
    }
}
