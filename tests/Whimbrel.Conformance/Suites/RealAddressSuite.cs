using System.Net;
using System.Net.NetworkInformation;
using System.Net.Sockets;

namespace Whimbrel.Conformance;

/// <summary>Addresses that exist only on a real network.</summary>
public abstract class RealAddressSuite(Transport transport) : Suite(transport)
{
    [Fact]
    public void A_link_local_address_is_listened_on_and_connected_to_with_its_scope() => Run(rig =>
    {
        IPAddress? address = NetworkInterface.GetAllNetworkInterfaces()
            .Where(static i => i.OperationalStatus == OperationalStatus.Up)
            .SelectMany(static i => i.GetIPProperties().UnicastAddresses)
            .Select(static a => a.Address)
            .FirstOrDefault(static a =>
                a is { AddressFamily: AddressFamily.InterNetworkV6, IsIPv6LinkLocal: true, ScopeId: not 0 });
        Assert.SkipWhen(address is null, "This machine has no link-local address.");
        RecordingServer server = rig.Serve(null,
            new ServerOptions { Engine = rig.Engine, Address = $"tcp://[{address}]:0" });
        Assert.Equal(address.ScopeId, ((IPEndPoint)server.EndPoint!).Address.ScopeId);
        RecordingSession session = rig.Connect(
            rig.MakeClient(new ClientOptions { Engine = rig.Engine, Address = $"tcp://{server.EndPoint}" }));
        Assert.Equal(server.EndPoint, session.RemoteEndPoint);
        Assert.Equal(address.ScopeId, ((IPEndPoint)session.LocalEndPoint!).Address.ScopeId);
    });

    [Fact]
    public void An_abstract_name_is_listened_on_and_connected_to() => Run(rig =>
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Abstract socket names need Linux.");
        string name = $"unix:@whimbrel-{Guid.NewGuid():N}";
        RecordingServer server = rig.Serve(null, new ServerOptions { Engine = rig.Engine, Address = name });
        RecordingSession session =
            rig.Connect(rig.MakeClient(new ClientOptions { Engine = rig.Engine, Address = name }));
        server.Connected();
        Assert.True(session.IsConnected);
    });

    [Fact]
    public void A_connect_to_IPv6_and_IPv4_uses_whichever_is_served() => Run(rig =>
    {
        Assert.SkipUnless(Socket.OSSupportsIPv6, "This machine has no IPv6.");
        RecordingServer four = rig.Serve(null,
            new ServerOptions { Engine = rig.Engine, Address = "tcp://127.0.0.1:0" });
        RecordingServer six = rig.Serve(null, new ServerOptions { Engine = rig.Engine, Address = "tcp://[::1]:0" });
        foreach (RecordingServer server in (RecordingServer[])[four, six])
        {
            RecordingSession session = rig.Connect(rig.MakeClient(
                new ClientOptions { Engine = rig.Engine, Address = $"tcp://*:{((IPEndPoint)server.EndPoint!).Port}" }));
            Assert.Equal(server.EndPoint, session.RemoteEndPoint);
        }
    });
}
