using System.Runtime.InteropServices;

namespace Whimbrel.Linux;

/// <summary>Questions about the system that the process runs on. Answers do not change while it runs.</summary>
internal static class KernelProbe
{
    /// <summary>Linux on a machine whose structure layouts are known and tested.</summary>
    internal static bool HasEpoll { get; } =
        OperatingSystem.IsLinux() && RuntimeInformation.ProcessArchitecture is Architecture.X64 or Architecture.Arm64;

    /// <summary>Socket options go by Linux's numbers, and accepted sockets inherit them from their listener.</summary>
    internal static bool IsLinux { get; } = OperatingSystem.IsLinux();

    internal static bool IsWindows { get; } = OperatingSystem.IsWindows();

    /// <summary>Environment.TickCount64 reads the same clock as Stopwatch, and is only coarser.</summary>
    internal static bool HasCoarseClock { get; } = OperatingSystem.IsLinux();

    internal static bool HasThreadAffinity => HasEpoll;

    /// <summary>Linux by nice values, Windows by the runtime; elsewhere the runtime ignores it.</summary>
    internal static bool HasThreadPriority { get; } = HasEpoll || OperatingSystem.IsWindows();
}
