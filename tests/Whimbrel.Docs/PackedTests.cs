using System.IO.Compression;
using System.Reflection;
using System.Reflection.Metadata;
using System.Reflection.PortableExecutable;
using System.Runtime.InteropServices;
using System.Text;
using System.Text.RegularExpressions;
using System.Xml.Linq;

namespace Whimbrel.Docs;

// Contents of the packages that a gallery shows or a debugger needs.
public partial class PackedTests(PackedFeed feed)
{
    private const string Tool = "Whimbrel.Tool", Templates = "Whimbrel.Templates";

    // Every package with all its dependencies. The core has none.
    private static readonly Dictionary<string, string[]> _dependencies = new()
    {
        ["Whimbrel"] = [],
        ["Whimbrel.Acme"] = ["Whimbrel", "Whimbrel.Http"],
        ["Whimbrel.Calls"] = ["Whimbrel"],
        ["Whimbrel.Cluster"] = ["Whimbrel"],
        ["Whimbrel.Cluster.Nats"] = ["Whimbrel.Cluster"],
        ["Whimbrel.Cluster.RabbitMq"] = ["RabbitMQ.Client", "Whimbrel.Cluster"],
        ["Whimbrel.Cluster.Redis"] = ["Whimbrel.Cluster"],
        ["Whimbrel.Compat"] = ["Whimbrel", "Whimbrel.Datagrams", "Whimbrel.Http"],
        ["Whimbrel.Dashboard"] = ["Whimbrel", "Whimbrel.Cluster", "Whimbrel.Http"],
        ["Whimbrel.Datagrams"] = ["Whimbrel"],
        ["Whimbrel.Hosting"] = ["Microsoft.Extensions.Diagnostics.HealthChecks",
            "Microsoft.Extensions.Hosting.Abstractions", "Whimbrel", "Whimbrel.Cluster", "Whimbrel.Http"],
        ["Whimbrel.Http"] = ["Whimbrel"],
        ["Whimbrel.Kestrel"] = ["Microsoft.AspNetCore.App", "Whimbrel"],
        ["Whimbrel.Relays"] = ["Whimbrel"],
        [Templates] = [],
        ["Whimbrel.Testing"] = ["Whimbrel", "Whimbrel.Datagrams"],
        [Tool] = [],
    };

    // Packages that access internals of their dependencies, so that only one version of these fits.
    private static readonly string[] _ofOneVersion = ["Whimbrel.Calls", "Whimbrel.Dashboard", "Whimbrel.Datagrams",
        "Whimbrel.Testing"];

    private static readonly string[] _precompiled = ["Whimbrel", "Whimbrel.Calls", "Whimbrel.Datagrams",
        "Whimbrel.Http"];

    public static TheoryData<string> Packages() => [.. _dependencies.Keys];

    public static TheoryData<string> Libraries() => [.. _dependencies.Keys.Where(p => p is not (Tool or Templates))];

    [Fact]
    public void All_packages_are_packed_and_nothing_else()
    {
        Assert.True(feed.Failure is null, feed.Failure);
        Assert.Equal(_dependencies.Keys.Order(StringComparer.Ordinal), Directory.EnumerateFiles(feed.Feed, "*.nupkg")
            .Select(f => VersionOf().Replace(Path.GetFileName(f), "")).Order(StringComparer.Ordinal));
    }

    [Theory, MemberData(nameof(Packages))]
    public void A_package_has_its_description_and_its_dependencies(string package)
    {
        using var archive = Open(package, "nupkg");
        var about = XDocument.Parse(Text(archive, $"{package}.nuspec")).Root!.Elements().Single();
        string Said(string name) => about.Elements().FirstOrDefault(e => e.Name.LocalName == name)?.Value ?? "";
        Assert.Equal(package, Said("id"));
        Assert.Equal("MIT", Said("license"));
        Assert.Equal("expression",
            about.Elements().Single(e => e.Name.LocalName == "license").Attribute("type")!.Value);
        Assert.Equal("The Whimbrel developers", Said("authors"));
        Assert.NotEqual("Package Description", Said("description"));
        Assert.EndsWith(".", Said("description"), StringComparison.Ordinal);
        Assert.Contains("network", Said("tags").Split(' '));

        Assert.Equal(_dependencies[package], about.Descendants()
            .Where(e => e.Name.LocalName is "dependency" or "frameworkReference")
            .Select(e => (e.Attribute("id") ?? e.Attribute("name"))!.Value).Order(StringComparer.Ordinal));
        Assert.All(about.Descendants().Where(e => e.Name.LocalName == "dependency"
            && e.Attribute("id")!.Value.StartsWith("Whimbrel", StringComparison.Ordinal)),
            e => Assert.Equal(_ofOneVersion.Contains(package) ? $"[{Said("version")}]" : Said("version"),
                e.Attribute("version")!.Value));

        Assert.Equal([0x89, (byte)'P', (byte)'N', (byte)'G'], Bytes(archive, Said("icon"))[..4]);
        AssertPlain(Text(archive, Said("readme")));
    }

