using Whimbrel.Compat.Tests.Connections;
using Whimbrel.Compat.Tests.Template;

namespace Whimbrel.Compat.Tests.Differences;

/// <summary>
/// The behaviours of the originals that can be seen from outside, with the value of the original, and the value here
/// where that differs. Each difference has a row in docs/guide/migrate.md.
/// </summary>
public sealed class DifferenceTests
{
    private static readonly Behaviour[] s_still = [.. Defaults.All, .. Builders.All, .. Tools.All];

    private static readonly Behaviour[] s_withCallbacks =
    [
        .. ServerCalls.All, .. SessionCalls.All, .. ClientCalls.All, .. Datagrams.All, .. Messages.All,
        .. LocalAndTls.All, .. CSharpCalls.All,
    ];

    private static readonly Behaviour[] s_all = [.. s_still, .. s_withCallbacks];

    public static TheoryData<string, Scheduling> Cases()
    {
        TheoryData<string, Scheduling> cases = [];
        foreach (Behaviour behaviour in s_all) cases.Add(behaviour.Name, Scheduling.ThreadPool);
        foreach (Behaviour behaviour in s_withCallbacks) cases.Add(behaviour.Name, Scheduling.Inline);
        return cases;
    }

    [Theory]
    [MemberData(nameof(Cases))]
    public void A_behaviour_is_that_of_the_original_or_the_one_that_is_written_down(string name, Scheduling callbacks)
    {
        using Setting setting = new(callbacks);
        Behaviour behaviour = s_all.Single(b => b.Name == name);
        Assert.Equal(behaviour.Here ?? behaviour.Original, behaviour.Run());
    }

    [Fact]
    public void Each_difference_has_a_row_in_the_migration_page_and_names_are_unique()
    {
        string page = File.ReadAllText(Path.Combine(Made.Root, "docs", "guide", "migrate.md"));
        Assert.Equal(s_all.Length, s_all.Select(static b => b.Name).Distinct().Count());
        Assert.InRange(s_all.Length, 1, 108);
        string[] missing = [.. s_all.Where(static b => b.Here is not null && b.Here != b.Original)
            .Where(b => b.Row is null || !page.Contains($"\n| {b.Row}", StringComparison.Ordinal))
            .Select(static b => $"{b.Name}: {b.Row}")];
        Assert.Empty(missing);
        Assert.DoesNotContain(s_all, static b => b.Here == b.Original || (b.Here is null && b.Row is not null));
    }
}
