using System.Globalization;
using System.Net;
using System.Runtime.InteropServices;
using System.Text.Json;
using Whimbrel.Tool.Doctor;

namespace Whimbrel.Tool.Tests;

/// <summary>Each check of the doctor on fake trees of /proc and /sys: a good value, a bad one, a missing file and
/// garbage. And the command itself.</summary>
public sealed class DoctorTests
{
    private const string Memlock = "memlock";
    private const string Nofile = "nofile";

    [Theory]
    // name, file, its content (null: missing), status, part of the text, part of the fix
    [InlineData("kernel", "/proc/sys/kernel/osrelease", "6.18.44-fc\n", "Ok", "Linux 6.18.44-fc: has all", "")]
    [InlineData("kernel", "/proc/sys/kernel/osrelease", "6.16\n", "Ok", "has all", "")]
    [InlineData("kernel", "/proc/sys/kernel/osrelease", "6.1.0-13-amd64", "Ok", "new enough for io_uring", "")]
    [InlineData("kernel", "/proc/sys/kernel/osrelease", "6.0.9", "Advice", "io_uring needs Linux 6.1", "upgrade")]
    [InlineData("kernel", "/proc/sys/kernel/osrelease", "5.15.0", "Advice", "the epoll engine runs", "upgrade")]
    [InlineData("kernel", "/proc/sys/kernel/osrelease", "10.2-rc1+", "Ok", "has all", "")]
    [InlineData("kernel", "/proc/sys/kernel/osrelease", "new", "Skipped", "is not understood: 'new'", "")]
    [InlineData("kernel", "/proc/sys/kernel/osrelease", "6.", "Skipped", "is not understood", "")]
    [InlineData("kernel", "/proc/sys/kernel/osrelease", "", "Skipped", "is not understood: ''", "")]
    [InlineData("clock", "/sys/devices/system/clocksource/clocksource0/current_clocksource", "kvm-clock\n", "Ok",
        "without a system call", "")]
    [InlineData("clock", "/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n", "Advice",
        "hpet: each look", "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource")]
    [InlineData("clock", "/sys/devices/system/clocksource/clocksource0/current_clocksource", null, "Skipped",
        "is not readable", "")]
    [InlineData("clock", "/sys/devices/system/clocksource/clocksource0/current_clocksource", "\n", "Skipped",
        "is not readable", "")]
    [InlineData("clock", "/sys/devices/system/clocksource/clocksource0/current_clocksource", "what is this?", "Skipped",
        "is not understood", "")]
    [InlineData("somaxconn", "/proc/sys/net/core/somaxconn", "4096", "Ok", "4096", "")]
    [InlineData("somaxconn", "/proc/sys/net/core/somaxconn", "4095", "Advice",
        "requests a backlog of 4096, and gets this one", "sysctl -w net.core.somaxconn=4096")]
    [InlineData("somaxconn", "/proc/sys/net/core/somaxconn", null, "Skipped", "is not there", "")]
    [InlineData("somaxconn", "/proc/sys/net/core/somaxconn", "many", "Skipped", "is not understood: 'many'", "")]
    [InlineData("somaxconn", "/proc/sys/net/core/somaxconn", "-1", "Skipped", "is not understood", "")]
    [InlineData("port range", "/proc/sys/net/ipv4/ip_local_port_range", "1024 65535", "Ok", "64512 connections", "")]
    [InlineData("port range", "/proc/sys/net/ipv4/ip_local_port_range", "32768\t60998", "Advice", "28231 connections",
        "sysctl -w net.ipv4.ip_local_port_range=\"32768 60999\"")]
    [InlineData("port range", "/proc/sys/net/ipv4/ip_local_port_range", "60999 32768", "Skipped",
        "is not understood", "")]
    [InlineData("port range", "/proc/sys/net/ipv4/ip_local_port_range", "1024 99999999999999999999", "Skipped",
        "is not understood", "")]
    [InlineData("port range", "/proc/sys/net/ipv4/ip_local_port_range", "1024", "Skipped", "is not understood", "")]
    [InlineData("port range", "/proc/sys/net/ipv4/ip_local_port_range", null, "Skipped", "is not there", "")]
    [InlineData("time_wait reuse", "/proc/sys/net/ipv4/tcp_tw_reuse", "0", "Advice", "cannot be reused for a minute",
        "sysctl -w net.ipv4.tcp_tw_reuse=2")]
    [InlineData("time_wait reuse", "/proc/sys/net/ipv4/tcp_tw_reuse", "1", "Ok", "a second in TIME_WAIT", "")]
    [InlineData("time_wait reuse", "/proc/sys/net/ipv4/tcp_tw_reuse", "3", "Skipped", "is not understood: '3'", "")]
    [InlineData("time_wait reuse", "/proc/sys/net/ipv4/tcp_tw_reuse", null, "Skipped", "is not there", "")]
    [InlineData("busy-poll", "/proc/sys/net/core/busy_poll", "50", "Advice",
        "a wait spins 50 microseconds and a read 0", "sysctl -w net.core.busy_poll=0 net.core.busy_read=0")]
    [InlineData("busy-poll", "/proc/sys/net/core/busy_read", "70", "Advice", "a read 70", "net.core.busy_read=0")]
    [InlineData("busy-poll", "/proc/sys/net/core/busy_read", null, "Skipped", "busy_read is not there", "")]
    [InlineData("busy-poll", "/proc/sys/net/core/busy_poll", "on", "Skipped", "is not understood", "")]
    [InlineData("cpu limit", "/proc/self/cgroup", null, "Skipped", "is not readable", "")]
    [InlineData("cpu limit", "/proc/self/cgroup", "what", "Ok", "none; 4 loops on 4 cpus", "")]
    [InlineData("cpu limit", "/sys/fs/cgroup/cpu.max", "max 100000\n", "Ok", "none", "")]
    [InlineData("cpu limit", "/sys/fs/cgroup/cpu.max", "400000 100000\n", "Ok", "4 cpus by cgroup; 4 loops", "")]
    [InlineData("cpu limit", "/sys/fs/cgroup/cpu.max", "399999 100000\n", "Advice", "all are stopped",
        "EngineOptions.Loops = 3 (in this tool --loops 3)")]
    [InlineData("cpu limit", "/sys/fs/cgroup/cpu.max", "50000 100000\n", "Advice", "0.5 cpus by cgroup",
        "EngineOptions.Loops = 1")]
    [InlineData("cpu limit", "/sys/fs/cgroup/cpu.max", "garbage\n", "Skipped",
        "/sys/fs/cgroup/cpu.max is not understood: 'garbage'", "")]
    [InlineData("cpu limit", "/sys/fs/cgroup/cpu.max", "100000 0\n", "Skipped", "is not understood", "")]
    [InlineData(Memlock, "/proc/self/limits", null, "Skipped", "is not readable", "")]
    [InlineData(Memlock, "/proc/self/limits", "nothing of the kind", "Skipped", "is not understood", "")]
    [InlineData(Nofile, "/proc/self/limits", null, "Skipped", "is not readable", "")]
    [InlineData(Nofile, "/proc/self/limits", "Max open files            some                 more               files",
        "Skipped", "is not understood", "")]
    public void A_file_of_the_system_becomes_a_finding(string name, string path, string? content, string verdict,
        string text, string fix)
    {
        using ForgedTree tree = new();
        // Without osrelease the tree is not Linux, which another test covers.
        tree.Write(path, content);
        Finding finding = tree.Finding(name);
        Assert.Equal(verdict, finding.Verdict.ToString());
        Assert.Contains(text, finding.Text, StringComparison.Ordinal);
        Assert.Contains(fix, finding.Fix, StringComparison.Ordinal);
        Assert.Equal(finding.Verdict == Verdict.Advice, finding.Fix.Length > 0);
    }

