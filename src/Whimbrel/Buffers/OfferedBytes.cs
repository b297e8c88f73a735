using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using Whimbrel.Diagnostics;

namespace Whimbrel.Buffers;

/// <summary>
/// The bytes that the running callback was given, while it runs: what may be written to is found by it (<c>Session.Writable</c>).
/// Owner: a loop, or a strand; only the thread that runs the callback uses it.
/// </summary>
// Safe: it points at a span on the stack of the method that runs the callback, which calls End before it returns. Where the span points
// at is the collector's business, which knows it as that method's variable.
internal unsafe struct OfferedBytes
{
    private void* _span;

    /// <summary>The caller keeps the variable until <see cref="End"/>.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal void Begin(ref ReadOnlySpan<byte> offered) => _span = Unsafe.AsPointer(ref offered);

    internal void End() => _span = null;

    /// <summary>The same bytes, if the running callback was given them.</summary>
    internal readonly Span<byte> Writable(ReadOnlySpan<byte> received)
    {
        if (received.IsEmpty) return default;
        if (_span is null || !Covers(Unsafe.AsRef<ReadOnlySpan<byte>>(_span), received)) Throw.State("These are not bytes that the running OnReceived or OnData was given: only those may be written to, and only while it runs.");
        return MemoryMarshal.CreateSpan(ref MemoryMarshal.GetReference(received), received.Length);
    }

    private static bool Covers(ReadOnlySpan<byte> offered, ReadOnlySpan<byte> part) =>
        offered.Overlaps(part, out int start) && start >= 0 && start + part.Length <= offered.Length;
}
