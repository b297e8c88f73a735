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

    /// Packages that see internals, and the packages whose internals they see. Calls, Datagrams and Testing are parts
    /// of the core, which were split from it for a smaller API. The dashboard is not: it shows what applications must
    /// not depend on (content of the status socket, all sessions of an engine, nodes of clusters), and a public API for
    /// it alone would be one more to keep.
    private static readonly Dictionary<string, string[]> _insiders = new()
    {
        ["Whimbrel.Calls"] = ["Whimbrel"],
        ["Whimbrel.Dashboard"] = ["Whimbrel", "Whimbrel.Cluster"],
        ["Whimbrel.Datagrams"] = ["Whimbrel"],
        ["Whimbrel.Testing"] = ["Whimbrel", "Whimbrel.Datagrams"],
    };

    /// Packages built on the core use its public API. Only tests, bench and the packages above may access internals,
    /// and each of these packages requires exactly its own version of what it references.
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
        where !IsTest(friend) && !SeesInternals(friend, Path.GetFileNameWithoutExtension(path))
        select new Finding(path, 0,
            $"shows internals to {friend}: if it cannot be built on the public API, the public API is wrong");

    public static IEnumerable<Finding> InsidersHaveOneVersion(string path, string text)
    {
        bool isInsider = _insiders.ContainsKey(Path.GetFileNameWithoutExtension(path)),
            saysSo = XDocument.Parse(text).Descendants("UsesInternals").Any(e => e.Value == "true");
        if (isInsider && !saysSo)
            yield return new Finding(path, 0,
                "does not say UsesInternals: it would accept other versions of packages, whose internals differ");
        if (!isInsider && saysSo)
            yield return new Finding(path, 0,
                "says UsesInternals, and sees none: it would accept one version of its references only");
    }

    private static bool SeesInternals(string friend, string owner) =>
        _insiders.TryGetValue(friend, out string[]? owners) && owners.Contains(owner);

    private static bool IsTest(string friend) =>
        Repository.PathsEnding($"/{friend}.csproj").Any(
            p => p.StartsWith("tests/", StringComparison.Ordinal) || p.StartsWith("bench/", StringComparison.Ordinal));
}
