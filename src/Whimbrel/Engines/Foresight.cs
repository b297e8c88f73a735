using System.Runtime.CompilerServices;
using System.Runtime.Intrinsics.X86;

namespace Whimbrel.Engines;

/// <summary>Asks the cpu for the memory of objects that will be needed soon, so that nobody waits for it then.</summary>
internal static class Foresight
{
    private const int LineBytes = 64;

    /// <summary>
    /// From so many on, what belongs to connections is not in the caches any more when something comes for them: one, with its session, is a kilobyte or two. Below, asking
    /// costs more than it saves.
    /// </summary>
    internal const int MinResidents = 256;

    /// <summary>Asks for an object, from its first field on.</summary>
    /// <param name="what">The object.</param>
    /// <param name="bytes">How much of it. What lies behind a shorter one is asked for in vain.</param>
    // Safe: nothing is read. The cpu ignores an address that it may not read, and an object that the collector has moved since was asked for in vain.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal static unsafe void Ask(object what, int bytes)
    {
        if (!Sse.IsSupported) return;
        byte* at = (byte*)Unsafe.As<object, nint>(ref what);
        for (int i = 0; i < bytes; i += LineBytes) Sse.Prefetch0(at + i);
    }
}