    [Theory, MemberData(nameof(Libraries))]
    public void A_library_has_its_documentation_and_its_symbols_and_says_that_it_can_be_trimmed(string package)
    {
        using var archive = Open(package, "nupkg");
        Assert.Equal([$"lib/net10.0/{package}.dll", $"lib/net10.0/{package}.xml"],
            archive.Entries.Select(e => e.FullName).Where(n => n.StartsWith("lib/", StringComparison.Ordinal))
                .Order(StringComparer.Ordinal));
        using var symbols = Open(package, "snupkg");
        using var pdb = MetadataReaderProvider.FromPortablePdbStream(
            new MemoryStream(Bytes(symbols, $"lib/net10.0/{package}.pdb")));
        using var dll = new PEReader(new MemoryStream(Bytes(archive, $"lib/net10.0/{package}.dll")));
        var debug = dll.ReadDebugDirectory();
        var wanted = debug.First(e => e.Type == DebugDirectoryEntryType.CodeView);
        Assert.Equal(new BlobContentId(dll.ReadCodeViewDebugDirectoryData(wanted).Guid, wanted.Stamp),
            new BlobContentId(pdb.GetMetadataReader().DebugMetadataHeader!.Id));
        Assert.Contains(debug, e => e.Type == DebugDirectoryEntryType.Reproducible);

        var metadata = dll.GetMetadataReader();
        var documented = Text(archive, $"lib/net10.0/{package}.xml");
        Assert.All(metadata.TypeDefinitions.Select(metadata.GetTypeDefinition)
            .Where(t => (t.Attributes & TypeAttributes.VisibilityMask) == TypeAttributes.Public),
            t => Assert.Contains($"<member name=\"T:{metadata.GetString(t.Namespace)}.{metadata.GetString(t.Name)}\">",
                documented, StringComparison.Ordinal));
        var said = metadata.GetAssemblyDefinition().GetCustomAttributes()
            .Select(a => Encoding.UTF8.GetString(metadata.GetBlobBytes(metadata.GetCustomAttribute(a).Value))).ToList();
        Assert.Contains(said,
            s => s.Contains("IsTrimmable", StringComparison.Ordinal) && s.Contains("True", StringComparison.Ordinal));
        Assert.Contains(said, s => s.Contains("IsAotCompatible", StringComparison.Ordinal)
            && s.Contains("True", StringComparison.Ordinal));
    }

