using Whimbrel.Tidy.Rules;

namespace Whimbrel.Tidy;

// The rules about tests, unsafe code and names, for all C# files. A test after each rule proves that the rule can fail.
public class HabitTests
{
    private static IEnumerable<SourceFile> Everything => Repository.Sources("src/", "tests/", "bench/", "examples/");
    private static IEnumerable<SourceFile> Tests => Repository.Sources("tests/");

    [Fact]
    public void No_test_sleeps() => Judge.None(Tests.SelectMany(Habits.Sleeps));

    [Fact]
    public void A_sleeping_test_is_found()
    {
        Judge.Finds("Thread.Sleep",
            Habits.Sleeps(Judge.File("tests/A.cs", "class A { void M() { System.Threading.Thread.Sleep(10); } }")));
        Judge.Finds("Task.Delay", Habits.Sleeps(Judge.File("tests/A.cs",
            "class A { void M()\n {\n // tidy: waits a bit\n Task.Delay(10); } }")));
        Judge.None(Habits.Sleeps(Judge.File("tests/A.cs", "class A { void M()\n {\n // tidy: waits because the kernel "
            + "gives no event for this\n Task.Delay(10); } }")));
    }

    [Fact]
    public void No_test_binds_a_fixed_port() => Judge.None(Tests.SelectMany(Habits.FixedPorts));

    [Fact]
    public void A_fixed_port_is_found()
    {
        Judge.Finds("8080", Habits.FixedPorts(Judge.File("tests/A.cs",
            "class A { object o = new System.Net.IPEndPoint(System.Net.IPAddress.Any, 8080); }")));
        Judge.None(
            Habits.FixedPorts(Judge.File("tests/A.cs", "class A { object o = new IPEndPoint(IPAddress.Any, 0); }")));
    }

    // Leases, gaps and time limits of clusters must survive a jump of the wall clock.
    [Fact]
    public void Clusters_and_their_buses_read_no_clock_that_can_be_set() =>
        Judge.None(Repository.Sources("src/Whimbrel.Cluster", "src/Whimbrel.Cluster.Nats", "src/Whimbrel.Cluster.Redis",
            "src/Whimbrel.Cluster.RabbitMq", "src/Brokers").SelectMany(Habits.WallClocks));

    [Fact]
    public void A_clock_that_can_be_set_is_found()
    {
        Judge.Finds("DateTime.UtcNow",
            Habits.WallClocks(Judge.File("src/A.cs", "class A { object o = System.DateTime.UtcNow; }")));
        Judge.Finds("GetUtcNow",
            Habits.WallClocks(Judge.File("src/A.cs", "class A { object o = TimeProvider.System.GetUtcNow(); }")));
        Judge.None(
            Habits.WallClocks(Judge.File("src/A.cs", "class A { object o = TimeProvider.System.GetTimestamp(); }")));
    }

    [Fact]
    public void No_test_takes_the_folder_of_its_source_from_the_compiler() =>
        Judge.None(Tests.SelectMany(Habits.CallerPaths));

    [Fact]
    public void A_folder_from_the_compiler_is_found() =>
        Judge.Finds("CallerFilePath", Habits.CallerPaths(Judge.File("tests/A.cs",
            "class A { string M([CallerFilePath] string here = \"\") => here; }")));

    [Fact]
    public void Every_unsafe_says_why_it_is_safe() =>
        Judge.None(Repository.Sources("src/").SelectMany(Habits.UnsafeClaims));

    [Fact]
    public void An_unsafe_without_a_claim_is_found()
    {
        Judge.Finds("unsafe without", Habits.UnsafeClaims(Judge.File("src/A.cs",
            "class A\n{\n    // Reads the head. An unsafe method.\n    unsafe int M(int* p) => *p;\n}")));
        Judge.None(Habits.UnsafeClaims(Judge.File("src/A.cs", "class A\n{\n    // Safe: p points into our own block, "
            + "which outlives the call.\n    unsafe int M(int* p) => *p;\n}")));
        Judge.None(Habits.UnsafeClaims(Judge.File("src/A.cs",
            "namespace N;\nunsafe class A\n{\n    // Safe: p is ours.\n    int M(int* p) => *p;\n}")));
        Judge.None(Habits.UnsafeClaims(Judge.File("src/A.cs", "unsafe struct A { byte* p; }")));
        Judge.None(Habits.UnsafeClaims(Judge.File("src/A.cs",
            "// Safe because every pointer here comes from the block pool.\nnamespace N;\n\nunsafe class A { }")));
    }

