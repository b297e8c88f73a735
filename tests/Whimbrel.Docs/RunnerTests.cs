using System.IO.Enumeration;

namespace Whimbrel.Docs;

// What `./test` reports is what was run. The script works in its own folder on made-up projects: instead of `dotnet` a
// program writes the log that a test program would write.
public sealed class RunnerTests : IDisposable
{
    private static readonly TimeSpan _patience = TimeSpan.FromMinutes(2);

    private int _furtherRunsLimit = 300;

    private readonly string _folder = Directory.CreateTempSubdirectory("whimbrel-runner-").FullName;

    // The first argument is the test program; $runs is the number of earlier starts. `report passed A` writes a line of
    // the log.
    private const string Head = """
        #!/usr/bin/env bash
        if [[ $1 == --version ]]; then echo 10.0.100; exit; fi
        project=$(basename "$1" .dll) given="$*"
        exec 9>"$PLANTED/lock"; flock 9
        runs=$(cat "$PLANTED/$project.runs" 2>/dev/null || echo 0); echo $((runs + 1)) >"$PLANTED/$project.runs"
        flock -u 9
        succeeded=0 failed=0
        report() { echo "$1 $2 (1ms)"; if [[ $1 == passed ]]; then succeeded=$((succeeded + 1)); else failed=$((failed + 1)); echo "  it was planted"; fi; }
        finish() { printf 'Test run summary: it ended\n  total: 9\n  failed: %d\n  succeeded: %d\n  skipped: 0\n' $failed $succeeded; exit $((failed > 0 ? 2 : 0)); }

        """;

    public void Dispose() => Directory.Delete(_folder, recursive: true);

    [Fact]
    public async Task A_test_that_fails_once_is_run_twenty_times_more_and_named_as_flaky()
    {
        Needs();
        Plant("Whimbrel.Docs", """
            if ((runs == 0)); then report passed A.Good; report failed A.Flaky; else [[ $given == *"--filter-method A.Flaky" ]] && report passed A.Flaky; fi
            finish
            """);
        var (code, lines) = await TestAsync();
        Assert.Equal("2 passed, 0 failed, 0 skipped", lines[^1]);
        Assert.Equal("1 flaky: failed once, then passed each time alone: A.Flaky", lines[^2]);
        Assert.Equal(0, code);
        Assert.Equal("21", Runs("Whimbrel.Docs"));
        var log = await File.ReadAllLinesAsync(Path.Combine(_folder, "artifacts/flaky.log"),
            TestContext.Current.CancellationToken);
        Assert.EndsWith("failed A.Flaky (1ms)", log[0], StringComparison.Ordinal);
        Assert.Equal("  it was planted", log[1]);
    }

    [Fact]
    public async Task A_test_that_fails_in_one_of_the_twenty_runs_fails_the_run()
    {
        Needs();
        Plant("Whimbrel.Docs", """
            if ((runs == 0)); then report passed A.Good; report failed A.Racy; elif ((runs == 17)); then report failed A.Racy; else report passed A.Racy; fi
            finish
            """);
        var (code, lines) = await TestAsync();
        Assert.Equal(["0 flaky", "1 passed, 1 failed, 0 skipped"], lines[^2..]);
        Assert.Contains("    failed once, and again in run 17 of 20 alone: A.Racy", lines);
        Assert.Equal(["Failed in Whimbrel.Docs: A.Racy", "  it was planted"], lines[^4..^2]);
        Assert.Equal(1, code);
    }

    [Theory]
    // at least five runs passed in the limit
    [InlineData("sleep 1", 0, "1 flaky: failed once, then passed each time alone: A.Slow")]
    [InlineData("sleep 3", 1, "0 flaky")] // fewer
    [InlineData("if ((runs == 6)); then exec sleep 60; fi", 1, "0 flaky")] // the sixth run hangs
    public async Task A_slow_test_is_flaky_when_it_passed_five_times_before_the_limit_and_none_hangs(string work,
        int exitCode, string flaky)
    {
        Needs();
        Plant("Whimbrel.Docs", $"""
            if ((runs == 0)); then report passed A.Good; report failed A.Slow; else {work}; report passed A.Slow; fi
            finish
            """);
        _furtherRunsLimit = 12;
        var (code, lines) = await TestAsync();
        Assert.Equal(flaky, lines[^2]);
        Assert.Equal(exitCode, code);
    }

