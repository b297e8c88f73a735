using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;
using Whimbrel.Tidy.Rules;

namespace Whimbrel.Tidy;

// The rules about src/: layers, places of certain code, shape of types. A test after each rule proves that the rule can
// fail.
public class CoreTests
{
    private static readonly Lazy<CodeModel> _core = new(() => new CodeModel(Repository.Sources("src/Whimbrel/")));
    private static readonly Lazy<CodeModel> _all =
        new(() => new CodeModel(Repository.Sources("src/").Where(f => !f.IsIn("src/Whimbrel.Tool/"))));

    [Fact]
    public void Lower_layers_do_not_name_upper_ones() => Judge.None(Layers.Check(_core.Value));

    [Theory]
    [InlineData("src/Whimbrel/Linux/A.cs", "class A { Server s = null!; }", "names Server")]
    [InlineData("src/Whimbrel/Connections/A.cs", "class A { void M(EpollLoop l) { } }", "names EpollLoop")]
    [InlineData("src/Whimbrel/Engines/Portable/A.cs", "class A { EpollLoop l = null!; }",
        "Portable engine names EpollLoop of the Epoll engine")]
    [InlineData("src/Whimbrel/Engines/Epoll/A.cs", "class A { TlsLayer l = null!; }", "which is TLS")]
    [InlineData("src/Whimbrel/Engines/Epoll/A.cs", "class A { int M() => Server.Count; }", "names Server")]
    [InlineData("src/Whimbrel/Engines/Timers.cs", "class Timers { Listener l = null!; }", "names Listener")]
    [InlineData("src/Whimbrel/Connections/Listener.Accept.cs", "class A { EndWait w = null!; }", "names EndWait")]
    [InlineData("src/Whimbrel/Connections/Strand.cs", "class Strand { GroupMembers g = null!; }", "names GroupMembers")]
    public void A_layer_that_looks_up_is_found(string path, string text, string expected) =>
        Judge.Finds(expected, Layers.Check(Judge.Model(
            (path, text),
            ("src/Whimbrel/Server.cs", "class Server { public static int Count; }"),
            ("src/Whimbrel/Tls/TlsLayer.cs", "class TlsLayer { }"),
            ("src/Whimbrel/Connections/Listener.cs", "class Listener { }"),
            ("src/Whimbrel/Connections/EndWait.cs", "class EndWait { }"),
            ("src/Whimbrel/GroupMembers.cs", "class GroupMembers { }"),
            ("src/Whimbrel/Engines/Epoll/EpollLoop.cs", "class EpollLoop { }"))));

    [Fact]
    public void An_unused_exception_from_the_layers_is_found() =>
        Judge.Finds("unused exception for Engines/Completion, Engines/StopWait and PoolSession",
            Layers.Check(Judge.Model(
            ("src/Whimbrel/Engines/Completion.cs", "class Completion { }"))));

    [Theory]
    [InlineData("CONTRIBUTING.md")]
    [InlineData("docs/design/0001-seam-at-completions.md")]
    public void The_pages_say_how_wide_the_seam_of_an_engine_is(string page)
    {
        var members = Repository.Sources("src/Whimbrel/Engines/")
            .Where(static f => f.Path.StartsWith("src/Whimbrel/Engines/Loop.", StringComparison.Ordinal))
            .SelectMany(static f => f.All<MemberDeclarationSyntax>())
            .Where(static m => m is MethodDeclarationSyntax or PropertyDeclarationSyntax).ToList();
        int needed = members.Count(static m => m.Modifiers.Any(SyntaxKind.AbstractKeyword));
        int possible = members.Count(static m => m.Modifiers.Any(SyntaxKind.VirtualKeyword));
        int ofDatagrams = Repository.Sources("src/Whimbrel/Datagrams/IDatagramEngine.cs").Single()
            .All<MethodDeclarationSyntax>().Count();
        Assert.Contains($"{needed} members of `Loop` that every engine has, {possible} that have a default, "
            + $"{ofDatagrams} of `IDatagramEngine`", Repository.Read(page), StringComparison.Ordinal);
    }

