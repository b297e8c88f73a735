using System.Globalization;

namespace Whimbrel.Tool.Doctor;

/// <summary>Checks the available CPU time and the cost of reading the clock.</summary>
internal static class CpuChecks
{
    private const string GroupsPath = "/proc/self/cgroup";
    private const string Page = "docs/symptoms/cpu-limit.md, or: whimbrel explain cpu-limit";
    private const string ClockPath = "/sys/devices/system/clocksource/clocksource0/";

    // Read from user space, without a system call.
    private static readonly string[] s_quickClocks = ["tsc", "kvm-clock", "arch_sys_counter",
        "hyperv_clocksource_tsc_page"];

    /// <summary>Checks the CPU limit. With more loops than it allows, all of them are stopped for the rest of each
    /// period.</summary>
    internal static Finding Limit(SystemTree system, int loops, int processors)
    {
        if (system.Read(GroupsPath) is not { } groups)
            return Finding.Skipped("cpu limit", $"{GroupsPath} is not readable");
        double limit = double.PositiveInfinity;
        foreach ((string path, string text) in Quotas(system, groups))
        {
            if (!TryParse(text, out double quota)) return Finding.NotUnderstood("cpu limit", path, text);
            limit = Math.Min(limit, quota);
        }

        string count = $"{loops} {(loops == 1 ? "loop" : "loops")}";
        string cpus = $"{processors} {(processors == 1 ? "cpu" : "cpus")}";
        if (double.IsPositiveInfinity(limit))
        {
            return loops <= processors
                ? Finding.Ok("cpu limit", $"none; {count} on {cpus}")
                : Finding.Advice("cpu limit", $"none; {count} on {cpus} take turns", Loops(processors));
        }

        string text2 = string.Create(CultureInfo.InvariantCulture, $"{limit:0.##} cpus by cgroup; {count}");
        if (loops <= limit) return Finding.Ok("cpu limit", text2);
        return loops == 1
            ? Finding.Advice("cpu limit", $"{text2}, which is stopped when it has used its share of a period",
                $"docker update --cpus 1 CONTAINER, or a cpu limit of 1 in the pod; see {Page}")
            : Finding.Advice("cpu limit",
                $"{text2}, and all are stopped when they have used the share of a period together",
                Loops(Math.Max(1, (int)limit)));
    }

    internal static Finding Clock(SystemTree system)
    {
        if (system.Read($"{ClockPath}current_clocksource")?.Trim() is not { Length: > 0 } clock)
            return Finding.Skipped("clock", $"{ClockPath}current_clocksource is not readable");
        if (clock.Length > 40 || !clock.All(static c => char.IsAsciiLetterOrDigit(c) || c is '-' or '_'))
            return Finding.NotUnderstood("clock", $"{ClockPath}current_clocksource", clock);
        if (s_quickClocks.Contains(clock)) return Finding.Ok("clock", $"{clock}: read without a system call");
        string[] available = (system.Read($"{ClockPath}available_clocksource") ?? "").Split([' ', '\n'],
            StringSplitOptions.RemoveEmptyEntries);
        string? better = s_quickClocks.FirstOrDefault(available.Contains);
        return Finding.Advice(
            "clock",
            $"{clock}: each look at the time may be a system call",
            better is null
                ? "a machine or a hypervisor with a steady TSC; the kernel rejected it here (dmesg | grep -i tsc)"
                : $"echo {better} > {ClockPath}current_clocksource");
    }

    private static string Loops(int count) =>
        $"EngineOptions.Loops = {count} (in this tool --loops {count}); see {Page}";

    /// <summary>Returns each quota of the process with its file: that of its own cgroup and those of all
    /// parents.</summary>
    private static IEnumerable<(string Path, string Text)> Quotas(SystemTree system, string groups)
    {
        foreach (string line in groups.Split('\n', StringSplitOptions.RemoveEmptyEntries))
        {
            string[] parts = line.Split(':', 3);
            if (parts.Length < 3) continue;
            bool isUnified = parts[1].Length == 0;
            if (!isUnified && !parts[1].Split(',').Contains("cpu")) continue;
            for (string path = parts[2].TrimEnd('/'); ; path = path[..path.LastIndexOf('/')])
            {
                foreach (string mount in (string[])(isUnified
                    ? ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
                    : ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"]))
                {
                    if (isUnified)
                    {
                        if (system.Read($"{mount}{path}/cpu.max") is { } text)
                            yield return ($"{mount}{path}/cpu.max", text);
                    }
                    else if (system.Read($"{mount}{path}/cpu.cfs_quota_us") is { } quota)
                    {
                        yield return ($"{mount}{path}/cpu.cfs_quota_us", quota.Trim() == "-1"
                            ? "max 100000"
                            : $"{quota.Trim()} {system.Read($"{mount}{path}/cpu.cfs_period_us")?.Trim()}");
                    }
                }

                if (path.LastIndexOf('/') < 0) break;
            }
        }
    }

    /// <summary>Parses "max PERIOD" or "QUOTA PERIOD", in microseconds.</summary>
    private static bool TryParse(string text, out double cpus)
    {
        cpus = double.PositiveInfinity;
        string[] words = text.Trim().Split(' ', StringSplitOptions.RemoveEmptyEntries);
        if (words.Length != 2 || !long.TryParse(words[1], NumberStyles.None,
            CultureInfo.InvariantCulture, out long period) || period == 0)
            return false;
        if (words[0] == "max") return true;
        if (!long.TryParse(words[0], NumberStyles.None, CultureInfo.InvariantCulture, out long quota) || quota == 0)
            return false;
        cpus = (double)quota / period;
        return true;
    }
}
