namespace Whimbrel.Buffers;

/// <summary>
/// Who still has something that many may send at once: references of users in the lower half of a word, loans of queued sends in the upper,
/// counted apart so that nobody gives back what is not his. Whoever brings it to nothing frees the thing. Any thread.
/// </summary>
internal struct LoanCount
{
    private const long Reference = 1;
    private const long Loan = 1L << 32;

    private long _counts;

    /// <summary>One reference: its maker's.</summary>
    internal static LoanCount First => new() { _counts = Reference };

    internal readonly bool HasReferences => (uint)Volatile.Read(in _counts) != 0;

    /// <summary>False when all references were given back.</summary>
    internal bool TryAddReference() => TryAdd(Reference);

    internal bool TryLend() => TryAdd(Loan);

    /// <summary>One more loan for who has one.</summary>
    internal void LendOn() => Interlocked.Add(ref _counts, Loan);

    /// <summary>Gives a reference back, if there is one.</summary>
    /// <param name="isLast">Nobody has anything any more.</param>
    internal bool TryRelease(out bool isLast)
    {
        while (true)
        {
            long counts = Volatile.Read(ref _counts);
            isLast = counts == Reference;
            if ((uint)counts == 0) return false;
            if (Interlocked.CompareExchange(ref _counts, counts - Reference, counts) == counts) return true;
        }
    }

    /// <summary>A loan is over. True when nobody has anything any more.</summary>
    internal bool EndLoan() => Interlocked.Add(ref _counts, -Loan) == 0;

    private bool TryAdd(long what)
    {
        while (true)
        {
            long counts = Volatile.Read(ref _counts);
            if ((uint)counts == 0) return false;
            if (Interlocked.CompareExchange(ref _counts, counts + what, counts) == counts) return true;
        }
    }
}
