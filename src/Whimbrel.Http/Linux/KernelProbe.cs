using System.Runtime.InteropServices;

namespace Whimbrel.Http.Linux;

/// <summary>Properties of the operating system. They do not change while the process runs.</summary>
internal static class KernelProbe
{
    /// <summary>Whether this is Linux on an architecture with known system calls.</summary>
    internal static bool CanStayBelow { get; } =
        OperatingSystem.IsLinux() && RuntimeInformation.ProcessArchitecture is Architecture.X64 or Architecture.Arm64;

    internal static bool IsWindows { get; } = OperatingSystem.IsWindows();
}
