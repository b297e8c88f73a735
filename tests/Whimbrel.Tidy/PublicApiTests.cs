using System.Reflection;
using System.Xml.Linq;

namespace Whimbrel.Tidy;

// The public API of each package is a reviewed text file under docs/api. WHIMBREL_ACCEPT_API=1 rewrites the files.
public class PublicApiTests
{
    public static TheoryData<string> Packages()
    {
        var names = Repository.PathsEnding(".csproj")
            .Where(p => p.StartsWith("src/", StringComparison.Ordinal))
            .Where(p => !XDocument.Parse(Repository.Read(p)).Descendants("PackAsTool").Any())
            .Select(p => Path.GetFileNameWithoutExtension(p)).ToList();
        return [.. names.Count > 0 ? names : ["(none yet)"]];
    }

    [Theory, MemberData(nameof(Packages))]
    public void The_public_API_is_the_reviewed_one(string package)
    {
        var dll = Path.Combine(AppContext.BaseDirectory, package + ".dll");
        Assert.SkipUnless(package.StartsWith("Whimbrel", StringComparison.Ordinal),
            "There is no packable project under src/ yet.");
        Assert.True(File.Exists(dll), $"{dll} was not built: src/{package} is not referenced by tests/Whimbrel.Tidy");

        var actual = PublicApi.Of(Assembly.LoadFrom(dll));
        var path = Path.Combine(Repository.Root, "docs/api", package + ".txt");
        if (Environment.GetEnvironmentVariable("WHIMBREL_ACCEPT_API") == "1")
        {
            Directory.CreateDirectory(Path.GetDirectoryName(path)!);
            File.WriteAllText(path, actual);
        }
        var reviewed = File.Exists(path) ? File.ReadAllText(path) : "";
        string[] now = actual.Split('\n'), before = reviewed.Split('\n');
        if (actual != reviewed)
        {
            Assert.Fail($"The public API of {package} is not docs/api/{package}.txt. If that is meant: "
                + $"WHIMBREL_ACCEPT_API=1 ./test --project Whimbrel.Tidy --filter reviewed_one, and review the file.\n"
                + string.Join('\n', before.Except(now).Select(l => "- " + l)
                    .Concat(now.Except(before).Select(l => "+ " + l)).Take(80)));
        }
    }

    [Fact]
    public void The_text_lists_what_a_user_can_call_and_override()
    {
        const string Expected = """
            abstract class Whimbrel.Tidy.PublicApiTests.Sample : IDisposable
                Sample(int count = 3)
                const int Limit
                int Count { get; protected set; }
                object? Tag { get; init; }
                override string ToString()
                protected abstract void Open(ReadOnlySpan<byte> data)
                protected virtual int? Read<T>(T[] items, out string? text)
                virtual void Dispose()

            """;
        Assert.Equal(Expected.ReplaceLineEndings("\n"), PublicApi.Of([typeof(Sample)]));
    }

#pragma warning disable CA1034, CA1063, CA1816, CA1051, CA1822, CA1021 // a sample of many shapes, never used
    public abstract class Sample : IDisposable
    {
        public const int Limit = 1;
        public Sample(int count = 3) => Count = count;
        public int Count { get; protected set; }
        public object? Tag { get; init; }
        public virtual void Dispose() { }
        public override string ToString() => "";
        protected abstract void Open(ReadOnlySpan<byte> data);
        protected virtual int? Read<T>(T[] items, out string? text) { text = ""; return null; }
        internal void Hidden() { }
    }
#pragma warning restore
}
