using System.Reflection;
using System.Runtime.InteropServices;
using Whimbrel.Tool.Doctor;

namespace Whimbrel.Tool.Bench;

/// <summary>The machine of the driver, and this program.</summary>
/// <param name="Cpu">Name of the cpu.</param>
/// <param name="Cores">Number of cpus that the process may use.</param>
/// <param name="Kernel">Release of the kernel.</param>
/// <param name="Architecture">Architecture of the process.</param>
/// <param name="MemoryMiB">Memory that the process may use.</param>
/// <param name="Runtime">.NET runtime.</param>
/// <param name="Version">Version of the tool.</param>
/// <param name="Commit">Commit of the tool; empty if unknown.</param>
internal sealed record MachineFacts(string Cpu, int Cores, string Kernel, string Architecture, long MemoryMiB,
    string Runtime, string Version, string Commit)
{
    private const string Unknown = "unknown";

    internal static MachineFacts Read()
    {
        SystemTree system = new("");
        string? model = system.Read("/proc/cpuinfo")?.Split('\n')
            .FirstOrDefault(static l => l.StartsWith("model name", StringComparison.Ordinal));
        string version = typeof(MachineFacts).Assembly
            .GetCustomAttribute<AssemblyInformationalVersionAttribute>()?.InformationalVersion ?? Unknown;
        string[] parts = version.Split('+', 2);
        return new MachineFacts(
            model is null ? Unknown : model[(model.IndexOf(':', StringComparison.Ordinal) + 1)..].Trim(),
            Environment.ProcessorCount,
            system.Read("/proc/sys/kernel/osrelease")?.Trim() ?? RuntimeInformation.OSDescription,
            RuntimeInformation.ProcessArchitecture.ToString().ToLowerInvariant(),
            GC.GetGCMemoryInfo().TotalAvailableMemoryBytes >> 20,
            RuntimeInformation.FrameworkDescription,
            parts[0],
            parts.Length > 1 ? parts[1] : "");
    }
}