    [Fact]
    public void A_property_that_merely_shares_a_name_with_an_upper_type_is_no_use_of_it() =>
        Judge.None(Layers.Check(Judge.Model(
            ("src/Whimbrel/Linux/A.cs", "class A { public int Server; int M() => this.Server; }"),
            ("src/Whimbrel/Server.cs", "class Server { A a = null!; }"))));

    [Fact]
    public void Enums_and_readonly_structs_are_words_for_every_layer() => Judge.None(Layers.Check(Judge.Model(
        ("src/Whimbrel/Linux/A.cs", "class A { Cause c; Reason r; }"),
        ("src/Whimbrel/Reason.cs", "enum Cause { None } readonly record struct Reason(Cause Cause);"))));

    [Fact]
    public void Platform_questions_stand_in_three_files() =>
        Judge.None(Repository.Sources("src/Whimbrel/").SelectMany(Places.PlatformQuestions));

    [Fact]
    public void A_platform_question_elsewhere_is_found() => Judge.Finds("OperatingSystem.IsLinux",
        Places.PlatformQuestions(Judge.File("src/Whimbrel/Server.cs",
            "class Server { bool M() => OperatingSystem.IsLinux(); }")));

    [Fact]
    public void Native_calls_stand_in_Linux_only() =>
        Judge.None(Repository.Sources("src/").SelectMany(Places.NativeCalls));

    [Fact]
    public void A_native_call_elsewhere_is_found() => Judge.Finds("DllImport outside Linux/",
        Places.NativeCalls(Judge.File("src/Whimbrel/Server.cs",
            "class Server { [DllImport(\"libc\")] static extern int getpid(); }")));

    [Fact]
    public void Code_on_a_loop_neither_locks_nor_awaits_nor_allocates_by_LINQ() =>
        Judge.None(Places.HotPath(_all.Value));

    [Theory]
    [InlineData("lock (this) { }", "lock")]
    [InlineData("System.Threading.Tasks.Task.Run(async () => await System.Threading.Tasks.Task.Yield());", "await")]
    [InlineData("System.Linq.Enumerable.Count(new int[1]);", "LINQ")]
    [InlineData("var d = new System.Collections.Concurrent.ConcurrentDictionary<int, int>();", "ConcurrentDictionary")]
    [InlineData("var n = 1; System.Action a = () => System.Console.Write(n);", "captures")]
    public void A_lock_or_await_on_a_loop_is_found(string statement, string expected)
    {
        var text = "class A\n{\n    void M()\n    {\n        " + statement + "\n    }\n}";
        Judge.Finds(expected, Places.HotPath(Judge.Model(("src/Whimbrel/Connections/A.cs", text))));
        Judge.None(Places.HotPath(Judge.Model(("src/Whimbrel/Streams/A.cs", text))));
        var excused = text.Replace("        " + statement,
            "        // tidy: allowed because it runs once at start\n        " + statement, StringComparison.Ordinal);
        Judge.None(Places.HotPath(Judge.Model(("src/Whimbrel/Connections/A.cs", excused))));
    }

    [Fact]
    public void Readers_and_writers_know_no_connection_task_stream_or_clock() =>
        Judge.None(Places.OnlyBytes(_all.Value));

    [Theory]
    [InlineData("Session? s;", "names Session")]
    [InlineData("System.Threading.Tasks.Task? t;", "names Task")]
    [InlineData("System.IO.Stream? s;", "names Stream")]
    [InlineData("long M() => System.Environment.TickCount64;", "names TickCount64")]
    [InlineData("object M() => System.DateTime.UtcNow;", "names UtcNow")]
    public void A_reader_that_knows_more_than_bytes_is_found(string member, string expected)
    {
        (string, string) session = ("src/Whimbrel/Session.cs", "namespace Whimbrel; abstract class Session { }");
        Judge.Finds(expected, Places.OnlyBytes(Judge.Model(session,
            ("src/Whimbrel.Http/Parsing/A.cs", $"using Whimbrel; class A {{ {member} }}"))));
        Judge.None(Places.OnlyBytes(Judge.Model(session,
            ("src/Whimbrel.Http/A.cs", $"using Whimbrel; class A {{ {member} }}"))));
    }

