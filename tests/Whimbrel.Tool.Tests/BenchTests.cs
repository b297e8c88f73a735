using System.Text.Json;
using static Whimbrel.Tool.Tests.Harness;

namespace Whimbrel.Tool.Tests;

/// <summary>What the benchmark harness prints and stores is correct, and its integrity checks can fail.</summary>
/// <remarks>Quiet, because a load program without CPU time in its short window measures nothing.</remarks>
[Trait("Runs", "quiet")]
public sealed class BenchTests
{
    [Fact]
    public async Task A_wrong_byte_a_lost_byte_and_a_stall_each_fail_a_run()
    {
        (int exitCode, string output) = await BenchAsync("--self-test");
        Assert.True(exitCode == 0, output);
    }

    [Fact]
    public async Task A_profile_shows_where_the_server_spends_its_time()
    {
        (int exitCode, string output) = await BenchAsync("pingpong-100", "--profile", "c-epoll", "--cpus", "free",
            "--warmup", "0.1", "--seconds", "1", "--top", "200");
        Assert.SkipWhen(exitCode == 2 && output.Contains("apt-get install", StringComparison.Ordinal), output);
        Assert.SkipWhen(output.Contains("perf cannot record here.", StringComparison.Ordinal), output);
        Assert.True(exitCode == 0, output);
        Assert.Matches(@"
\d+ samples, \d+ a second of CPU: \d+\.\d% kernel, \d+\.\d% user
", output);
        Assert.Matches(@"
 +\d+\.\d%  kernel  \S+", output);
    }

    [Theory]
    [InlineData("--profile takes one scenario", "pingpong-1", "bulk-1", "--profile", "c-epoll")]
    [InlineData("--profile takes one scenario, and not idle or start", "idle", "--profile", "c-epoll")]
    [InlineData("unknown peer nothing", "pingpong-1", "--profile", "nothing")]
    public async Task A_profile_that_cannot_be_taken_says_why(string expected, params string[] arguments)
    {
        (int exitCode, string output) = await BenchAsync(arguments);
        Assert.Equal(2, exitCode);
        Assert.Contains(expected, output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Ratios_are_given_to_each_base_that_was_named()
    {
        (int exitCode, string output) = await BenchAsync("pingpong-1", "--smoke", "--peers", "c-epoll,broken", "--peer",
            $"broken={Broken} --fault none --port 0", "--base", "c-epoll,broken");
        Assert.True(exitCode == 0, output);
        Assert.Contains("C/server  C/(server+client)  broken/server  broken/(server+client)", output,
            StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_server_that_stands_still_while_it_answers_does_so_outside_the_window()
    {
        using TemporaryFolder folder = new();
        File.WriteAllText(folder["server.py"], """
            import signal, socket, time

            def answer(*_):
                time.sleep(0.25)
                print("allocated 0", flush=True)

            signal.signal(signal.SIGUSR1, answer)
            listener = socket.create_server(("127.0.0.1", 0))
            print("listening on 127.0.0.1:%d" % listener.getsockname()[1], flush=True)
            while True:
                connection, _ = listener.accept()
                while data := connection.recv(65536):
                    connection.sendall(data)
                connection.close()
            """);
        (int exitCode, string output) = await BenchAsync(
            "pingpong-1", "--dotnet-peer", $"still=python3 {folder["server.py"]}", "--peers", "still", "--cpus", "free",
            "--rounds", "1", "--warmup", "1", "--seconds", "0.5", "--json", folder["rounds.json"]);
        Assert.True(exitCode == 0, output);
        using JsonDocument rounds = JsonDocument.Parse(File.ReadAllText(folder["rounds.json"]));
        JsonElement round = rounds.RootElement.GetProperty("scenarios").GetProperty("pingpong-1").GetProperty("runs")
            .GetProperty("still")[0];
        Assert.Equal(0, round.GetProperty("allocated_per_message").GetDouble());
        Assert.InRange(round.GetProperty("latency_ns").GetProperty("max").GetDouble(), 1, 0.2e9);
    }

    [Fact]
    public async Task A_round_reports_the_figures_of_the_loops()
    {
        using TemporaryFolder folder = new();
        (int exitCode, string output) = await BenchAsync("pingpong-1", "--smoke", "--peers", "whimbrel-epoll", "--cpus",
            "free", "--no-build", "--json", folder["rounds.json"]);
        Assert.True(exitCode == 0, output);
        using JsonDocument rounds = JsonDocument.Parse(File.ReadAllText(folder["rounds.json"]));
        JsonElement round = rounds.RootElement.GetProperty("scenarios").GetProperty("pingpong-1").GetProperty("runs")
            .GetProperty("whimbrel-epoll")[0];
        // One connection with one message in flight: one loop iteration per message, and almost no others.
        Assert.InRange(round.GetProperty("turns_per_second").GetDouble(), 10, 10e6);
        Assert.InRange(round.GetProperty("completions_per_turn").GetDouble(), 0.5, 1.1);
        Assert.InRange(round.GetProperty("empty_turns").GetDouble(), 0, 0.5);
    }

    [Fact]
    public async Task A_round_that_the_median_hides_is_named_with_what_the_loops_did()
    {
        string output = await InHarnessAsync("""
            def of(rate, **loops):
                return {"per_second": rate, "server_cpus": 0.9, "disturbed": 0, **loops}
            good = of(60e6, turns_per_second=3e4, empty_turns=0, completions_per_turn=1)
            print(*run.odd_rounds({"ours": [good, good, of(29.6e3, turns_per_second=2e6, empty_turns=0.99, completions_per_turn=0.01)], "c": [of(60e6), of(74e6), of(44e6)], "two": [of(1), of(9)]}), sep="\n")
            """);
        Assert.Equal("""
            ODD ours, number 3: 29.6 k/s where the median is 60 M/s; server cpus 0.90, others 0%, 2 M turns/s of which 99% empty, 0.01 completions a turn
            ODD c, number 3: 44 M/s where the median is 60 M/s; server cpus 0.90, others 0%

            """, output);
    }

    [Fact]
    public async Task Stored_figures_are_a_line_per_peer_of_a_commit_and_newer_ones_take_their_place()
    {
        OtherProgram.Needs("git");
        using TemporaryFolder tree = new();
        await CommitHarnessAsync(tree);
        // The run takes more than a second, because file names of two runs differ by the second.
        string[] measure = ["pingpong-1", "--peers", "c-epoll", "--rounds", "2", "--seconds", "0.5", "--warmup", "0.1",
            "--cpus", "free", "--save"];

        (int exitCode, string output) = await BenchInAsync(tree.Path, "run", measure);
        Assert.True(exitCode == 0, output);
        string first = Assert.Single(StoredIn(tree, "results"));
        string row = Assert.Single(File.ReadLines(first),
            static l => l.Contains("\"scenario\"", StringComparison.Ordinal));
        Assert.Matches(
            """^  \{"scenario": "pingpong-1", "peer": "c-epoll", "rounds": 2, "failures": 0, "per_second": \[[\d.]+, [\d.]+, [\d.]+\], .*\}$""",
            row);
        using (JsonDocument summary = JsonDocument.Parse(File.ReadAllText(first)))
            Assert.Equal(40, summary.RootElement.GetProperty("commit").GetString()!.Length);
        Assert.Contains("\"load\": {", File.ReadAllText(Assert.Single(StoredIn(tree, "out"))),
            StringComparison.Ordinal);

        // The newer of the two runs is kept. The stored result itself does not count as a change of the repository.
        (exitCode, output) = await BenchInAsync(tree.Path, "run", measure);
        Assert.True(exitCode == 0, output);
        Assert.NotEqual(first, Assert.Single(StoredIn(tree, "results")));
        Assert.Equal(2, StoredIn(tree, "out").Length);

        File.AppendAllText(tree["bench/load/load.c"], "\n");
        (exitCode, output) = await BenchInAsync(tree.Path, "run", measure);
        Assert.Equal(2, exitCode);
        Assert.Contains("--save stores figures of a commit, and the tree has uncommitted changes (bench/load/load.c)",
            output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Each_cell_of_the_table_in_the_README_is_in_the_summary_that_it_names()
    {
        using TemporaryFolder tree = new();
        string readme = File.ReadAllText(Path.Combine(Root, "README.md"));
        string summary = Assert.Single(File.ReadLines(Path.Combine(Root, "README.md")),
            static l => l.StartsWith("<!-- figures: ", StringComparison.Ordinal)).Split(' ')[2];
        foreach (string file in (string[])["bench/run", "bench/readme", summary])
        {
            Directory.CreateDirectory(Path.GetDirectoryName(tree[file])!);
            File.Copy(Path.Combine(Root, file), tree[file]);
        }

        (int exitCode, string output) = await CheckAsync(readme);
        Assert.True(exitCode == 0, output);
        // A figure that was not measured is noticed, in any row.
        string row = readme.Split('\n')
            .First(static l => l.StartsWith("| connect, one echo, close |", StringComparison.Ordinal));
        (exitCode, output) = await CheckAsync(readme.Replace(row,
            row.Replace(" us |", "1 us |", StringComparison.Ordinal), StringComparison.Ordinal));
        Assert.Equal(1, exitCode);
        Assert.Contains("README.md has what bench/results/", output, StringComparison.Ordinal);
        Assert.Contains("| connect, one echo, close |", output, StringComparison.Ordinal);

        Task<(int ExitCode, string Output)> CheckAsync(string text)
        {
            File.WriteAllText(tree["README.md"], text);
            return OtherProgram.RunAsync("python3", tree["bench/readme"], "--check");
        }
    }

    [Fact]
    public async Task A_tree_is_compared_with_another_one_window_by_window()
    {
        NeedsUring();
        (int exitCode, string output) = await BenchInAsync(Root, "against", "--tree", Root, "pingpong-1", "--smoke",
            "--rounds", "1", "--windows", "2", "--seconds", "0.2", "--warmup", "0.1", "--no-build");
        Assert.True(exitCode == 0, output);
        Assert.Matches(@"pingpong-1 +whimbrel-epoll +server \d\.\d{3} \[\d\.\d{3} - \d\.\d{3}\]  server\+client "
            + @"\d\.\d{3}", output);
        (exitCode, output) = await BenchInAsync(Root, "against");
        Assert.Equal(2, exitCode);
        Assert.Contains("name a commit", output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_scenario_stays_until_each_of_its_peers_has_newer_figures()
    {
        using TemporaryFolder folder = new();
        Store("1", "bulk-1/c-epoll", "bulk-1/saea", "short/c-epoll");
        Store("2", "bulk-1/c-epoll", "short/c-epoll");
        Store("3", "bulk-1/c-epoll", "bulk-1/saea FAILED");
        await DropAsync();
        Assert.Equal(["1: bulk-1/c-epoll bulk-1/saea", "2: short/c-epoll", "3: bulk-1/c-epoll bulk-1/saea"], Stored());
        Store("4", "bulk-1/saea", "short/c-epoll");
        await DropAsync();
        Assert.Equal(["3: bulk-1/c-epoll bulk-1/saea", "4: bulk-1/saea short/c-epoll"], Stored());

        void Store(string date, params string[] rows)
        {
            IEnumerable<string> lines = rows.Select(static r => r.Split('/', ' ')).Select(static r =>
                $"{{\"scenario\": \"{r[0]}\", \"peer\": \"{r[1]}\", \"rounds\": 3, "
                    + $"\"failures\": {(r.Length > 2 ? 3 : 0)}}}");
            File.WriteAllText(folder[$"{date}.json"],
                $$"""{"date": "{{date}}", "peers": {}, "rows": [{{string.Join(',', lines)}}]}""");
        }

        string[] Stored() =>
            [.. Directory.GetFiles(folder.Path, "*.json").Order(StringComparer.Ordinal).Select(static f =>
            {
                using JsonDocument summary = JsonDocument.Parse(File.ReadAllText(f));
                var rows = summary.RootElement.GetProperty("rows").EnumerateArray()
                    .Select(static r => $"{r.GetProperty("scenario")}/{r.GetProperty("peer")}");
                return $"{Path.GetFileNameWithoutExtension(f)}: {string.Join(' ', rows)}";
            })];

        Task DropAsync() => InHarnessAsync("run.drop_superseded(pathlib.Path(sys.argv[2]))", folder.Path);
    }

    /// <summary>Output of a Python program that imports the harness as the module <c>run</c>.</summary>
    private static async Task<string> InHarnessAsync(string program, params string[] arguments)
    {
        const string load = "import pathlib, sys, types\nrun = types.ModuleType('run')\nrun.__file__ = "
            + "sys.argv[1]\nexec(open(sys.argv[1]).read(), run.__dict__)\n";
        (int exitCode, string output) = await OtherProgram.RunAsync("python3",
            ["-c", load + program, Path.Combine(Root, "bench", "run"), .. arguments]);
        Assert.True(exitCode == 0, output);
        return output;
    }

    // A repository with everything that runs one peer in C, as last built.
    private static async Task CommitHarnessAsync(TemporaryFolder tree)
    {
        foreach (string folder in (string[])["load", "load/build", "peers/c", "peers/c/build"])
        {
            string from = Path.Combine(Root, "bench", folder);
            if (!Directory.Exists(from)) continue;
            Directory.CreateDirectory(tree[$"bench/{folder}"]);
            // A name that ends in a number belongs to a program that another run is compiling.
            foreach (string file in Directory.GetFiles(from)
                .Where(static f => !int.TryParse(Path.GetExtension(f).AsSpan().TrimStart('.'), out _)))
                File.Copy(file, tree[$"bench/{folder}/{Path.GetFileName(file)}"]);
        }

        File.Copy(Path.Combine(Root, "bench", "run"), tree["bench/run"]);
        File.Copy(Path.Combine(Root, ".gitignore"), tree[".gitignore"]);
        foreach (string[] words in (string[][])[["init", "--quiet"], ["add", "."], ["-c", "user.name=Bench", "-c",
            "user.email=bench@localhost", "commit", "--quiet", "--message", "The harness"]])
        {
            (int exitCode, string output) = await OtherProgram.RunAsync("git", ["-C", tree.Path, .. words]);
            Assert.True(exitCode == 0, output);
        }
    }

    private static string[] StoredIn(TemporaryFolder tree, string folder) =>
        Directory.GetFiles(tree[$"bench/{folder}"], "*.json", SearchOption.AllDirectories);

    private static string Broken => Path.Combine(Root, "bench", "peers", "c", "build", "broken");
}