    [Theory]
    [InlineData("Whimbrel.Simulation", "report failed A.One")]
    [InlineData("Whimbrel.Docs", "report failed A.MemoryTcp.One")]
    [InlineData("Whimbrel.Docs", "for n in 1 2 3 4 5 6 7; do report failed A.Test$n; done")]
    public async Task Tests_in_virtual_time_and_runs_with_many_failures_are_not_repeated(string project,
        string failures)
    {
        Needs();
        Plant(project, $"{failures}\nfinish\n");
        var (code, lines) = await TestAsync();
        Assert.Equal("0 flaky", lines[^2]);
        Assert.Equal("1", Runs(project));
        Assert.Equal(1, code);
    }

    [Fact]
    public async Task A_failure_in_quarantine_is_printed_and_not_counted()
    {
        Needs();
        Plant("Whimbrel.Tests", "report failed A.Known; report passed A.Good; finish");
        File.WriteAllText(Path.Combine(_folder, "tests/quarantine.txt"),
            "# a comment\nA.Known: the cause is suspected\n");
        var (code, lines) = await TestAsync();
        Assert.Equal(["1 failed in quarantine (tests/quarantine.txt): A.Known", "0 flaky",
            "1 passed, 0 failed, 0 skipped"], lines[^3..]);
        Assert.Contains("    failed A.Known (1ms)", lines);
        Assert.Equal(0, code);
        Plant("Whimbrel.Tests", "report failed A.KnownToo; report failed A.Known; finish");
        (code, lines) = await TestAsync();
        Assert.Equal("0 passed, 1 failed, 0 skipped", lines[^1]);
        Assert.Equal(1, code);
    }

    [Fact]
    public async Task Reasons_of_skipped_tests_are_counted_and_printed_once()
    {
        Needs();
        Plant("Whimbrel.Tests", """
            report passed A.Good
            for n in 1 2 3; do printf 'skipped A.Skipped%d (0ms)\n  Needs Linux.\n' $n; done
            printf 'skipped A.Other (0ms)\n  Needs IPv6.\n'
            finish
            """);
        var (code, lines) = await TestAsync();
        Assert.Equal(["Skipped, by reason:", "     3  Needs Linux.", "     1  Needs IPv6.", "0 flaky",
            "1 passed, 0 failed, 0 skipped"], lines[^5..]);
        Assert.Equal(0, code);
    }

