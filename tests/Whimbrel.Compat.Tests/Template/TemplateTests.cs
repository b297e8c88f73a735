namespace Whimbrel.Compat.Tests.Template;

// Programs of HTTP and WebSocket over TLS are derived from those without TLS. WHIMBREL_ACCEPT_TEMPLATE=1 writes them.
public sealed class TemplateTests
{
    // A copy is permitted only under a test that keeps both equal.
    [Fact]
    public void The_programs_over_TLS_are_those_without_it()
    {
        string folder = Path.Combine(Made.Root, "examples/OldPrograms");
        string[] plain = [.. ((string[])["Examples", "Performance"])
            .SelectMany(f => Directory.GetFiles(Path.Combine(folder, f), "*.cs"))
            .Where(static f => !Path.GetFileName(f).Contains("Https", StringComparison.Ordinal)
                && !Path.GetFileName(f).Contains("Wss", StringComparison.Ordinal))
            .Where(static f => File.ReadAllText(f).Contains("/*tls:", StringComparison.Ordinal))];
        Assert.Equal(10, plain.Length);
        Made.Check(plain.Select(static f => (Path.Combine(Path.GetDirectoryName(f)!,
            TlsTwin.Of(Path.GetFileNameWithoutExtension(f)) + ".cs"), TlsTwin.Of(File.ReadAllText(f)))));
    }
}
