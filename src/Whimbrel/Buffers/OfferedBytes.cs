using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using Whimbrel.Diagnostics;

namespace Whimbrel.Buffers;

/// <summary>
/// The bytes passed to the running callback: <c>Session.Writable</c> checks against them. Owner: a loop, or a strand;
/// used only by the thread that runs the callback.
/// </summary>
// Safe: it points to a span on the stack of the method that runs the callback, which calls End before it returns. The
// memory of the span is tracked by the garbage collector through that method's variable.
internal unsafe struct OfferedBytes
{
    private void* _span;

    /// <summary>Begins a callback. The caller keeps the variable until <see cref="End"/>.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal void Begin(ref ReadOnlySpan<byte> offered) => _span = Unsafe.AsPointer(ref offered);

    internal void End() => _span = null;

    /// <summary>Returns the same bytes, if they were passed to the running callback.</summary>
    internal readonly Span<byte> Writable(ReadOnlySpan<byte> received)
    {
        if (received.IsEmpty) return default;
        if (_span is null || !Covers(Unsafe.AsRef<ReadOnlySpan<byte>>(_span), received))
            Throw.State("These are not bytes that the running OnReceived or OnData was given: only those may be "
                + "written to, and only while it runs.");
        return MemoryMarshal.CreateSpan(ref MemoryMarshal.GetReference(received), received.Length);
    }

    private static bool Covers(ReadOnlySpan<byte> offered, ReadOnlySpan<byte> part) =>
        offered.Overlaps(part, out int start) && start >= 0 && start + part.Length <= offered.Length;
}
