namespace Whimbrel.Conformance;

/// <summary>The page of guarantees matches the tests, and each number has a test on each engine.</summary>
public sealed class GuaranteesTests
{
    public static TheoryData<int, string> NumbersAndEngines()
    {
        TheoryData<int, string> rows = [];
        foreach ((int number, _) in Contracts.All)
        {
            foreach (string engine in Contracts.Engines) rows.Add(number, engine);
        }

        return rows;
    }

    [Theory]
    [MemberData(nameof(NumbersAndEngines))]
    public void Every_number_has_a_test_on_every_engine(int number, string engine) =>
        Assert.Contains(Contracts.TestsOf(number).Values, engines => engines.Contains(engine));

    [Fact]
    public void The_page_matches_the_tests()
    {
        string path = Path.Combine(Root(), "docs", "guarantees.md");
        string page = Contracts.Page();
        if (Environment.GetEnvironmentVariable("WHIMBREL_ACCEPT_GUARANTEES") == "1") File.WriteAllText(path, page);
        Assert.True(File.Exists(path), "docs/guarantees.md is missing: run once with WHIMBREL_ACCEPT_GUARANTEES=1");
        Assert.Equal(page, File.ReadAllText(path));
    }

    private static string Root()
    {
        string? folder = AppContext.BaseDirectory;
        while (folder is not null && !File.Exists(Path.Combine(folder, "Whimbrel.slnx")))
            folder = Path.GetDirectoryName(folder);
        return folder ?? throw new InvalidOperationException("The tests do not run inside the repository.");
    }
}
