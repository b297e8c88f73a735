namespace Whimbrel.Compat.Tests.Template;

// Programs over TLS and Unix sockets are derived from those over TCP. WHIMBREL_ACCEPT_TEMPLATE=1 writes them.
public sealed class ProgramTwinTests
{
    // A copy is permitted only under a test that keeps both equal.
    [Fact]
    public void CSharpServers_programs_over_TLS_are_those_without_it() =>
        Check("examples/OldPrograms/CSharp", 6, "Ssl");

    [Fact]
    public void NetCoreServers_programs_over_TLS_and_Unix_sockets_are_those_over_TCP()
    {
        Check("examples/OldPrograms/Examples", 2, ProgramTwin.Families);
        Check("examples/OldPrograms/Performance", 4, ProgramTwin.Families);
    }

    private static void Check(string folder, int count, params string[] families)
    {
        string[] plain = [.. Directory.GetFiles(Path.Combine(Made.Root, folder), "Tcp*.cs",
            SearchOption.AllDirectories)];
        Assert.Equal(count, plain.Length);
        Made.Check(plain.SelectMany(p => families.Select(f => (Path.Combine(Path.GetDirectoryName(p)!,
            ProgramTwin.NameOf(Path.GetFileName(p), f)), ProgramTwin.Of(File.ReadAllText(p), f)))));
    }
}
