namespace Whimbrel.Compat.Tests.Template;

// The classes of HTTP and WebSocket are written once, here, and made for plain connections and for TLS. WHIMBREL_ACCEPT_TEMPLATE=1 writes them.
public sealed class TemplateTests
{
    [Fact]
    public void The_classes_are_what_their_texts_make()
    {
        string folder = Path.Combine(Made.Root, "src/Whimbrel.Compat/NetCoreServer");
        Made.Check(All().Select(each => (Path.Combine(folder, each.Name + ".cs"), each.Text)));
    }

    // A copy may live only under a test that keeps both equal.
    [Fact]
    public void The_programs_over_TLS_are_those_without_it()
    {
        string folder = Path.Combine(Made.Root, "examples/OldPrograms");
        string[] plain = [.. ((string[])["Examples", "Performance"]).SelectMany(f => Directory.GetFiles(Path.Combine(folder, f), "*.cs")).Where(static f => !Path.GetFileName(f).Contains("Https", StringComparison.Ordinal) && !Path.GetFileName(f).Contains("Wss", StringComparison.Ordinal))
            .Where(static f => File.ReadAllText(f).Contains("/*tls:", StringComparison.Ordinal))];
        Assert.Equal(10, plain.Length);
        Made.Check(plain.Select(static f => (Path.Combine(Path.GetDirectoryName(f)!, TlsTwin.Of(Path.GetFileNameWithoutExtension(f)) + ".cs"), TlsTwin.Of(File.ReadAllText(f)))));
    }

    private static IEnumerable<(string Name, string Text)> All()
    {
        foreach (Variant v in (Variant[])[Variant.Plain, Variant.Tls])
        {
            yield return ($"Http{v.S}Server", HttpServerText.Text(v));
            yield return ($"Http{v.S}Session", HttpSessionText.Text(v));
            yield return ($"Http{v.S}Client", HttpClientText.Text(v));
            yield return ($"Http{v.S}ClientEx", HttpClientExText.Text(v));
            yield return ($"Ws{v.S}Server", WsText.Server(v));
            yield return ($"Ws{v.S}Session", WsText.Session(v));
            yield return ($"Ws{v.S}Client", WsText.Client(v));
        }
    }
}