    [Theory]
    [InlineData(Memlock, "8388608 8388608", "100001 100001", 4, "Ok", "8 MiB; with io_uring 4 loops need up to 8 MiB")]
    [InlineData(Memlock, "8388607 8388607", "100001 100001", 4, "Advice", "ulimit -l unlimited")]
    [InlineData(Memlock, "65536 65536", "100001 100001", 1, "Advice", "0.06 MiB; with io_uring 1 loop needs")]
    [InlineData(Memlock, "unlimited unlimited", "100001 100001", 256, "Ok", "unlimited")]
    [InlineData(Nofile, "unlimited unlimited", "1024 100001", 1, "Ok", "soft 1024, hard 100001")]
    [InlineData(Nofile, "unlimited unlimited", "1024 100000", 1, "Advice",
        "docker run --ulimit nofile=1048576:1048576")]
    [InlineData(Nofile, "unlimited unlimited", "unlimited unlimited", 1, "Ok", "hard unlimited")]
    public void The_limits_of_the_process_are_held_against_what_is_needed(string name, string memlock, string nofile,
        int loops, string verdict, string expected)
    {
        using ForgedTree tree = new() { Loops = loops, Processors = loops };
        tree.Write("/proc/self/limits", ForgedTree.Limits(memlock, nofile));
        Finding finding = tree.Finding(name);
        Assert.Equal(verdict, finding.Verdict.ToString());
        Assert.Contains(expected, $"{finding.Text} {finding.Fix}", StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("0::/a/b\n", "/sys/fs/cgroup/a/cpu.max", "150000 100000")]
    [InlineData("0::/a/b\n", "/sys/fs/cgroup/unified/a/b/cpu.max", "150000 100000")]
    [InlineData("4:memory:/x\n3:cpu,cpuacct:/a/b\n0::/\n", "/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "150000")]
    [InlineData("3:cpu:/a/b\n", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000")]
    public void The_lowest_cpu_limit_of_the_own_group_and_those_around_holds(string groups, string path, string quota)
    {
        using ForgedTree tree = new();
        tree.Write("/proc/self/cgroup", groups);
        tree.Write("/sys/fs/cgroup/a/b/cpu.max", "200000 100000\n");
        tree.Write("/sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "-1\n");
        tree.Write("/sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n");
        tree.Write(path, quota);
        if (path.EndsWith("quota_us", StringComparison.Ordinal))
            tree.Write(path.Replace("quota", "period", StringComparison.Ordinal), "100000\n");
        Finding finding = tree.Finding("cpu limit");
        Assert.Equal((Verdict.Advice,
            "1.5 cpus by cgroup; 4 loops, and all are stopped when they have used the share of a period together"),
            (finding.Verdict, finding.Text));
        Assert.StartsWith("EngineOptions.Loops = 1 ", finding.Fix, StringComparison.Ordinal);
    }

    [Fact]
    public void A_cpu_quota_without_its_period_is_ignored()
    {
        using ForgedTree tree = new();
        tree.Write("/proc/self/cgroup", "3:cpu:/\n");
        tree.Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
        Assert.Equal(Verdict.Skipped, tree.Finding("cpu limit").Verdict);
    }

    [Fact]
    public void One_loop_under_half_a_cpu_can_only_be_given_more()
    {
        using ForgedTree tree = new() { Loops = 1 };
        tree.Write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
        Assert.StartsWith("docker update --cpus 1", tree.Finding("cpu limit").Fix, StringComparison.Ordinal);
    }

    [Fact]
    public void More_loops_than_cpus_are_too_many()
    {
        using ForgedTree tree = new() { Loops = 5 };
        Finding finding = tree.Finding("cpu limit");
        Assert.Equal((Verdict.Advice, "none; 5 loops on 4 cpus take turns"), (finding.Verdict, finding.Text));
    }

    [Fact]
    public void The_advice_for_a_slow_clock_without_a_better_one_is_to_check_the_machine()
    {
        using ForgedTree tree = new();
        tree.Write("/sys/devices/system/clocksource/clocksource0/current_clocksource", "acpi_pm\n");
        tree.Write("/sys/devices/system/clocksource/clocksource0/available_clocksource", null);
        Assert.Contains("dmesg | grep -i tsc", tree.Finding("clock").Fix, StringComparison.Ordinal);
    }

    [Fact]
    public void A_machine_without_a_flaw_gets_no_advice()
    {
        using ForgedTree tree = new();
        List<Finding> findings = tree.Examine();
        Assert.All(findings, static f => Assert.Equal(Verdict.Ok, f.Verdict));
        Assert.Equal(0, DoctorCommand.ExitCodeOf(findings));
        Assert.EndsWith("14 ok, 0 advice, 0 skipped\n", DoctorCommand.Text(findings), StringComparison.Ordinal);
        Assert.Contains("auto takes io_uring: the best engine on this system", DoctorCommand.Text(findings),
            StringComparison.Ordinal);
    }

    [Fact]
    public void A_refused_io_uring_is_shown_with_its_reason_and_remedy_beside_the_engine_that_runs()
    {
        using ForgedTree tree = new()
        {
            Support = static kind => kind switch
            {
                EngineKind.Auto => new EngineSupport(EngineKind.Epoll, true, "io_uring is forbidden here", ""),
                EngineKind.Uring =>
                    new EngineSupport(kind, false, "io_uring is forbidden here (EPERM): by a seccomp filter",
                        "docker run --security-opt seccomp=PROFILE.json"),
                _ => new EngineSupport(kind, true, "", ""),
            },
        };
        List<Finding> findings = tree.Examine();
        Assert.Equal(new Finding("engine", Verdict.Ok, "auto takes epoll: io_uring is forbidden here", ""),
            findings[1]);
        Assert.Equal(new Finding("io_uring", Verdict.Advice, "io_uring is forbidden here (EPERM): by a seccomp filter",
            "docker run --security-opt seccomp=PROFILE.json"), findings[2]);
        Assert.Equal(new Finding("epoll", Verdict.Ok, "works here, and is selected", ""), findings[3]);
        Assert.Equal(1, DoctorCommand.ExitCodeOf(findings));
        Assert.Contains("\nadvice  io_uring         io_uring is forbidden here (EPERM): by a seccomp "
            + "filter\n                         -> docker run", DoctorCommand.Text(findings), StringComparison.Ordinal);
    }

    [Fact]
    public void A_wrong_value_of_the_variable_is_reported_with_a_cure()
    {
        using ForgedTree tree = new()
        {
            Support = static kind => new EngineSupport(kind, kind != EngineKind.Auto,
                "WHIMBREL_ENGINE = 'x', allowed ...", "unset WHIMBREL_ENGINE")
        };
        Assert.Equal(new Finding("engine", Verdict.Advice, "WHIMBREL_ENGINE = 'x', allowed ...",
            "unset WHIMBREL_ENGINE"), tree.Finding("engine"));
    }

    [Fact]
    public void Without_proc_each_check_of_Linux_is_skipped_with_a_reason()
    {
        using ForgedTree tree = new()
        {
            Support = static kind => kind is EngineKind.Auto or EngineKind.Portable
                ? new EngineSupport(EngineKind.Portable, true, "epoll needs Linux on x64 or arm64", "")
                : new EngineSupport(kind, false, "needs Linux on x64 or arm64", ""),
        };
        tree.RemoveAll();
        List<Finding> findings = tree.Examine();
        Assert.Equal(14, findings.Count);
        Assert.Equal(["engine", "portable", "gc"],
            findings.Where(static f => f.Verdict == Verdict.Ok).Select(static f => f.Name));
        Assert.All(findings.Where(static f => f.Verdict != Verdict.Ok),
            static f => Assert.Equal(Verdict.Skipped, f.Verdict));
        Assert.Equal(0, DoctorCommand.ExitCodeOf(findings));
    }

    [Theory]
    [InlineData(null, null, "Ok", "workstation, concurrent: default for programs without settings")]
    [InlineData(null, """{ "runtimeOptions": { "tfm": "net10.0" } }""", "Ok", "workstation, concurrent: App")]
    [InlineData(null, """{ "runtimeOptions": { "configProperties": { "System.GC.Concurrent": false } } }""", "Ok",
        "workstation, not concurrent: App")]
    [InlineData(null, """{ "runtimeOptions": { "configProperties": { "System.GC.Server": true } } }""", "Advice",
        "server, adaptive (DATAS), concurrent: App")]
    [InlineData(null,
        """{ "runtimeOptions": { "configProperties": { "System.GC.Server": true, "System.GC.DynamicAdaptationMode": 0 } } }""",
        "Ok", "server, not adaptive, concurrent: App")]
    [InlineData("DOTNET_gcServer=1", null, "Advice", "server, adaptive (DATAS)")]
    [InlineData("DOTNET_gcServer=0", """{ "runtimeOptions": { "configProperties": { "System.GC.Server": true } } }""",
        "Ok", "workstation")]
    [InlineData("DOTNET_gcServer=yes", null, "Ok", "workstation")]
    [InlineData(null, "[1]", "Skipped", "cannot be parsed")]
    [InlineData(null, "{", "Skipped", "cannot be parsed")]
    [InlineData(null, """{ "runtimeOptions": { "configProperties": 5 } }""", "Skipped", "cannot be parsed")]
    public void The_collector_is_that_of_the_environment_then_of_the_program_then_of_NET(string? variable,
        string? runtimeConfig, string verdict, string text)
    {
        using ForgedTree tree = new();
        tree.Collector = GarbageCollector.Of(name => variable is not null
            && variable.StartsWith(name + "=", StringComparison.Ordinal) ? variable.Split('=')[1] : null,
            runtimeConfig is null ? "" : "App", runtimeConfig);
        Finding finding = tree.Finding("gc");
        Assert.Equal(verdict, finding.Verdict.ToString());
        Assert.Contains(text, finding.Text, StringComparison.Ordinal);
    }

    [Fact]
    public void Each_check_yields_a_finding_for_any_content_of_the_files()
    {
        using ForgedTree tree = new();
        string[] words = ["", " ", "0", "-1", "max", "unlimited", "99999999999999999999", "9223372036854775807", "0::",
            "0::/../..", "1:cpu:", ":", "\0", "Max open files", "Max locked memory   x  y  z", "6..", "tsc hpet",
            new string('9', 70_000)];
        Random random = new(1);
        for (int i = 0; i < 100; i++)
        {
            foreach (string path in ForgedTree.Paths)
                tree.Write(path, string.Join("\n \t"[random.Next(3)],
                    Enumerable.Range(0, random.Next(4)).Select(_ => words[random.Next(words.Length)])));
            List<Finding> findings = tree.Examine();
            Assert.Equal(14, findings.Count);
            Assert.All(findings, static f => Assert.InRange(f.Text.Length, 1, 300));
        }
    }

    [Fact]
    public void As_JSON_it_says_the_same()
    {
        using ForgedTree tree = new();
        tree.Write("/proc/sys/net/core/somaxconn", "128\n");
        List<Finding> findings = tree.Examine();
        JsonElement json = JsonDocument.Parse(DoctorCommand.Json(findings)).RootElement;
        Assert.Equal((13, 1, 0), (json.GetProperty("ok").GetInt32(), json.GetProperty("advice").GetInt32(),
            json.GetProperty("skipped").GetInt32()));
        Assert.Equal(findings, json.GetProperty("findings").EnumerateArray().Select(static f => new Finding(
            f.GetProperty("name").GetString()!,
            Enum.Parse<Verdict>(f.GetProperty("verdict").GetString()!, ignoreCase: true),
            f.GetProperty("text").GetString()!,
            f.TryGetProperty("fix", out JsonElement fix) ? fix.GetString()! : "")));
    }

    [Fact]
    public async Task The_command_looks_at_this_machine_and_its_exit_code_says_whether_there_is_advice()
    {
        var (code, output, errors) = await RunningTool.Run(null, "doctor", "--loops", "1", "--app",
            BuiltProgram.PathOf("Whimbrel.Tool"));
        Assert.Empty(errors);
        Assert.Contains(RuntimeInformation.OSDescription, output[0], StringComparison.Ordinal);
        Assert.Equal(output.Exists(static line => line.StartsWith("advice  ", StringComparison.Ordinal)) ? 1 : 0, code);
        Assert.Contains(output, static line => line.StartsWith("ok      portable ", StringComparison.Ordinal));
        Assert.Contains(output, static line =>
            line.Contains("workstation, not concurrent: Whimbrel.Tool.runtimeconfig.json", StringComparison.Ordinal));
        Assert.Matches(@"^\d+ ok, \d+ advice, \d+ skipped$", output[^1]);
        var (jsonCode, json, _) = await RunningTool.Run(null, "doctor", "--loops", "1", "--json");
        Assert.Equal(code, jsonCode);
        Assert.Equal(14,
            JsonDocument.Parse(string.Join('\n', json)).RootElement.GetProperty("findings").GetArrayLength());
    }

    [Fact]
    public async Task A_port_is_free_or_reported_with_its_holder()
    {
        await using var holder = await RunningTool.Serve("echo", "--listen", "*:0");
        int port = ((IPEndPoint)holder.EndPoint).Port;
        Finding taken = await PortCheck.OfAsync(port);
        Assert.Equal((Verdict.Advice, "port"), (taken.Verdict, taken.Name));
        Assert.Contains($":{port}: already in use by 'dotnet' (pid {holder.Id})", taken.Text, StringComparison.Ordinal);
        Assert.EndsWith($"ss -ltnp 'sport = :{port}' shows", taken.Fix, StringComparison.Ordinal);
        var (code, output, _) = await RunningTool.Run(null, "doctor", "--port",
            port.ToString(CultureInfo.InvariantCulture));
        Assert.Equal(1, code);
        Assert.Contains(output, line => line.StartsWith("advice  port ", StringComparison.Ordinal)
            && line.Contains($"(pid {holder.Id})", StringComparison.Ordinal));
        await holder.StopAsync();
        Assert.Equal(Finding.Ok("port", $"{port} is free on all IPv4 addresses"), await PortCheck.OfAsync(port));
    }

    [Theory]
    [InlineData("--port takes a port from 1 to 65535, not '0'.", "--port", "0")]
    [InlineData("--loops takes a number from 1 to 256, not '0'.", "--loops", "0")]
    [InlineData("--app takes a program that has a .runtimeconfig.json beside it, not 'nothing.dll'.", "--app",
        "nothing.dll")]
    [InlineData("'--fix' is not known here.", "--fix")]
    public async Task Wrong_arguments_are_reported_with_the_right_form(string expected, params string[] arguments)
    {
        var (code, output, errors) = await RunningTool.Run(null, ["doctor", .. arguments]);
        Assert.Equal(2, code);
        Assert.Empty(output);
        Assert.Equal($"whimbrel: {expected} Right would be: whimbrel doctor [--json] [--loops N] [--app PROGRAM.dll] "
            + $"[--port N]", Assert.Single(errors));
    }
}
