namespace Whimbrel.Compat.Tests.Template;

// UdpServer and UdpClient are written once, here. WHIMBREL_ACCEPT_TEMPLATE=1 writes them.
public sealed class UdpTemplateTests
{
    [Fact]
    public void The_classes_of_UDP_are_what_their_text_makes()
    {
        DirectoryInfo? root = new(AppContext.BaseDirectory);
        while (root is not null && !File.Exists(Path.Combine(root.FullName, "Whimbrel.slnx"))) root = root.Parent;
        Assert.NotNull(root);
        foreach ((string name, string text) in new[] { ("UdpServer", UdpText.Server), ("UdpClient", UdpText.Client) })
        {
            string path = Path.Combine(root.FullName, "src/Whimbrel.Compat/NetCoreServer", name + ".cs");
            if (Environment.GetEnvironmentVariable("WHIMBREL_ACCEPT_TEMPLATE") == "1") File.WriteAllText(path, text);
            Assert.Equal(text, File.ReadAllText(path));
        }
    }
}