    [Fact]
    public void Namespaces_are_file_scoped() => Judge.None(Everything.SelectMany(Shape.FileScopedNamespaces));

    [Fact]
    public void A_block_namespace_is_found() =>
        Judge.Finds("block namespace", Shape.FileScopedNamespaces(Judge.File("a.cs", "namespace N { class A { } }")));

    [Fact]
    public void No_type_is_called_a_manager_or_helper() => Judge.None(Everything.SelectMany(Shape.Names));

    [Fact]
    public void An_empty_word_in_a_type_name_is_found()
    {
        Judge.Finds("SocketManager", Shape.Names(Judge.File("a.cs", "class SocketManager { }")));
        Judge.Finds("ByteUtils", Shape.Names(Judge.File("a.cs", "static class ByteUtils { }")));
    }

    [Fact]
    public void Packages_are_pinned_in_one_place()
    {
        var pinned = Projects.Pinned(Repository.Read("Directory.Packages.props"));
        Judge.None(Repository.Paths.Where(p => p.EndsWith(".csproj", StringComparison.Ordinal)
            || Path.GetFileName(p) is "Directory.Build.props" or "Directory.Build.targets")
            .SelectMany(p => Projects.PackagesPinned(p, Repository.Read(p), pinned)));
    }

    [Fact]
    public void An_unpinned_package_is_found()
    {
        Judge.Finds("not pinned", Projects.PackagesPinned("a.csproj",
            "<Project><ItemGroup><PackageReference Include=\"X\" /></ItemGroup></Project>",
            new Dictionary<string, string>()));
        Judge.Finds("own version", Projects.PackagesPinned("a.csproj",
            "<Project><ItemGroup><PackageReference Include=\"X\" Version=\"1.0.0\" /></ItemGroup></Project>",
            new Dictionary<string, string> { ["X"] = "1.0.0" }));
        Judge.Finds("not version 1.0.0", Projects.PackagesPinned("templates/whimbrel-a/a.csproj",
            "<Project><ItemGroup><PackageReference Include=\"X\" Version=\"0.9.0\" /></ItemGroup></Project>",
            new Dictionary<string, string> { ["X"] = "1.0.0" }));
    }

    [Fact]
    public void Every_project_is_part_of_the_solution()
    {
        var solution = Repository.Read("Whimbrel.slnx");
        Judge.None(Repository.PathsEnding(".csproj").Where(p => !p.StartsWith("templates/whimbrel-",
            StringComparison.Ordinal) && !solution.Contains($"\"{p}\"", StringComparison.Ordinal))
            .Select(p => new Finding(p, 0, "not in Whimbrel.slnx: ./test would not build it")));
    }

    [Fact]
    public void Numbers_that_gate_nothing_are_reported()
    {
        var lines = new List<string>();
        foreach (var (name, folder) in new[] { ("src", "src/"), ("tests", "tests/"), ("bench", "bench/") })
        {
            lines.AddRange(Measures.Of([.. Repository.Sources(folder)]).Select(l => $"tidy, {name}: {l}"));
        }
        lines.AddRange(WordTests.Lines);
        lines.AddRange(TextShapeTests.Lines);
        var output = TestContext.Current.TestOutputHelper!;
        foreach (var line in lines) output.WriteLine(line);
        var folderOfReport = Directory.CreateDirectory(Path.Combine(Repository.Root, "artifacts"));
        File.WriteAllLines(Path.Combine(folderOfReport.FullName, "tidy.txt"), lines);
    }

    [Fact]
    public void Text_that_stands_twice_is_counted()
    {
        var lines = string.Join('\n', Enumerable.Range(0, 10).Select(i => $"var a{i} = {i};"));
        Assert.Equal(100, Measures.Repeated([Judge.File("a.cs", lines), Judge.File("b.cs", lines)]));
        Assert.Equal(0, Measures.Repeated([Judge.File("a.cs", lines)]));
    }
}
