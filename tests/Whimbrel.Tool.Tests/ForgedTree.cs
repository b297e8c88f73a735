using Whimbrel.Tool.Doctor;

namespace Whimbrel.Tool.Tests;

// A fake tree of /proc and /sys. It starts as that of a machine without findings.
internal sealed class ForgedTree : IDisposable
{
    private readonly string _root = Directory.CreateTempSubdirectory("whimbrel-doctor-").FullName;

    public ForgedTree()
    {
        Write("/proc/sys/kernel/osrelease", "6.18.1-test\n");
        Write("/proc/self/limits", Limits("8388608 8388608", "1048576 1048576"));
        Write("/proc/self/cgroup", "0::/\n");
        Write("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
        Write("/sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm \n");
        Write("/proc/sys/net/core/somaxconn", "4096\n");
        Write("/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n");
        Write("/proc/sys/net/ipv4/tcp_tw_reuse", "2\n");
        Write("/proc/sys/net/core/busy_poll", "0\n");
        Write("/proc/sys/net/core/busy_read", "0\n");
    }

    public static string[] Paths =>
    [
        "/proc/sys/kernel/osrelease", "/proc/self/limits", "/proc/self/cgroup", "/sys/fs/cgroup/cpu.max",
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        "/sys/devices/system/clocksource/clocksource0/available_clocksource", "/proc/sys/net/core/somaxconn",
        "/proc/sys/net/ipv4/ip_local_port_range",
        "/proc/sys/net/ipv4/tcp_tw_reuse", "/proc/sys/net/core/busy_poll", "/proc/sys/net/core/busy_read",
    ];

    public Func<EngineKind, EngineSupport> Support { get; set; } =
        static kind => new EngineSupport(kind == EngineKind.Auto ? EngineKind.Uring : kind, true,
            kind == EngineKind.Auto ? "the best engine on this system" : "", "");

    public GarbageCollector? Collector { get; set; } = new GarbageCollector(false, true, false, "");

    public int Processors { get; set; } = 4;

    public int Loops { get; set; } = 4;

    public static string Limits(string memlock, string nofile) => $"""
        Limit                     Soft Limit           Hard Limit           Units     
        Max cpu time              unlimited            unlimited            seconds   
        Max open files            {nofile.Replace(" ", "                 ", StringComparison.Ordinal)}                files     
        Max locked memory         {memlock.Replace(" ", "              ", StringComparison.Ordinal)}              bytes     
        
        """;

    // Null removes the file.
    public void Write(string path, string? text)
    {
        var full = _root + path;
        Directory.CreateDirectory(Path.GetDirectoryName(full)!);
        if (text is null) File.Delete(full);
        else File.WriteAllText(full, text);
    }

    public void RemoveAll() => Directory.Delete(_root + "/proc", recursive: true);

    public List<Finding> Examine() =>
        Examination.Of(new Examined(new SystemTree(_root), Support, Processors, Loops, Collector));

    public Finding Finding(string name) => Examine().Single(f => f.Name == name);

    public void Dispose() => Directory.Delete(_root, recursive: true);
}
