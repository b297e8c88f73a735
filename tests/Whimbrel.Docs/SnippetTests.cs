namespace Whimbrel.Docs;

// Every C# fence of README.md, of the guide and of the packages' readmes compiles against the assemblies of this build,
// because users copy them.
public class SnippetTests
{
    // A page without code gives a reason: <!-- no snippets: reason -->
    private const string NoSnippets = "<!-- no snippets:";

    // Its programs are files of examples/Gallery, which the tests of Whimbrel.Gallery compile, run and compare.
    private const string Gallery = "docs/guide/gallery.md";

    public static TheoryData<string> Pages()
    {
        var guide = Repository.PathOf("docs/guide");
        var pages = Directory.Exists(guide)
            ? Directory.EnumerateFiles(guide, "*.md", SearchOption.AllDirectories)
                .Select(p => Path.GetRelativePath(Repository.Root, p).Replace('\\', '/')).Order(StringComparer.Ordinal)
            : Enumerable.Empty<string>();
        var readmes = Directory.EnumerateFiles(Repository.PathOf("src"), "PACKAGE.md",
            new EnumerationOptions { RecurseSubdirectories = true, MaxRecursionDepth = 1 })
            .Where(p => File.ReadAllText(p).Contains("```csharp", StringComparison.Ordinal))
            .Select(p => Path.GetRelativePath(Repository.Root, p).Replace('\\', '/')).Order(StringComparer.Ordinal);
        return [.. pages.Where(static page => page != Gallery).Prepend("README.md"), .. readmes];
    }

    [Theory, MemberData(nameof(Pages))]
    public void Every_snippet_of_a_page_compiles(string page)
    {
        Assert.SkipUnless(Repository.HasCore,
            "src/Whimbrel does not exist yet, so there is nothing to compile against.");
        Assert.True(File.Exists(Repository.PathOf(page)), $"{page} does not exist");
        var text = File.ReadAllText(Repository.PathOf(page));
        var snippets = Snippet.Of(page, text).ToList();
        if (snippets.Count == 0)
        {
            Assert.True(text.Contains(NoSnippets, StringComparison.Ordinal),
                $"{page}:1: no C# snippet; if the page needs none, say {NoSnippets} why -->");
            return;
        }
        var errors = snippets.SelectMany((s, i) => SnippetCompiler.Errors(s, snippets.Take(i))).ToList();
        if (errors.Count > 0) Assert.Fail(string.Join('\n', errors));
    }

    [Theory, MemberData(nameof(Pages))]
    public async Task Every_test_of_a_page_passes(string page)
    {
        Assert.SkipUnless(Repository.HasCore,
            "src/Whimbrel does not exist yet, so there is nothing to compile against.");
        var snippets = Snippet.Of(page, File.ReadAllText(Repository.PathOf(page))).ToList();
        for (var i = 0; i < snippets.Count; i++)
        {
            if (snippets[i].Words != Snippet.Test) continue;
            var (errors, assembly) = SnippetCompiler.Compile(snippets[i], snippets.Take(i));
            Assert.True(errors.Count == 0, string.Join('\n', errors));
            Assert.True(await TestRunner.RunAsync(assembly) > 0,
                $"{page}:{snippets[i].Line}: no [Fact] in a snippet of tests");
        }
    }

    [Fact]
    public async Task Tests_of_a_snippet_are_run_with_the_types_before_them()
    {
        var types = new Snippet("a.md", 2, "", "class Echo { public int Say(int n) => n; }");
        var right = new Snippet("a.md", 9, "test", "public class A { [Fact] public void B() => Assert.Equal(1, new "
            + "Echo().Say(1)); [Fact] public async Task C() => await Task.Yield(); }");
        var wrong = right with { Code = right.Code.Replace("Say(1)", "Say(2)", StringComparison.Ordinal) };
        Assert.Equal(2, await TestRunner.RunAsync(SnippetCompiler.Compile(right, [types]).Assembly));
        await Assert.ThrowsAnyAsync<Xunit.Sdk.XunitException>(
            () => TestRunner.RunAsync(SnippetCompiler.Compile(wrong, [types]).Assembly));
        Assert.NotEmpty(SnippetCompiler.Errors(right with { Words = "continues" }, [types]));
    }

    [Fact]
    public void Fences_are_found_with_their_words_and_lines()
    {
        var snippets = Snippet.Of("a.md", "# A\n```csharp members of object\nint n;\n```\n```sh\nls\n```\n- x\n  "
            + "```csharp\n  if (true)\n      return;\n  ```\n").ToList();
        Assert.Equal([new Snippet("a.md", 3, "members of object", "int n;"),
            new Snippet("a.md", 10, "", "if (true)\n    return;")], snippets);
    }

    [Theory]
    [InlineData("", "Console.WriteLine(IPAddress.Loopback);")]
    [InlineData("", "sealed class A { public List<int> Numbers { get; } = []; }")]
    [InlineData("", "#:package Some@1.*\nusing System.Net;\nConsole.WriteLine(IPAddress.Loopback);")]
    [InlineData("members of object", "public override string ToString() => \"a\";")]
    [InlineData("given Socket socket, byte[] bytes", "await socket.SendAsync(bytes);")]
    public void A_right_snippet_compiles(string words, string code) =>
        Assert.Empty(SnippetCompiler.Errors(new Snippet("a.md", 5, words, code), []));

    [Theory]
    [InlineData("", "Console.WriteLine(1);\nint n = \"two\";", "a.md:6: CS0029")]
    [InlineData("", "#:package Some@1.*\nConsole.WriteLine(IPAddress.Loopback);", "a.md:6: CS0103")]
    [InlineData("members of object", "public override string ToText() => \"a\";", "a.md:5: CS0115")]
    [InlineData("given Socket socket", "socket.Whistle();", "a.md:5: CS1061")]
    [InlineData("nonsense", "", "a.md:4: unknown words")]
    // Groups of options: a form that would change a default in place, and a member that only servers have.
    [InlineData("", "_ = new ServerOptions { Limits = { SendBytes = 1 } };", "a.md:5: CS8852")]
    [InlineData("", "_ = new ClientOptions { Socket = new() { Backlog = 1 } };", "a.md:5: CS0117")]
    public void A_wrong_snippet_is_reported_with_its_line(string words, string code, string expected) =>
        Assert.StartsWith(expected, Assert.Single(SnippetCompiler.Errors(new Snippet("a.md", 5, words, code), [])),
            StringComparison.Ordinal);

    [Fact]
    public void A_snippet_may_continue_the_types_of_its_page()
    {
        var first = new Snippet("a.md", 2, "", "new Echo().Run();\nclass Echo { public void Run() { } }");
        var second = new Snippet("a.md", 9, "continues", "new Echo().Run();");
        Assert.Empty(SnippetCompiler.Errors(second, [first]));
        Assert.NotEmpty(SnippetCompiler.Errors(second with { Words = "" }, [first]));
        Assert.Empty(SnippetCompiler.Errors(new Snippet("a.md", 20, "continues", "class Echo { }"), [first, second]));
    }
}
