using System.Runtime.InteropServices;

namespace Whimbrel.Linux;

/// <summary>
/// Returns freed memory to the system. The allocator of glibc keeps it otherwise: after a burst a process stays at its
/// maximum size. Once a second the watchdog checks whether much was freed. It trims when that has ended, because a trim
/// takes the allocator's locks.
/// </summary>
internal static class NativeHeap
{
    /// <summary>Minimum amount that is worth a trim.</summary>
    internal const long WorthBytes = 4 * 1024 * 1024;

    /// <summary>Amount freed per second above which the memory counts as still in use.</summary>
    private const long QuietBytes = 1024 * 1024;
    private const int LookMs = 1_000;

    private static long s_freed;
    private static long s_seen;
    private static long s_trimmed;
    private static long s_nextLookMs;
    private static bool s_cannotRead;
    private static bool s_cannotTrim = !KernelProbe.HasEpoll;

    [DllImport("libc", EntryPoint = "malloc_trim")]
    private static extern int Trim(nuint kept);

    [DllImport("libc", EntryPoint = "mallinfo2")]
    private static extern AllocatorState ReadState();

    /// <summary>
    /// Returns the memory that the allocator has given out, and the memory that it keeps for reuse, in bytes. Null if
    /// the C library does not report it (glibc before 2.33, other libraries). Any thread. Walks the free lists under
    /// the locks of the allocator: microseconds, but 0.2 us for each free piece of a fragmented heap.
    /// </summary>
    internal static (long Used, long Free)? Read()
    {
        if (!KernelProbe.HasEpoll || s_cannotRead) return null;
        try
        {
            AllocatorState state = ReadState();
            return ((long)(state.InUse + state.Mapped), (long)state.Free);
        }
        catch (Exception e) when (e is EntryPointNotFoundException or DllNotFoundException)
        {
            s_cannotRead = true;
            return null;
        }
    }

    /// <summary>Records memory returned to the allocator. Any thread.</summary>
    internal static void Freed(long bytes) => Interlocked.Add(ref s_freed, bytes);

    /// <summary>Trims if needed. Returns true once a second. The watchdog's thread.</summary>
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

    /// <summary>Trims if enough was freed. The watchdog's thread.</summary>
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
            // Another C library. That of musl returns large pieces on its own.
            s_cannotTrim = true;
        }
    }

    /// <summary>struct mallinfo2 of glibc, of which three fields are read.</summary>
    [StructLayout(LayoutKind.Sequential)]
    private struct AllocatorState
    {
        internal nuint Arena;
        internal nuint FreeChunks;
        internal nuint FastChunks;
        internal nuint MappedChunks;
        internal nuint Mapped;
        internal nuint Unused;
        internal nuint FastFree;
        internal nuint InUse;
        internal nuint Free;
        internal nuint Trimmable;
    }
}
