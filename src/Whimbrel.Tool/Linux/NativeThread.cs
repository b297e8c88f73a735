using System.Runtime.InteropServices;

namespace Whimbrel.Tool.Linux;

/// <summary>Id and short sleeps of the calling thread. Without the C library's functions the id is 0, and a sleep is
/// one of .NET or a yield.</summary>
internal static class NativeThread
{
    private const int PR_SET_TIMERSLACK = 29;
    private const int SlackNs = 1000;
    private const int LeastDotNetMs = 2;

    private static bool s_hasSleep = true;

    [DllImport("libc", EntryPoint = "usleep")]
    private static extern int Sleep(uint microseconds);

    [DllImport("libc", EntryPoint = "prctl")]
    private static extern int Control(int option, nuint value, nuint none3, nuint none4, nuint none5);

    [DllImport("libc", EntryPoint = "gettid")]
    private static extern int GetId();

    /// <summary>Thread id in the kernel; 0 if there is none.</summary>
    internal static int Id
    {
        get
        {
            try
            {
                return GetId();
            }
            catch (Exception e) when (e is DllNotFoundException or EntryPointNotFoundException)
            {
                return 0;
            }
        }
    }

    /// <summary>Lets sleeps of this thread end on time; by default Linux ends them up to 50 us late.</summary>
    internal static void SharpenTimers()
    {
        try
        {
            _ = Control(PR_SET_TIMERSLACK, SlackNs, 0, 0, 0);
        }
        catch (Exception e) when (e is DllNotFoundException or EntryPointNotFoundException)
        {
            // Sleeps are less exact.
        }
    }

    /// <summary>Sleeps for about this time; may end early.</summary>
    internal static void SleepFor(TimeSpan time)
    {
        try
        {
            if (s_hasSleep)
            {
                _ = Sleep((uint)time.TotalMicroseconds);
                return;
            }
        }
        catch (Exception e) when (e is DllNotFoundException or EntryPointNotFoundException)
        {
            s_hasSleep = false;
        }

        if (time.TotalMilliseconds >= LeastDotNetMs) Thread.Sleep(1);
        else Thread.Yield();
    }
}
