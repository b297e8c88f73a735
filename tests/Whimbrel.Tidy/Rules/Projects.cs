using System.Xml.Linq;

namespace Whimbrel.Tidy.Rules;

// Contents of project files: no packages in the core, versions in one place, internals visible to tests only.
internal static class Projects
{
    public static IEnumerable<Finding> CoreHasNoPackages(string path, string text) =>
        from element in XDocument.Parse(text).Descendants()
        where element.Name.LocalName is "PackageReference" or "FrameworkReference"
        select new Finding(path, 0, $"{element.Name.LocalName} {element.Attribute("Include")?.Value}: the core has no "
            + $"references beyond the runtime");

    public static IEnumerable<Finding> PackagesPinned(string path, string text,
        IReadOnlyDictionary<string, string> pinned)
    {
        if (path.StartsWith("templates/whimbrel-", StringComparison.Ordinal))
        {
            // A project that users receive contains versions itself: ours are filled in when it is packed, the others
            // must be those of our build.
            foreach (var element in XDocument.Parse(text).Descendants("PackageReference"))
            {
                string name = element.Attribute("Include")!.Value,
                    wanted = name.StartsWith("Whimbrel", StringComparison.Ordinal)
                        ? "WHIMBREL_VERSION"
                        : pinned.GetValueOrDefault(name) ?? "one of Directory.Packages.props";
                if (element.Attribute("Version")?.Value != wanted)
                    yield return new Finding(path, 0, $"{name} has not version {wanted}");
            }
            yield break;
        }
        foreach (var element in XDocument.Parse(text).Descendants().Where(e => e.Name.LocalName is "PackageReference"))
        {
            var name = element.Attribute("Include")?.Value ?? element.Attribute("Update")?.Value ?? "";
            if (element.Attribute("Version") is not null || element.Attribute("VersionOverride") is not null)
                yield return new Finding(path, 0,
                    $"{name} carries its own version: Directory.Packages.props holds them all");
            if (!pinned.ContainsKey(name))
                yield return new Finding(path, 0, $"{name} is not pinned in Directory.Packages.props");
        }
    }

    public static Dictionary<string, string> Pinned(string packagesProps) =>
        XDocument.Parse(packagesProps).Descendants()
            .Where(e => e.Name.LocalName is "PackageVersion" && e.Attribute("Include") is not null)
            .ToDictionary(e => e.Attribute("Include")!.Value, e => e.Attribute("Version")!.Value);

    /// Properties common to all packages, including trimming and AOT, are set once. Only the tool, which runs on the
    /// JIT, and what the compiler loads deviate.
    public static IEnumerable<Finding> SaidForAll(string path, string text, string common)
    {
        var all = XDocument.Parse(common).Descendants("PropertyGroup").Elements()
            .ToDictionary(e => e.Name.LocalName, e => e.Value);
        if (all.GetValueOrDefault("IsAotCompatible") != "true")
            yield return new Finding("src/Directory.Build.props", 0, "does not say IsAotCompatible");
        foreach (var element in XDocument.Parse(text).Descendants("PropertyGroup").Elements()
            .Where(e => all.ContainsKey(e.Name.LocalName)))
        {
            if (Path.GetFileName(path) is not ("Whimbrel.Tool.csproj" or "Whimbrel.Analyzers.csproj"
                or "Whimbrel.Compat.Templates.csproj"))
                yield return new Finding(path, 0,
                    $"says {element.Name.LocalName}: src/Directory.Build.props says it for all packages");
        }
    }

    /// Parts of the core that are packages of their own: they were split from it for a smaller API, not for looser
    /// coupling, and have the same version. The dashboard is one, because it shows the content of the status socket.
    private static readonly string[] _parts =
        ["Whimbrel.Calls", "Whimbrel.Dashboard", "Whimbrel.Datagrams", "Whimbrel.Testing"];

    /// Packages built on the core use its public API; only its parts, tests and bench may access internals, and a part
    /// requires exactly its own version of the core.
    public static IEnumerable<Finding> FriendsAreTests(SourceFile file) =>
        file.Root.AttributeLists.SelectMany(l => l.Attributes)
            .Where(a => a.Name.ToString().Split('.')[^1] is "InternalsVisibleTo" or "InternalsVisibleToAttribute")
            .Select(a => (Node: a, Friend: a.ArgumentList!.Arguments[0].ToString().Trim('"').Split(',')[0]))
            .Where(f => !IsTest(f.Friend))
            .Select(f => file.At(f.Node, $"shows internals to {f.Friend}"));

    public static IEnumerable<Finding> FriendsAreTests(string path, string text) =>
        from element in XDocument.Parse(text).Descendants()
        where element.Name.LocalName is "InternalsVisibleTo"
        let friend = element.Attribute("Include")?.Value ?? ""
        where !IsTest(friend)
        select new Finding(path, 0,
            $"shows internals to {friend}: if it cannot be built on the public API, the public API is wrong");

    public static IEnumerable<Finding> PartsHaveOneVersion(string path, string text)
    {
        bool isPart = _parts.Contains(Path.GetFileNameWithoutExtension(path)),
            saysSo = XDocument.Parse(text).Descendants("UsesInternals").Any(e => e.Value == "true");
        if (isPart && !saysSo)
            yield return new Finding(path, 0,
                "does not say UsesInternals: it would accept other versions of the core, whose internals differ");
        if (!isPart && saysSo)
            yield return new Finding(path, 0,
                "says UsesInternals, and sees none: it would accept one version of the core only");
    }

    private static bool IsTest(string friend) =>
        _parts.Contains(friend) || Repository.PathsEnding($"/{friend}.csproj").Any(
            p => p.StartsWith("tests/", StringComparison.Ordinal) || p.StartsWith("bench/", StringComparison.Ordinal));
}
