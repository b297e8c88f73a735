using System.Buffers;
using System.Runtime.InteropServices;
using Whimbrel.Buffers;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>
/// Bytes that many sessions, on many loops, may have queued at the same time without a copy for each.
/// Reference-counted: the creator has one reference, <see cref="AddReference"/> adds one, <see cref="Dispose"/>
/// releases one. A queued send holds its own, so the object may be disposed right after the last send: the memory is
/// released when the last connection has sent it or has ended. Any thread. The bytes must not change.
/// </summary>
public sealed class SharedBytes : IDisposable
{
    private readonly Memory<byte> _memory;
    private readonly IMemoryOwner<byte>? _owner;
    private readonly QueuedLoan _loan;

    private LoanCount _counts = LoanCount.First;

    /// <summary>Creates a copy of the bytes, in memory that the garbage collector never moves.</summary>
    /// <param name="bytes">Bytes to copy.</param>
    public SharedBytes(ReadOnlySpan<byte> bytes)
    {
        byte[] copy = GC.AllocateUninitializedArray<byte>(bytes.Length, pinned: true);
        bytes.CopyTo(copy);
        _memory = MemoryMarshal.CreateFromPinnedArray(copy, 0, copy.Length);
        _loan = new QueuedLoan(this);
    }

    /// <summary>
    /// Takes ownership of memory without copying it. It is disposed, on any thread, when the last reference is released
    /// and nothing of it is queued.
    /// </summary>
    /// <param name="owner">Owner of the memory. Several loops may pin it at the same time.</param>
    /// <param name="length">Number of bytes, from the start.</param>
    public SharedBytes(IMemoryOwner<byte> owner, int length)
    {
        ArgumentNullException.ThrowIfNull(owner);
        Memory<byte> memory = owner.Memory;
        if ((uint)length > (uint)memory.Length)
            Throw.OutOfRange(nameof(length), length, $"between 0 and {memory.Length}");
        _memory = memory[..length];
        _owner = owner;
        _loan = new QueuedLoan(this);
    }

    /// <summary>Number of bytes.</summary>
    public int Length => _memory.Length;

    /// <summary>The bytes. Valid while the caller has a reference.</summary>
    /// <exception cref="ObjectDisposedException">All references were released.</exception>
    public ReadOnlyMemory<byte> Memory
    {
        get
        {
            if (!_counts.HasReferences) Throw.Disposed(nameof(SharedBytes));
            return _memory;
        }
    }

    /// <summary>Adds a reference for another owner, which must be disposed once.</summary>
    /// <exception cref="ObjectDisposedException">All references were released.</exception>
    public SharedBytes AddReference()
    {
        if (!_counts.TryAddReference()) Throw.Disposed(nameof(SharedBytes));
        return this;
    }

    /// <summary>Releases one reference. Queued bytes are still sent.</summary>
    /// <exception cref="ObjectDisposedException">More references were released than taken.</exception>
    public void Dispose()
    {
        if (!_counts.TryRelease(out bool isLast)) Throw.Disposed(nameof(SharedBytes));
        if (isLast) _owner?.Dispose();
    }

    /// <summary>Lends the bytes to one send, which disposes the loan at its end.</summary>
    internal IMemoryOwner<byte> Lend()
    {
        if (!_counts.TryLend()) Throw.Disposed(nameof(SharedBytes));
        return _loan;
    }

    /// <summary>Adds a loan while there is one, for each loop of a broadcast.</summary>
    internal IMemoryOwner<byte> LendMore()
    {
        _counts.LendOn();
        return _loan;
    }

    /// <summary>The loan that <see cref="LendMore"/> added, for passing it on.</summary>
    internal IMemoryOwner<byte> Loan => _loan;

    /// <summary>Loan of all queues. One object for all of them: each queue counts once and disposes once.</summary>
    private sealed class QueuedLoan(SharedBytes bytes) : IMemoryOwner<byte>
    {
        Memory<byte> IMemoryOwner<byte>.Memory => bytes._memory;

        public void Dispose()
        {
            if (bytes._counts.EndLoan()) bytes._owner?.Dispose();
        }
    }
}
