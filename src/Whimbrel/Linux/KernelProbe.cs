using System.Runtime.InteropServices;

namespace Whimbrel.Linux;

/// <summary>Facts about the system of the process. Constant while it runs.</summary>
internal static class KernelProbe
{
    /// <summary>True for Linux on a machine with known and tested structure layouts.</summary>
    internal static bool HasEpoll { get; } =
        OperatingSystem.IsLinux() && RuntimeInformation.ProcessArchitecture is Architecture.X64 or Architecture.Arm64;

    /// <summary>
    /// True if socket options use Linux constants, and accepted sockets inherit them from their listener.
    /// </summary>
    internal static bool IsLinux { get; } = OperatingSystem.IsLinux();

    internal static bool IsWindows { get; } = OperatingSystem.IsWindows();

    /// <summary>True if Environment.TickCount64 reads the same clock as Stopwatch, with a coarser resolution.</summary>
    internal static bool HasCoarseClock { get; } = OperatingSystem.IsLinux();

    internal static bool HasThreadAffinity => HasEpoll;

    /// <summary>
    /// True for Linux, by nice values, and Windows, by the runtime; on other systems the runtime ignores it.
    /// </summary>
    internal static bool HasThreadPriority { get; } = HasEpoll || OperatingSystem.IsWindows();
}
