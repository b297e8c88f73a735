namespace Whimbrel.Tool.Doctor;

/// <summary>All checks in their output order. Each group is in the file of its name.</summary>
internal static class Examination
{
    private static readonly string[] s_linuxOnly = ["kernel", "memlock", "nofile", "cpu limit", "clock", "somaxconn",
        "port range", "time_wait reuse", "busy-poll"];

    internal static List<Finding> Of(Examined examined)
    {
        List<Finding> findings = [];
        bool isLinux = examined.System.IsLinux;
        if (isLinux) findings.Add(EngineChecks.Kernel(examined.System));
        findings.AddRange(EngineChecks.Engines(examined));
        if (isLinux)
        {
            findings.AddRange(
            [
                LimitChecks.LockedMemory(examined.System, examined.Loops),
                LimitChecks.Descriptors(examined.System),
                CpuChecks.Limit(examined.System, examined.Loops, examined.Processors),
                CpuChecks.Clock(examined.System),
                NetworkChecks.Backlog(examined.System),
                NetworkChecks.Ports(examined.System),
                NetworkChecks.TimeWaitReuse(examined.System),
                NetworkChecks.BusyPoll(examined.System),
            ]);
        }

        findings.Add(examined.Collector is { } collector
            ? collector.ToFinding() : Finding.Skipped("gc", "the .runtimeconfig.json of the program cannot be parsed"));
        if (!isLinux)
            findings.AddRange(s_linuxOnly.Select(
                static name => Finding.Skipped(name, "a setting of Linux; this system has no /proc")));
        return findings;
    }
}