    [Theory, MemberData(nameof(Libraries))]
    public void Precompiled_packages_contain_the_library_a_second_time_with_machine_code(string package)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux() && RuntimeInformation.OSArchitecture == Architecture.X64,
            "Packages contain machine code on Linux x64 only.");
        using var archive = Open(package, "nupkg");
        string[] wanted = _precompiled.Contains(package) ? [$"runtimes/linux-x64/lib/net10.0/{package}.dll"] : [];
        Assert.Equal(wanted,
            archive.Entries.Select(e => e.FullName).Where(n => n.StartsWith("runtimes/", StringComparison.Ordinal)));
        var (name, size) = MachineCode(archive, $"lib/net10.0/{package}.dll");
        Assert.Equal(0, size);
        foreach (var path in wanted)
        {
            var (its, code) = MachineCode(archive, path);
            // made from the library in lib/, so its symbols and its documentation apply to both
            Assert.Equal(name, its);
            Assert.InRange(code, 1, int.MaxValue);
        }
    }

    private static (Guid Module, int Bytes) MachineCode(ZipArchive archive, string path)
    {
        using var dll = new PEReader(new MemoryStream(Bytes(archive, path)));
        var metadata = dll.GetMetadataReader();
        return (metadata.GetGuid(metadata.GetModuleDefinition().Mvid),
            dll.PEHeaders.CorHeader!.ManagedNativeHeaderDirectory.Size);
    }

    [Fact]
    public void The_tool_brings_everything_that_it_runs_on_and_is_called_whimbrel()
    {
        using var archive = Open(Tool, "nupkg");
        Assert.Contains("name=\"DotnetTool\"", Text(archive, $"{Tool}.nuspec"), StringComparison.Ordinal);
        Assert.Contains("Name=\"whimbrel\" EntryPoint=\"Whimbrel.Tool.dll\"",
            Text(archive, "tools/net10.0/any/DotnetToolSettings.xml"), StringComparison.Ordinal);
        Assert.Superset(
            new HashSet<string>(["System.CommandLine.dll", "HdrHistogram.dll", "Whimbrel.dll", "Whimbrel.Http.dll",
                "Whimbrel.Relays.dll", "Whimbrel.Tool.dll"]),
            archive.Entries.Select(e => e.Name).ToHashSet());
    }

    [Theory, MemberData(nameof(Packages))]
    public void Nothing_in_a_package_names_the_machine_that_built_it(string package)
    {
        Assert.SkipUnless(PackedFeed.Configuration == "Release", "Only Release builds map source folders.");
        string[] folders = [Repository.Root, Environment.GetFolderPath(Environment.SpecialFolder.UserProfile)];
        foreach (var kind in package == Templates ? new[] { "nupkg" } : ["nupkg", "snupkg"])
        {
            using var archive = Open(package, kind);
            foreach (var entry in archive.Entries.Where(e => e.Name.StartsWith("Whimbrel", StringComparison.Ordinal)))
            {
                var bytes = Bytes(archive, entry.FullName);
                foreach (var folder in folders)
                {
                    Assert.True(bytes.AsSpan().IndexOf(Encoding.UTF8.GetBytes(folder + '/')) < 0
                        && bytes.AsSpan().IndexOf(Encoding.Unicode.GetBytes(folder + '/')) < 0,
                        $"{entry.FullName} of {package} names {folder}");
                }
                if (!entry.Name.EndsWith(".pdb", StringComparison.Ordinal)) continue;
                using var provider = MetadataReaderProvider.FromPortablePdbStream(new MemoryStream(bytes));
                var pdb = provider.GetMetadataReader();
                Assert.All(pdb.Documents,
                    d => Assert.StartsWith("/_/", pdb.GetString(pdb.GetDocument(d).Name), StringComparison.Ordinal));
            }
        }
    }

    [Theory]
    [InlineData("# A\n\n<p align=\"center\">x</p>\n")]
    [InlineData("# A\n\n[the guide](docs/guide.md)\n")]
    [InlineData("A\n")]
    public void A_readme_that_a_gallery_would_show_wrongly_is_found(string text) =>
        Assert.ThrowsAny<Xunit.Sdk.XunitException>(() => AssertPlain(text));

    // Galleries do not render HTML tags and cannot resolve relative links.
    private static void AssertPlain(string readme)
    {
        var prose = Code().Replace(readme, "");
        Assert.StartsWith("# ", prose, StringComparison.Ordinal);
        Assert.DoesNotMatch(@"</?[a-zA-Z]", prose);
        Assert.DoesNotMatch(@"\]\((?!https://)", prose);
    }

    private ZipArchive Open(string package, string kind)
    {
        Assert.True(feed.Failure is null, feed.Failure);
        return ZipFile.OpenRead(Assert.Single(Directory.EnumerateFiles(feed.Feed, "*." + kind),
            f => VersionOf().Replace(Path.GetFileName(f), "") == package));
    }

    private static string Text(ZipArchive archive, string path)
    {
        // some begin with a byte order mark
        using var reader = new StreamReader(new MemoryStream(Bytes(archive, path)));
        return reader.ReadToEnd();
    }

    private static byte[] Bytes(ZipArchive archive, string path)
    {
        var entry = archive.GetEntry(path);
        Assert.True(entry is not null,
            $"no '{path}' in a package of {string.Join(", ", archive.Entries.Select(e => e.FullName))}");
        using var from = entry.Open();
        using var into = new MemoryStream();
        from.CopyTo(into);
        return into.ToArray();
    }

    [GeneratedRegex(@"\.\d+\.\d+\.\d+[^/]*\.s?nupkg$")]
    private static partial Regex VersionOf();

    [GeneratedRegex(@"^```.*?^```|`[^`\n]*`", RegexOptions.Singleline | RegexOptions.Multiline)]
    private static partial Regex Code();
}
