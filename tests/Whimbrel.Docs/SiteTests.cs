using System.Text.Json;

namespace Whimbrel.Docs;

// docs/site/build up to the Markdown that docfx gets: links, menus and the list for language models. The whole site is
// built and opened in a browser by SiteTests of Whimbrel.Tool.Tests with --deep.
public sealed class SiteTests : IDisposable
{
    private static readonly TimeSpan _limit = TimeSpan.FromMinutes(2);
    private readonly string _folder = Directory.CreateTempSubdirectory("whimbrel-site-").FullName;

    public void Dispose() => Directory.Delete(_folder, recursive: true);

    private string StageFolder => Path.Combine(_folder, "site-stage");

    [Fact]
    public async Task All_pages_are_in_the_menus_and_in_the_list_for_language_models()
    {
        var (code, output) = await BuildAsync(Repository.Root);
        Assert.True(code == 0, output);
        string list = await ReadAsync("llms.txt");
        foreach (string page in Directory.GetFiles(Repository.PathOf("docs/guide"), "*.md"))
        {
            string name = Path.GetFileName(page);
            string row = list.Split('\n').SingleOrDefault(l => l.Contains($"](guide/{name}): ")) ?? "";
            int end = row.IndexOf("): ", StringComparison.Ordinal);
            Assert.True(row.Length > end + 20, $"{name} has no sentence: {row}");
            Assert.True(File.Exists(Path.Combine(StageFolder, "guide", name)), name);
        }

        using var menu = JsonDocument.Parse(await ReadAsync("toc.yml"));
        Assert.Equal(["Guide", "API", "Troubleshooting", "Design", "Reference"], menu.RootElement.GetProperty("items")
            .EnumerateArray().Select(static i => i.GetProperty("name").GetString()!));
    }

    [Fact]
    public async Task A_link_to_a_page_is_adapted_and_a_link_to_a_source_is_text_or_leads_to_the_given_place()
    {
        string copy = CopyPages();
        await File.AppendAllTextAsync(Path.Combine(copy, "docs/guide/tls.md"),
            "\n[Of limits,\nwrapped](../limits.md#x) and [readme](../../README.md), [this](../site/build).\n",
            TestContext.Current.CancellationToken);
        var (code, output) = await BuildAsync(copy);
        Assert.True(code == 0, output);
        Assert.EndsWith(
            "\n[Of limits,\nwrapped](../limits.md#x) and [readme](../index.md), this (`docs/site/build`).\n",
            await ReadAsync("guide/tls.md"), StringComparison.Ordinal);
        (code, output) = await BuildAsync(copy, "--source", "https://example.org/tree");
        Assert.True(code == 0, output);
        Assert.EndsWith("[this](https://example.org/tree/docs/site/build).\n", await ReadAsync("guide/tls.md"),
            StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_broken_link_and_a_page_without_a_place_in_the_menu_fail_the_build()
    {
        string copy = CopyPages();
        await File.AppendAllTextAsync(Path.Combine(copy, "docs/guide/tls.md"), "\n[gone](gone.md)\n",
            TestContext.Current.CancellationToken);
        await File.WriteAllTextAsync(Path.Combine(copy, "docs/guide/extra.md"), "# Extra\n",
            TestContext.Current.CancellationToken);
        var (code, output) = await BuildAsync(copy);
        Assert.Equal(1, code);
        Assert.Contains("docs/guide/tls.md: gone.md does not exist", output, StringComparison.Ordinal);
        Assert.Contains("docs/guide/extra.md is missing in docs/site/contents.txt", output, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("--version", "../up", "--version takes letters, digits, dots and dashes, not '../up'")]
    [InlineData("--source", "main", "--source takes a URL such as https://")]
    [InlineData("--output", "/dev/null/site", "Not a directory: /dev/null")]
    public async Task An_option_that_cannot_be_used_is_named_in_one_line(string option, string value, string expected)
    {
        var (code, output) = await BuildAsync(Repository.Root, option, value);
        Assert.Equal(1, code);
        Assert.Contains(expected, Assert.Single(output.Split('\n', StringSplitOptions.RemoveEmptyEntries)),
            StringComparison.Ordinal);
    }

    private Task<string> ReadAsync(string path) =>
        File.ReadAllTextAsync(Path.Combine(StageFolder, path), TestContext.Current.CancellationToken);

    private Task<(int ExitCode, string Output)> BuildAsync(string root, params string[] more)
    {
        Assert.SkipUnless(Command.Exists("python3"), "python3 is not installed.");
        return Command.RunAsync(root, _limit, "python3", ["-B", Path.Combine(root, "docs/site/build"), "--stage-only",
            "--output", Path.Combine(_folder, "site"), .. more]);
    }

    /// A repository whose pages may be changed: a copy of docs, beside links to all else.
    private string CopyPages()
    {
        string copy = Directory.CreateDirectory(Path.Combine(_folder, "copy")).FullName;
        foreach (string entry in Directory.GetFileSystemEntries(Repository.Root))
        {
            string name = Path.GetFileName(entry);
            if (name != "docs") File.CreateSymbolicLink(Path.Combine(copy, name), entry);
        }

        string docs = Repository.PathOf("docs");
        foreach (string file in Directory.EnumerateFiles(docs, "*", SearchOption.AllDirectories))
        {
            string target = Path.Combine(copy, "docs", Path.GetRelativePath(docs, file));
            Directory.CreateDirectory(Path.GetDirectoryName(target)!);
            File.Copy(file, target);
        }
        return copy;
    }
}
