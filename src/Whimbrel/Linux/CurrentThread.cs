using System.Globalization;
using System.Runtime.InteropServices;

namespace Whimbrel.Linux;

/// <summary>Scheduling of the calling thread. Linux has a cpu set and a nice value for each thread.</summary>
internal static unsafe class CurrentThread
{
    /// <summary>Number of cpus in the mask that is passed; the kernel requires whole words.</summary>
    internal const int MaxCpus = 1024;

    private const int PRIO_PROCESS = 0;

    [DllImport("libc", EntryPoint = "sched_setaffinity")]
    private static extern int SetAffinity(int thread, nuint bytes, ulong* mask);

    [DllImport("libc", EntryPoint = "setpriority")]
    private static extern int SetPriority(int which, uint who, int nice);

    /// <summary>Thread id of the calling thread in the kernel; 0 without /proc.</summary>
    internal static int Id
    {
        get
        {
            try
            {
                // A link to "1234/task/1240".
                string? target = new FileInfo("/proc/thread-self").LinkTarget;
                return target is not null && int.TryParse(target[(target.LastIndexOf('/') + 1)..], NumberStyles.None,
                    CultureInfo.InvariantCulture, out int id) ? id : 0;
            }
            catch (Exception e) when (e is IOException or UnauthorizedAccessException)
            {
                return 0;
            }
        }
    }

    /// <summary>
    /// Binds the thread to this cpu. Returns 0 or an error number: EINVAL for a cpu that does not exist or is not
    /// allowed.
    /// </summary>
    // Safe: the mask is on the stack, and the kernel copies it.
    internal static int Pin(int cpu)
    {
        ulong* mask = stackalloc ulong[MaxCpus / 64];
        for (int i = 0; i < MaxCpus / 64; i++) mask[i] = 0;
        mask[cpu / 64] = 1UL << (cpu % 64);
        return SetAffinity(0, MaxCpus / 8, mask) == 0 ? 0 : Syscall.LastError;
    }

    /// <summary>
    /// Sets the nice value. Returns 0 or an error number: EACCES or EPERM for a lower value without the privilege.
    /// </summary>
    internal static int SetNice(int nice) => SetPriority(PRIO_PROCESS, 0, nice) == 0 ? 0 : Syscall.LastError;
}
