namespace Whimbrel.Buffers;

/// <summary>
/// Counts the users of an object that many sends may use at the same time. References of the application are in the
/// lower half of a word, loans of queued sends in the upper half, so that neither side can release the other's. The
/// thread that makes it zero frees the object. Any thread.
/// </summary>
internal struct LoanCount
{
    private const long Reference = 1;
    private const long Loan = 1L << 32;

    private long _counts;

    /// <summary>A count with one reference, of the creator.</summary>
    internal static LoanCount First => new() { _counts = Reference };

    internal readonly bool HasReferences => (uint)Volatile.Read(in _counts) != 0;

    /// <summary>Adds a reference. Returns false if all references were released.</summary>
    internal bool TryAddReference() => TryAdd(Reference);

    internal bool TryLend() => TryAdd(Loan);

    /// <summary>Adds a loan for code that already has one.</summary>
    internal void LendOn() => Interlocked.Add(ref _counts, Loan);

    /// <summary>Releases a reference, if there is one.</summary>
    /// <param name="isLast">True if no reference and no loan is left.</param>
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

    /// <summary>Ends a loan. Returns true if no reference and no loan is left.</summary>
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
