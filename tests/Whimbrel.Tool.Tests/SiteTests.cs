using System.Diagnostics;
using Whimbrel.Http;

namespace Whimbrel.Tool.Tests;

// The documentation site as a reader meets it. It takes minutes on a busy machine; SiteTests of Whimbrel.Docs checks
// links and menus in each run.
public class SiteTests
{
    private static readonly TimeSpan _limit = TimeSpan.FromMinutes(15);

    [Fact]
    public async Task The_site_has_a_page_with_search_dark_mode_versions_and_a_Markdown_twin()
    {
        Assert.SkipUnless(Depth.IsDeep, "Builds the whole site: ./test --deep");
        using var folder = new TemporaryFolder();
        string site = Path.Combine(folder.Path, "site");
        await BuildAsync("--output", site);
        await using HttpServer web = new("http://127.0.0.1:0");
        web.Files("/", site);
        await web.StartAsync();
        await using Browser browser = await Browser.StartAsync();
        await browser.SchemeAsync("dark");
        string root = $"http://{web.EndPoint}/0.1.0";

        await browser.OpenAsync($"{root}/guide/tls.html");
        await browser.UntilAsync("document.querySelector('article h1')?.innerText === 'TLS'");
        await browser.UntilAsync("document.documentElement.getAttribute('data-bs-theme') === 'dark'");
        await browser.UntilAsync("document.querySelector('#versions')?.value === '0.1.0'");
        await browser.UntilAsync("document.querySelector('.markdown-twin')");
        Assert.StartsWith("# TLS\n", await browser.EvaluateAsync(
            "fetch(document.querySelector('.markdown-twin').href).then(r => r.text())"), StringComparison.Ordinal);
        Assert.Equal("true", await browser.EvaluateAsync("fetch('../llms.txt').then(r => r.ok)"));

        await browser.OpenAsync($"{root}/api/Whimbrel.Session.html");
        await browser.UntilAsync("document.querySelector('#Whimbrel_Session_IdleTimeout')");
        await browser.UntilAsync("(() => { const box = document.querySelector('#search-query');"
            + " if (!box || box.disabled) return false; box.value = 'back-pressure';"
            + " box.dispatchEvent(new Event('input', { bubbles: true }));"
            + " return document.querySelectorAll('#search-results a').length > 0; })()");
    }

    private static async Task BuildAsync(params string[] arguments)
    {
        OtherProgram.Needs("python3", "chromium");
        string root = SourceTree.Root;
        string script = Path.Combine(root, "docs/site/build");
        using Process process = OtherProgram.Start("python3", ["-B", script, .. arguments]);
        process.StandardInput.Close();
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(TestContext.Current.CancellationToken);
        limit.CancelAfter(_limit);
        Task<string> output = process.StandardOutput.ReadToEndAsync(limit.Token);
        Task<string> errors = process.StandardError.ReadToEndAsync(limit.Token);
        try
        {
            await process.WaitForExitAsync(limit.Token);
        }
        finally
        {
            process.Kill(entireProcessTree: true);
        }
        string said = await output + await errors;
        Assert.SkipWhen(said.Contains("docfx could not be installed", StringComparison.Ordinal),
            "docfx cannot be installed: the package server is not reachable.");
        Assert.True(process.ExitCode == 0, said);
    }
}
