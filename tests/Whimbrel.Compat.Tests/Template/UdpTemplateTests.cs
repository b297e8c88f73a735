namespace Whimbrel.Compat.Tests.Template;

// UdpServer and UdpClient are written once, here. WHIMBREL_ACCEPT_TEMPLATE=1 writes them.
public sealed class UdpTemplateTests
{
    [Fact]
    public void The_classes_of_UDP_are_what_their_text_makes()
    {
        string folder = Path.Combine(Made.Root, "src/Whimbrel.Compat/NetCoreServer");
        Made.Check([(Path.Combine(folder, "UdpServer.cs"), UdpText.Server), (Path.Combine(folder, "UdpClient.cs"), UdpText.Client)]);
    }
}