    [Fact]
    public void Classes_are_sealed_unless_meant_for_override() => Judge.None(Shape.Sealed(_all.Value));

    [Fact]
    public void An_open_class_is_found() => Judge.Finds("class Open", Shape.Sealed(
        Judge.Model(("src/Whimbrel/Open.cs", "class Open { } sealed class Shut { } static class Tools { }"))));

    [Fact]
    public void Classes_stand_on_at_most_one_class_of_ours() => Judge.None(Shape.Depth(_all.Value));

    [Fact]
    public void A_deep_class_hierarchy_is_found() => Judge.Finds("C stands on 2",
        Shape.Depth(Judge.Model(("src/Whimbrel/A.cs", "class A { } class B : A { } class C : B { }"))));

    [Fact]
    public void Public_members_are_documented() => Judge.None(Shape.Documented(_all.Value));

    [Theory]
    [InlineData("public class A { }", "A is public and not documented")]
    [InlineData("/// <summary>A.</summary>\npublic class A { public void M() { } }", "A.M is public")]
    [InlineData("/// <summary>A.</summary>\npublic class A { protected virtual int P => 1; }", "A.P is public")]
    [InlineData("/// <summary>A.</summary>\npublic enum A { One }", "A.One is public")]
    public void A_public_member_without_words_is_found(string text, string expected) =>
        Judge.Finds(expected, Shape.Documented(Judge.Model(("src/Whimbrel/A.cs", text))));

    [Fact]
    public void Nothing_hides_the_warning_about_missing_documentation() =>
        Judge.None(Repository.Paths.Where(p => p.StartsWith("src/", StringComparison.Ordinal)
            && (p.EndsWith(".cs", StringComparison.Ordinal) || p.EndsWith("proj", StringComparison.Ordinal))
            || p is ".editorconfig" or "Directory.Build.props")
            .SelectMany(p => Shape.HiddenWarnings(p, Repository.Read(p))));

    [Fact]
    public void A_hidden_documentation_warning_is_found() =>
        Judge.Finds("CS1591", Shape.HiddenWarnings("a.csproj", "<NoWarn>$(NoWarn);CS1591</NoWarn>"));

    [Fact]
    public void Each_type_has_its_file() => Judge.None(Repository.Sources("src/")
        .Where(f => f.Name is not "AssemblyInfo.cs" and not "GlobalUsings.cs").SelectMany(Shape.OneTypePerFile));

    [Theory]
    [InlineData("class Other { }", "called A")]
    [InlineData("class A { } class B { }", "B deserves")]
    public void A_second_class_in_a_file_is_found(string text, string expected) =>
        Judge.Finds(expected, Shape.OneTypePerFile(Judge.File("src/Whimbrel/A.cs", text)));

    [Fact]
    public void A_small_struct_or_enum_may_stand_beside_its_owner() =>
        Judge.None(Shape.OneTypePerFile(Judge.File("src/Whimbrel/A.Receive.cs",
            "partial class A { class Inner { } } enum B { One } struct C { int n; } delegate void D();")));

    [Fact]
    public void Only_parts_of_the_core_tests_and_benchmarks_see_internals() => Judge.None(
        Repository.Sources("src/").SelectMany(Projects.FriendsAreTests)
            .Concat(Repository.PathsEnding(".csproj").Where(p => p.StartsWith("src/", StringComparison.Ordinal))
                .SelectMany(p => Projects.FriendsAreTests(p, Repository.Read(p)))));

