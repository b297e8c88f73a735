using System.Buffers;
using System.Runtime.InteropServices;
using Whimbrel.Buffers;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>
/// Bytes that many sessions, on many loops, may have queued at the same time without a copy for each. Counts references: whoever makes it
/// has one, <see cref="AddReference"/> takes another, <see cref="Dispose"/> gives one back. A queued send counts for itself, so it may be
/// disposed right after the last send: the memory goes back when the last connection has sent it, or has ended. Any thread. The bytes must not change.
/// </summary>
public sealed class SharedBytes : IDisposable
{
    private readonly Memory<byte> _memory;
    private readonly IMemoryOwner<byte>? _owner;
    private readonly QueuedLoan _loan;

    private LoanCount _counts = LoanCount.First;

    /// <summary>Bytes of its own: a copy, which the garbage collector never moves.</summary>
    /// <param name="bytes">What is copied.</param>
    public SharedBytes(ReadOnlySpan<byte> bytes)
    {
        byte[] copy = GC.AllocateUninitializedArray<byte>(bytes.Length, pinned: true);
        bytes.CopyTo(copy);
        _memory = MemoryMarshal.CreateFromPinnedArray(copy, 0, copy.Length);
        _loan = new QueuedLoan(this);
    }

    /// <summary>Takes over memory without copying it: it is disposed when the last reference is back and nothing of it is queued, on any thread.</summary>
    /// <param name="owner">The memory. Several loops may pin it at the same time.</param>
    /// <param name="length">How many of its bytes, from the start.</param>
    public SharedBytes(IMemoryOwner<byte> owner, int length)
    {
        ArgumentNullException.ThrowIfNull(owner);
        Memory<byte> memory = owner.Memory;
        if ((uint)length > (uint)memory.Length) Throw.OutOfRange(nameof(length), length, $"between 0 and {memory.Length}");
        _memory = memory[..length];
        _owner = owner;
        _loan = new QueuedLoan(this);
    }

    /// <summary>How many bytes there are.</summary>
    public int Length => _memory.Length;

    /// <summary>The bytes. Valid while the caller has a reference.</summary>
    /// <exception cref="ObjectDisposedException">All references were given back.</exception>
    public ReadOnlyMemory<byte> Memory
    {
        get
        {
            if (!_counts.HasReferences) Throw.Disposed(nameof(SharedBytes));
            return _memory;
        }
    }

    /// <summary>One more owner, who disposes it once.</summary>
    /// <exception cref="ObjectDisposedException">All references were given back.</exception>
    public SharedBytes AddReference()
    {
        if (!_counts.TryAddReference()) Throw.Disposed(nameof(SharedBytes));
        return this;
    }

    /// <summary>Gives one reference back. What is queued is sent nevertheless.</summary>
    /// <exception cref="ObjectDisposedException">More were given back than taken.</exception>
    public void Dispose()
    {
        if (!_counts.TryRelease(out bool isLast)) Throw.Disposed(nameof(SharedBytes));
        if (isLast) _owner?.Dispose();
    }

    /// <summary>For one send: disposed when that is over.</summary>
    internal IMemoryOwner<byte> Lend()
    {
        if (!_counts.TryLend()) Throw.Disposed(nameof(SharedBytes));
        return _loan;
    }

    /// <summary>One more, while there is one: for each loop of a broadcast.</summary>
    internal IMemoryOwner<byte> LendMore()
    {
        _counts.LendOn();
        return _loan;
    }

    /// <summary>What <see cref="LendMore"/> gave, on its way.</summary>
    internal IMemoryOwner<byte> Loan => _loan;

    /// <summary>What queues have of it. One object for all of them: each counts once, and gives back once.</summary>
    private sealed class QueuedLoan(SharedBytes bytes) : IMemoryOwner<byte>
    {
        Memory<byte> IMemoryOwner<byte>.Memory => bytes._memory;

        public void Dispose()
        {
            if (bytes._counts.EndLoan()) bytes._owner?.Dispose();
        }
    }
}
