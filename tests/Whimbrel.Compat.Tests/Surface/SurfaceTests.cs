using NetCoreServer;

namespace Whimbrel.Compat.Tests.Surface;

// Every public and protected member of the old libraries exists in the same form, and there are no others.
public sealed class SurfaceTests
{
    private const string NetCoreServerList = "netcoreserver-8.0.7-api.txt";

    // Deliberate differences, as the test prints them, with reasons.
    private static readonly Dictionary<string, string> s_differences = new()
    {
        ["TcpEndpoint: not in the list: override string ToString()"] = "Otherwise a peer has no readable form.",
        ["UdpEndpoint: not in the list: override string ToString()"] = "Otherwise a peer has no readable form.",
    };

    [Fact]
    public void All_members_of_NetCoreServer_exist() =>
        None(Compare("NetCoreServer", NetCoreServerList, Parameters.Named));

    [Fact]
    public void All_members_of_CSharpServer_exist() =>
        None(Compare("CSharpServer", "csharpserver-1.9-api.txt", Parameters.Types));

    [Fact]
    public void The_comparison_finds_what_is_missing_and_what_is_too_much()
    {
        string[] found = [.. Differences("Buffer", typeof(NetCoreServer.Buffer), "class Buffer : object",
            ["long Size {get;}", "void Melt()"])];
        Assert.Contains("Buffer: missing: void Melt()", found);
        Assert.Contains("Buffer: not in the list: void Clear()", found);
        Assert.DoesNotContain("Buffer: missing: long Size {get;}", found);
        Assert.Contains("Buffer: missing: class Buffer : Stream",
            Differences("Buffer", typeof(NetCoreServer.Buffer), "class Buffer : Stream", []));
    }

    [Fact]
    public void The_list_of_the_original_has_all_types_and_members()
    {
        Dictionary<string, (string Head, string[] Members)> list = Surface.Read(NetCoreServerList);
        Assert.Equal(38, list.Count);
        Assert.Equal(1299, list.Sum(static t => t.Value.Members.Length));
    }

    private static void None(List<string> found) => Assert.True(found.Count == 0, string.Join('\n', found));

    private static List<string> Compare(string space, string resource, Parameters parameters)
    {
        Dictionary<string, (string Head, string[] Members)> list = Surface.Read(resource);
        Dictionary<string, Type> ours = typeof(Utilities).Assembly.GetExportedTypes().Where(t => t.Namespace == space)
            .ToDictionary(static t => t.Name);
        List<string> found = [];
        foreach ((string name, (string head, string[] members)) in list)
        {
            if (ours.TryGetValue(name, out Type? type))
                found.AddRange(Differences(name, type, head, members, parameters));
            else found.Add($"{name}: missing");
        }

        found.AddRange(ours.Keys.Except(list.Keys).Select(static name => $"{name}: not in the list"));
        found.AddRange(s_differences.Keys.Where(d => !found.Contains(d) && list.ContainsKey(d.Split(':')[0]))
            .Select(static d => $"no difference any more: {d}").ToArray());
        return [.. found.Where(static f => !s_differences.ContainsKey(f))];
    }

    private static IEnumerable<string> Differences(string name, Type type, string head, string[] members,
        Parameters parameters = Parameters.Named)
    {
        string[] ours = [Surface.HeadOf(type), .. Surface.MembersOf(type, parameters)], theirs = [head, .. members];
        return theirs.Except(ours).Select(m => $"{name}: missing: {m}")
            .Concat(ours.Except(theirs).Select(m => $"{name}: not in the list: {m}"));
    }
}
