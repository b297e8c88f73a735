using System.Buffers.Text;
using Microsoft.Win32.SafeHandles;

namespace Whimbrel.Linux;

/// <summary>Scheduler statistics of one thread of this process: /proc/self/task/N/schedstat, and its state.</summary>
/// <param name="CpuMs">Milliseconds on a cpu.</param>
/// <param name="QueuedMs">Milliseconds ready to run, without a cpu. A current wait is counted when the thread gets a
/// cpu again.</param>
/// <param name="IsRunnable">True if the thread is on a cpu or ready to run; otherwise it waits for something else, and
/// all its waits for a cpu are counted.</param>
internal readonly record struct ThreadTimes(long CpuMs, long QueuedMs, bool IsRunnable)
{
    private const long NsInMs = 1_000_000;

    /// <summary>Reads the statistics. Returns false if the kernel does not provide them.</summary>
    /// <param name="threadId">Thread id, as <see cref="CurrentThread.Id"/>; 0 is none.</param>
    /// <param name="times">The statistics.</param>
    internal static bool TryRead(int threadId, out ThreadTimes times)
    {
        times = default;
        if (threadId == 0) return false;
        Span<byte> counts = stackalloc byte[96];
        Span<byte> state = stackalloc byte[96];
        try
        {
            counts = counts[..Read($"/proc/self/task/{threadId}/schedstat", counts)];
            state = state[..Read($"/proc/self/task/{threadId}/stat", state)];
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            return false;
        }

        return TryParse(counts, state, out times);
    }

    private static int Read(string path, Span<byte> text)
    {
        using SafeFileHandle file = File.OpenHandle(path, share: FileShare.ReadWrite);
        return RandomAccess.Read(file, text, 0);
    }

    /// <summary>
    /// Parses "5942242 15609808 3" (nanoseconds, nanoseconds, and number of runs on a cpu), and "1240 (its name) S 1
    /// ...".
    /// </summary>
    internal static bool TryParse(ReadOnlySpan<byte> counts, ReadOnlySpan<byte> state, out ThreadTimes times)
    {
        times = default;
        if (!Utf8Parser.TryParse(counts, out long cpu, out int used) || used == counts.Length || counts[used] != ' ')
            return false;
        if (!Utf8Parser.TryParse(counts[(used + 1)..], out long queued, out _)) return false;
        int at = state.LastIndexOf(") "u8) + 2;
        if (at < 2 || at >= state.Length) return false;
        times = new ThreadTimes(cpu / NsInMs, queued / NsInMs, state[at] == 'R');
        return true;
    }
}
