using System.Globalization;
using Whimbrel.Http.Tests.Programs;

namespace Whimbrel.Tool.Tests;

// The hosts of a broker and three nodes, around a router that can drop the packets of a host: network namespaces and
// veth pairs, with nftables in the router's. Guests are outside and connect by Unix sockets. Needs root, and the
// commands ip and nft.
internal sealed class ClusterNetwork : IAsyncDisposable
{
    private readonly string _name = string.Create(CultureInfo.InvariantCulture,
        $"whimbrel-{Environment.ProcessId}-{Random.Shared.Next(1 << 20):x}");
    private readonly List<string> _spaces = [];

    internal const string BrokerAddress = "10.78.0.2";

    internal static async Task<ClusterNetwork> MakeAsync(params string[] nodes)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux() && Environment.UserName == "root",
            "Network namespaces need root on Linux.");
        RealProgram.Find("ip");
        RealProgram.Find("nft");
        ClusterNetwork network = new();
        try
        {
            await network.AddAsync("router");
            string[] hosts = ["broker", .. nodes];
            for (int i = 0; i < hosts.Length; i++) await network.ConnectAsync(hosts[i], i);
            await InAsync(network.SpaceOf("router"), "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward");
        }
        catch
        {
            await network.DisposeAsync();
            throw;
        }

        return network;
    }

    internal string SpaceOf(string host) => $"{_name}-{host}";

    // Name of the router's end of the cable.
    private static string WayTo(string host) => $"to_{host}";

    // From now on packets from this host are dropped, and packets to it unless the cut is one-way. No error is
    // reported: dropped packets are lost.
    internal Task CutAsync(string host, bool isOneWay = false) => InAsync(
        SpaceOf("router"),
        "nft",
        $"add table inet {WayTo(host)}; add chain inet {WayTo(host)} way {{ type filter hook forward "
        + $"priority 0; policy accept; }}; add rule inet {WayTo(host)} way iifname {WayTo(host)} drop; "
        + $"{(isOneWay ? "" : $"add rule inet {WayTo(host)} way oifname {WayTo(host)} drop;")}");

    internal Task HealAsync(string host) => InAsync(SpaceOf("router"), "nft", $"delete table inet {WayTo(host)}");

    public async ValueTask DisposeAsync()
    {
        // Deleting a namespace deletes its ends of the cables, and with them the other ends.
        foreach (string space in _spaces) await RealProgram.RunAsync("ip", "netns", "delete", space);
        _spaces.Clear();
    }

    private static Task<string> InAsync(string space, params string[] command) =>
        RealProgram.RunAsync("ip", ["netns", "exec", space, .. command]);

    private async Task AddAsync(string host)
    {
        using RealProgram add = RealProgram.Start("ip", "netns", "add", SpaceOf(host));
        await add.EndAsync();
        Assert.SkipUnless(File.Exists($"/var/run/netns/{SpaceOf(host)}"),
            $"No network namespace can be created here: {add.Output.Trim()}");
        _spaces.Add(SpaceOf(host));
        await RealProgram.RunAsync("ip", "-n", SpaceOf(host), "link", "set", "lo", "up");
    }

    // Adds a cable to the router.
    private async Task ConnectAsync(string host, int number)
    {
        string space = SpaceOf(host), router = SpaceOf("router"),
            net = string.Create(CultureInfo.InvariantCulture, $"10.78.{number}");
        await AddAsync(host);
        await RealProgram.RunAsync("ip", "-n", router, "link", "add", "name", WayTo(host), "type", "veth", "peer",
            "name", "cable", "netns", space);
        await RealProgram.RunAsync("ip", "-n", router, "address", "add", $"{net}.1/24", "dev", WayTo(host));
        await RealProgram.RunAsync("ip", "-n", space, "address", "add", $"{net}.2/24", "dev", "cable");
        await RealProgram.RunAsync("ip", "-n", router, "link", "set", "dev", WayTo(host), "up");
        await RealProgram.RunAsync("ip", "-n", space, "link", "set", "dev", "cable", "up");
        await RealProgram.RunAsync("ip", "-n", space, "route", "add", "default", "via", $"{net}.1");
    }
}
