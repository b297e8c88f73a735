namespace Whimbrel.Connections;

/// <summary>
/// State of a connection for threads other than the loop's: generation (31 bits), closed bit (1), and bytes of their
/// sends in progress (32). One word, so that a late caller can neither reach the next session nor exceed the limit. Any
/// thread.
/// </summary>
internal struct ForeignWord
{
    internal const uint GenerationMask = 0x7FFF_FFFF;
    private const ulong ClosedBit = 1UL << 32;
    private const int GenerationShift = 33;

    private long _word;

    /// <summary>Bytes reserved by other threads and not in the queue yet.</summary>
    internal readonly uint Bytes => (uint)Read();

    internal readonly bool IsClosed => ((ulong)Read() & ClosedBit) != 0;

    /// <summary>True if the generation is current and accepts sends.</summary>
    internal readonly bool IsOpenFor(uint generation) => IsOpenFor(Read(), generation);

    internal readonly bool IsOf(uint generation) => IsOf(Read(), generation);

    /// <summary>
    /// True if the generation is current and accepts sends, and other threads have none in progress: one comparison.
    /// </summary>
    internal readonly bool IsIdleFor(uint generation) => Read() == (long)((ulong)generation << GenerationShift);

    /// <summary>Starts a new generation without sends in progress. Loop's thread.</summary>
    internal void Begin(uint generation, bool isClosed) =>
        Volatile.Write(ref _word, (long)(((ulong)generation << GenerationShift) | (isClosed ? ClosedBit : 0)));

    /// <summary>
    /// Returns the current word for <see cref="TryAdd"/>. Values read in between are valid if TryAdd finds the word
    /// unchanged.
    /// </summary>
    internal readonly long Read() => Volatile.Read(in _word);

    internal static bool IsOf(long seen, uint generation) => (uint)((ulong)seen >> GenerationShift) == generation;

    internal static bool IsOpenFor(long seen, uint generation) =>
        IsOf(seen, generation) && ((ulong)seen & ClosedBit) == 0;

    /// <summary>Adds bytes. Returns false if the word has changed since it was read.</summary>
    internal bool TryAdd(long seen, int length) => Interlocked.CompareExchange(ref _word, seen + length, seen) == seen;

    /// <summary>
    /// Subtracts bytes that are in the queue now, or were discarded. Does nothing for another generation, which counts
    /// from zero.
    /// </summary>
    internal void Release(int length, uint generation)
    {
        while (true)
        {
            long seen = Read();
            if (!IsOf(seen, generation)) return;
            if (Interlocked.CompareExchange(ref _word, seen - length, seen) == seen) return;
        }
    }

    /// <summary>
    /// Rejects sends of this generation from now on. Returns false if it already did, or is not current.
    /// </summary>
    internal bool TryClose(uint generation)
    {
        while (true)
        {
            long seen = Read();
            if (!IsOpenFor(seen, generation)) return false;
            if (Interlocked.CompareExchange(ref _word, (long)((ulong)seen | ClosedBit), seen) == seen) return true;
        }
    }
}