    [Fact]
    public void Internals_shown_to_a_package_are_found()
    {
        Judge.Finds("Whimbrel.Http", Projects.FriendsAreTests("a.csproj",
            "<Project><ItemGroup><InternalsVisibleTo Include=\"Whimbrel.Http\" /></ItemGroup></Project>"));
        Judge.Finds("Whimbrel.Http", Projects.FriendsAreTests(Judge.File("a.cs",
            "[assembly: System.Runtime.CompilerServices.InternalsVisibleTo(\"Whimbrel.Http\")]")));
        Judge.None(Projects.FriendsAreTests("a.csproj",
            "<Project><ItemGroup><InternalsVisibleTo Include=\"Whimbrel.Tidy\" /></ItemGroup></Project>"));
        const string ToDashboard =
            "<Project><ItemGroup><InternalsVisibleTo Include=\"Whimbrel.Dashboard\" /></ItemGroup></Project>";
        Judge.None(Projects.FriendsAreTests("src/Whimbrel.Cluster/Whimbrel.Cluster.csproj", ToDashboard));
        Judge.Finds("Whimbrel.Dashboard", Projects.FriendsAreTests("src/Whimbrel.Http/Whimbrel.Http.csproj",
            ToDashboard));
    }

    [Fact]
    public void Packages_that_see_internals_require_the_same_version() => Judge.None(
        Repository.PathsEnding(".csproj").Where(p => p.StartsWith("src/", StringComparison.Ordinal))
            .SelectMany(p => Projects.InsidersHaveOneVersion(p, Repository.Read(p))));

    [Fact]
    public void A_package_of_internals_without_an_exact_version_is_found()
    {
        const string SaysSo = "<Project><PropertyGroup><UsesInternals>true</UsesInternals></PropertyGroup></Project>";
        Judge.Finds("does not say UsesInternals",
            Projects.InsidersHaveOneVersion("src/Whimbrel.Calls/Whimbrel.Calls.csproj", "<Project />"));
        Judge.Finds("sees none", Projects.InsidersHaveOneVersion("src/Whimbrel.Http/Whimbrel.Http.csproj", SaysSo));
        Judge.None(Projects.InsidersHaveOneVersion("src/Whimbrel.Calls/Whimbrel.Calls.csproj", SaysSo));
    }

    [Fact]
    public void The_core_references_no_package() => Judge.None(
        Repository.Paths.Where(p => p == "src/Whimbrel/Whimbrel.csproj")
            .SelectMany(p => Projects.CoreHasNoPackages(p, Repository.Read(p))));

    [Fact]
    public void A_package_in_the_core_is_found() => Judge.Finds("Newtonsoft.Json",
        Projects.CoreHasNoPackages("a.csproj",
            "<Project><ItemGroup><PackageReference Include=\"Newtonsoft.Json\" /></ItemGroup></Project>"));

    [Fact]
    public void Every_package_but_the_tool_is_for_trimming_and_ahead_of_time_compilation() => Judge.None(
        Repository.PathsEnding(".csproj").Where(p => p.StartsWith("src/", StringComparison.Ordinal))
            .SelectMany(p => Projects.SaidForAll(p, Repository.Read(p), Repository.Read("src/Directory.Build.props"))));

    [Fact]
    public void A_package_that_is_not_trimmable_is_found()
    {
        const string Common =
            "<Project><PropertyGroup><IsAotCompatible>true</IsAotCompatible></PropertyGroup></Project>";
        const string Not = "<Project><PropertyGroup><IsAotCompatible>false</IsAotCompatible></PropertyGroup></Project>";
        Judge.Finds("says IsAotCompatible", Projects.SaidForAll("src/Whimbrel.Http/Whimbrel.Http.csproj", Not, Common));
        Judge.Finds("does not say", Projects.SaidForAll("a.csproj", "<Project />", Not));
        Judge.None(Projects.SaidForAll("src/Whimbrel.Tool/Whimbrel.Tool.csproj", Not, Common));
    }
}
