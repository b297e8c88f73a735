namespace Whimbrel.Docs;

// Common mistakes do not compile, and the diagnostic says what to do.
public class MistakeTests
{
    private static string[] ErrorsOf(string code) => [.. SnippetCompiler.Errors(new Snippet("mistake", 1,
        "given HttpServer web, Func<HttpRequest, bool> isKnown, Func<HttpRequest, ValueTask<int>> count", code), [])];

    [Theory]
    [InlineData("web.Get(\"/\", (request, response) => isKnown(request));")]
    [InlineData("web.Post(\"/\", (request, response) => count(request));")]
    [InlineData("web.Put(\"/\", (request, response) => { return isKnown(request); });")]
    [InlineData("web.Map(\"PURGE\", \"/\", (request, response) => isKnown(request));")]
    [InlineData("web.Map(HttpVerb.Patch, \"/\", (request, response) => count(request));")]
    [InlineData("web.Group(\"/a\").Delete(\"/\", async (request, response) => await count(request) + 1);")]
    [InlineData("web.Use((request, response) => isKnown(request));")]
    [InlineData("web.OnError((request, response, exception) => isKnown(request));")]
    public void A_handler_with_a_result_that_would_be_dropped_does_not_compile(string code)
    {
        Assert.SkipUnless(Repository.HasCore,
            "src/Whimbrel does not exist yet, so there is nothing to compile against.");
        string error = Assert.Single(ErrorsOf(code));
        Assert.Contains("would be dropped", error, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("web.Get(\"/\", (request, response) => { isKnown(request); });")]
    [InlineData("web.Get(\"/\", async (request, response) => await count(request));")]
    [InlineData("web.Get(\"/\", async (request, response, stop) => { await count(request); });")]
    [InlineData("web.Get(\"/\", (request, response) => throw new InvalidOperationException());")]
    [InlineData(
        "web.Use(async (request, response) => { if (!isKnown(request)) response.Fail(401); await Task.Yield(); });")]
    [InlineData("web.OnError(async (request, response, exception) => { await Task.Yield(); response.Fail(500, "
        + "exception.Message); });")]
    public void A_handler_that_discards_its_result_or_returns_a_task_compiles(string code)
    {
        Assert.SkipUnless(Repository.HasCore,
            "src/Whimbrel does not exist yet, so there is nothing to compile against.");
        Assert.Empty(ErrorsOf(code));
    }
}