    [Fact]
    public async Task Missing_programs_are_named_and_installed_only_when_wanted()
    {
        Needs();
        Plant("Whimbrel.Tests", "report passed A.Good; finish");
        Assert.SkipUnless(File.Exists("/usr/bin/env") && !OperatingSystem.IsMacOS(),
            "Needs the tools of Linux in /usr/bin.");
        var (code, lines) = await TestAsync(isBare: true, "--no-install");
        Assert.Equal(0, code);
        Assert.Contains(lines,
            static l => l.StartsWith("Missing: curl (Debian: apt-get install curl)", StringComparison.Ordinal));
        Assert.False(File.Exists(Path.Combine(_folder, "apt-get.calls")));
        (code, lines) = await TestAsync(isBare: true);
        Assert.Equal(0, code);
        Assert.Contains(lines, static l => l == "  curl (package curl): HTTP as another program speaks it");
        var calls = await File.ReadAllLinesAsync(Path.Combine(_folder, "apt-get.calls"),
            TestContext.Current.CancellationToken);
        Assert.Contains(" curl ", calls.Single(static l => l.Contains(" install ", StringComparison.Ordinal)),
            StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("report passed A.One; finish >/dev/null", "0 passed, 1 failed, 0 skipped")]
    [InlineData("report passed A.One; (finish); exit 134", "1 passed, 1 failed, 0 skipped")]
    [InlineData("report passed A.One; report failed A.Two; (finish); exit 134", "2 passed, 1 failed, 0 skipped")]
    [InlineData("sleep 1000", "0 passed, 1 failed, 0 skipped")]
    public async Task A_test_program_that_crashes_hangs_or_runs_nothing_fails_the_run(string program, string last)
    {
        Needs();
        // The tests that run alone afterwards pass, so only the crash is counted.
        Plant("Whimbrel.Docs",
            $"if [[ $given == *--filter-method* ]]; then report passed A.Two; finish; fi\n{program}\n");
        var (code, lines) = await TestAsync("--limit", "5");
        Assert.Equal(last, lines[^1]);
        Assert.Equal(1, code);
    }

    [Fact]
    public async Task Projects_run_side_by_side_and_tests_that_need_a_quiet_machine_run_after_them()
    {
        Needs();
        // Each of these two ends only when both have started.
        const string meet = """
            touch "$PLANTED/$project.began"
            for ((i = 0; i < 1000; i++)); do [[ -f $PLANTED/Whimbrel.Docs.began && -f $PLANTED/Whimbrel.Tests.began ]] && break; sleep 0.05; done
            ((i < 1000)) && report passed A.$project || report failed A.$project
            touch "$PLANTED/$project.ended"
            finish
            """;
        Plant("Whimbrel.Docs", meet);
        Plant("Whimbrel.Tests", meet);
        Plant("Whimbrel.Allocations", """
            [[ -f $PLANTED/Whimbrel.Docs.ended && -f $PLANTED/Whimbrel.Tests.ended ]] && report passed A.Quiet || report failed A.Quiet
            finish
            """);
        var (code, lines) = await TestAsync("--jobs", "2");
        Assert.Equal("3 passed, 0 failed, 0 skipped", lines[^1]);
        Assert.Equal(0, code);
    }

    // Because the runner needs seconds to list a large project, the selection by its patterns of classes and traits is
    // computed here, and the smaller project proves that the runner computes the same.
    [Theory]
    [InlineData("Whimbrel.Conformance", false)]
    [InlineData("Whimbrel.Tool.Tests", false)]
    [InlineData("Whimbrel.Tool.Tests", true)]
    public async Task Every_test_of_a_project_belongs_to_one_part(string project, bool byTheRunner)
    {
        Needs();
        var dll = Repository.PathOf($"tests/{project}/bin/Release/net10.0/{project}.dll");
        Assert.SkipUnless(File.Exists(dll), $"{project} was not built in Release.");
        var parts = await RunAsync(Repository.Root, "bash", "./test", "--parts", "--project", project);
        var all = (await ListAsync()).Order(StringComparer.Ordinal).ToList();
        List<string> listed = [];
        Dictionary<string, HashSet<string>> withTrait = [];
        foreach (var part in parts)
        {
            var options = part.Split('\t')[2].Split(' ').Chunk(2).ToList();
            if (byTheRunner)
            {
                listed.AddRange(await ListAsync([.. options.SelectMany(static o => o)]));
                continue;
            }

            foreach (var option in options)
            {
                if (option[0].EndsWith("-trait", StringComparison.Ordinal) && !withTrait.ContainsKey(option[1]))
                    withTrait.Add(option[1], [.. await ListAsync("--filter-trait", option[1])]);
            }

            listed.AddRange(all.Where(test => options.All(o => o[0] switch
            {
                "--filter-class" => IsOf(o[1], test),
                "--filter-not-class" => !IsOf(o[1], test),
                "--filter-trait" => withTrait[o[1]].Contains(test),
                "--filter-not-trait" => !withTrait[o[1]].Contains(test),
                _ => throw new InvalidOperationException($"{o[0]} is no option that this test knows"),
            })));
        }

        Assert.InRange(all.Count, 100, int.MaxValue);
        Assert.InRange(parts.Length, 2, 20);
        Assert.Equal(all, listed.Order(StringComparer.Ordinal));

        static bool IsOf(string pattern, string test) =>
            FileSystemName.MatchesSimpleExpression(pattern,
                test.Trim().Split('(')[0] is var name ? name[..name.LastIndexOf('.')] : "", ignoreCase: true);

        async Task<IEnumerable<string>> ListAsync(params string[] options) =>
            (await RunAsync(Repository.Root, "dotnet", [dll, "--list-tests", "--no-ansi", "--no-progress",
                "--ignore-exit-code", "8", .. options])).Where(l => l.Contains($"{project}.", StringComparison.Ordinal)
                    && l.StartsWith("  ", StringComparison.Ordinal));
    }

    private static void Needs() => Assert.SkipUnless(OperatingSystem.IsLinux() && Command.Exists("bash")
        && Command.Exists("flock"), "The test needs Linux, bash and flock.");

    private void Plant(string project, string program)
    {
        var name = Path.Combine("tests", project);
        Directory.CreateDirectory(Path.Combine(_folder, name, "bin/Release/net10.0"));
        File.WriteAllText(Path.Combine(_folder, name, $"{project}.csproj"), "");
        File.WriteAllText(Path.Combine(_folder, name, $"bin/Release/net10.0/{project}.dll"), program);
    }

    private string Runs(string project) => File.ReadAllText(Path.Combine(_folder, $"{project}.runs")).Trim();

    private Task<(int ExitCode, string[] Lines)> TestAsync(params string[] options) =>
        TestAsync(isBare: false, options);

    // A minimal machine has only the commands that the script itself needs, and an apt-get that records its calls and
    // installs nothing.
    private async Task<(int ExitCode, string[] Lines)> TestAsync(bool isBare, params string[] options)
    {
        var programs = Directory.CreateDirectory(Path.Combine(_folder, "programs")).FullName;
        // The made-up test program replaces the dll, and receives the arguments.
        Write("dotnet", Head + "source \"$1\"\n");
        Write("apt-get", "#!/bin/sh\necho \"$@\" >>\"$PLANTED/apt-get.calls\"\n");
        Write("id", "#!/bin/sh\necho 0\n");
        var script = File.ReadAllText(Repository.PathOf("test"));
        Assert.Contains("further_runs_limit=300", script, StringComparison.Ordinal);
        File.WriteAllText(Path.Combine(_folder, "test"), script.Replace("further_runs_limit=300",
            $"further_runs_limit={_furtherRunsLimit}", StringComparison.Ordinal));
        var path = $"{programs}:{Environment.GetEnvironmentVariable("PATH")}";
        if (isBare)
        {
            string[] needed = ["awk", "basename", "bash", "cat", "chmod", "date", "df", "dirname", "env", "find",
                "flock", "getconf", "git", "grep", "mkdir", "mktemp", "rm", "sed", "sh", "sleep", "sort", "tail",
                "timeout", "touch", "tr", "uname"];
            foreach (var name in needed)
            {
                if (!File.Exists(Path.Combine(programs, name)) && Command.Find(name) is { } found)
                    File.CreateSymbolicLink(Path.Combine(programs, name), found);
            }

            path = programs;
        }

        var (code, output) = await Command.RunAsync(_folder, _patience, "env", ["-u", "WHIMBREL_ONE_ATTEMPT", "-u",
            "WHIMBREL_DEEP", $"PLANTED={_folder}", $"PATH={path}", "bash", "./test", "--no-build", .. options]);
        return (code, output.TrimEnd().Split('\n'));

        void Write(string name, string text)
        {
            var file = Path.Combine(programs, name);
            File.WriteAllText(file, text);
            if (!OperatingSystem.IsWindows())
                File.SetUnixFileMode(file, UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute);
        }
    }

    private static async Task<string[]> RunAsync(string folder, string program, params string[] arguments)
    {
        var (code, output) = await Command.RunAsync(folder, _patience, program, arguments);
        Assert.True(code == 0, output);
        return output.TrimEnd().Split('\n');
    }
}
