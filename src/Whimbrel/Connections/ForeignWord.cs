namespace Whimbrel.Connections;

/// <summary>
/// What threads other than the loop's go by: the generation of the tenant (31 bits), whether it takes sends (1), and the bytes that they
/// have under way (32). In one word, so that a caller that comes late can neither reach the next tenant nor pass the limit. Any thread.
/// </summary>
internal struct ForeignWord
{
    internal const uint GenerationMask = 0x7FFF_FFFF;
    private const ulong ClosedBit = 1UL << 32;
    private const int GenerationShift = 33;

    private long _word;

    /// <summary>Promised, and not in the queue yet.</summary>
    internal readonly uint Bytes => (uint)Read();

    internal readonly bool IsClosed => ((ulong)Read() & ClosedBit) != 0;

    /// <summary>Its tenant is this one, and takes sends.</summary>
    internal readonly bool IsOpenFor(uint generation) => IsOpenFor(Read(), generation);

    internal readonly bool IsOf(uint generation) => IsOf(Read(), generation);

    /// <summary>A new tenant, with nothing under way. Loop's thread.</summary>
    internal void Begin(uint generation, bool isClosed) => Volatile.Write(ref _word, (long)(((ulong)generation << GenerationShift) | (isClosed ? ClosedBit : 0)));

    /// <summary>The word as it is now, for <see cref="TryAdd"/>: what the caller looks at in between is true when the word was still the same.</summary>
    internal readonly long Read() => Volatile.Read(in _word);

    internal static bool IsOf(long seen, uint generation) => (uint)((ulong)seen >> GenerationShift) == generation;

    internal static bool IsOpenFor(long seen, uint generation) => IsOf(seen, generation) && ((ulong)seen & ClosedBit) == 0;

    /// <summary>Adds bytes. False: the word has changed since it was read.</summary>
    internal bool TryAdd(long seen, int length) => Interlocked.CompareExchange(ref _word, seen + length, seen) == seen;

    /// <summary>They are in the queue now, or nowhere. Nothing when the tenant is another: its count began anew.</summary>
    internal void Release(int length, uint generation)
    {
        while (true)
        {
            long seen = Read();
            if (!IsOf(seen, generation)) return;
            if (Interlocked.CompareExchange(ref _word, seen - length, seen) == seen) return;
        }
    }

    /// <summary>This tenant takes no sends from here on. False when it did not already, or is gone.</summary>
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
