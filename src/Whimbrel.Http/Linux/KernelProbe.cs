using System.Runtime.InteropServices;

namespace Whimbrel.Http.Linux;

/// <summary>Questions about the system that the process runs on. Answers do not change while it runs.</summary>
internal static class KernelProbe
{
    /// <summary>Linux on a machine whose calls are known here.</summary>
    internal static bool CanStayBelow { get; } =
        OperatingSystem.IsLinux() && RuntimeInformation.ProcessArchitecture is Architecture.X64 or Architecture.Arm64;

    internal static bool IsWindows { get; } = OperatingSystem.IsWindows();
}
