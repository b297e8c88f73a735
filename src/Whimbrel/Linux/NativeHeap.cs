using System.Runtime.InteropServices;

namespace Whimbrel.Linux;

/// <summary>
/// Gives memory that was freed back to the system. The allocator of glibc keeps it otherwise: after a burst a process stays as large as it ever was.
/// Once a second the watchdog looks whether much was freed; it trims when that is over, because a trim takes the allocator's locks.
/// </summary>
internal static class NativeHeap
{
    /// <summary>Less than that is not worth a trim.</summary>
    internal const long WorthBytes = 4 * 1024 * 1024;

    /// <summary>While more than that is freed in a second, the memory is still in use.</summary>
    private const long QuietBytes = 1024 * 1024;
    private const int LookMs = 1_000;

    private static long s_freed;
    private static long s_seen;
    private static long s_trimmed;
    private static long s_nextLookMs;
    private static bool s_cannotTrim = !KernelProbe.HasEpoll;

    [DllImport("libc", EntryPoint = "malloc_trim")]
    private static extern int Trim(nuint kept);

    /// <summary>So much was given to the allocator. Any thread.</summary>
    internal static void Freed(long bytes) => Interlocked.Add(ref s_freed, bytes);

    /// <summary>True once a second, after it has trimmed if that was due. The watchdog's thread.</summary>
    internal static bool Look(long nowMs)
    {
        if (nowMs < s_nextLookMs) return false;
        s_nextLookMs = nowMs + LookMs;
        long freed = Volatile.Read(ref s_freed);
        bool isQuiet = freed - s_seen < QuietBytes;
        s_seen = freed;
        if (isQuiet) TrimIfWorth();
        return true;
    }

    /// <summary>The watchdog's thread.</summary>
    internal static void TrimIfWorth()
    {
        long freed = Volatile.Read(ref s_freed);
        if (s_cannotTrim || freed - s_trimmed < WorthBytes) return;
        s_trimmed = freed;
        try
        {
            _ = Trim(0);
        }
        catch (EntryPointNotFoundException)
        {
            // Another C library. That of musl gives large pieces back by itself.
            s_cannotTrim = true;
        }
    }
}
