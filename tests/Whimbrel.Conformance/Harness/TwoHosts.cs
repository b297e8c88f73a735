using System.Diagnostics;
using System.Globalization;
using System.Net;

namespace Whimbrel.Conformance;

/// <summary> Two hosts with two cables between them, and optionally a router: network namespaces and veth pairs that
/// the test creates and removes. A rig with one loop can be placed on a host. Needs root and the command ip. </summary>
internal sealed class TwoHosts : IDisposable
{
    private readonly string _name = $"whimbrel-{Environment.ProcessId}-{Random.Shared.Next(1 << 20):x}";
    private readonly List<string> _spaces = [];

    internal TwoHosts(bool routed = false)
    {
        LoopRoom.SkipUnlessRoot();
        try
        {
            A = AddSpace("a");
            B = AddSpace("b");
            if (routed) Route();
            else Cable();
        }
        catch
        {
            Dispose();
            throw;
        }
    }

    internal string A { get; }

    internal string B { get; }

    /// <summary>Only with a router.</summary>
    internal string Router { get; private set; } = "";

    // Host A has .1, host B has .2, and the third byte is the number of the cable.
    internal static IPAddress AddressOfA(int cable = 0) => new([10, 77, (byte)cable, 1]);

    internal static IPAddress AddressOfB(int cable = 0) => new([10, 77, (byte)cable, 2]);

    /// <summary>A second address of host A on cable 0.</summary>
    internal static IPAddress OtherAddressOfA { get; } = new([10, 77, 0, 11]);

    internal static IPAddress V6OfB { get; } = IPAddress.Parse("fd77::2");

    /// <summary>Index of an interface, which a loop on that host must use: names are resolved off the loop, on the
    /// test's host.</summary>
    internal static string NumberOf(string space, string device) =>
        Leading(Ip("-n", space, "-o", "link", "show", device));

    /// <summary>Runs the command ip, which must succeed.</summary>
    internal static string Ip(params string[] arguments)
    {
        (int code, string output) = Execute("ip", arguments);
        Assert.True(code == 0, $"ip {string.Join(' ', arguments)}: {output}");
        return output;
    }

    internal static (int Code, string Output) Execute(string command, params string[] arguments)
    {
        ProcessStartInfo start =
            new(command, arguments) { RedirectStandardOutput = true, RedirectStandardError = true };
        using Process process = Process.Start(start)!;
        Task<string> errors = process.StandardError.ReadToEndAsync();
        string output = process.StandardOutput.ReadToEnd();
        process.WaitForExit();
        return (process.ExitCode, output + errors.GetAwaiter().GetResult());
    }

    internal static bool Exists(string command) =>
        (Environment.GetEnvironmentVariable("PATH") ?? "").Split(Path.PathSeparator).Append("/usr/sbin")
            .Any(f => File.Exists(Path.Combine(f, command)));

    public void Dispose()
    {
        // Deleting a namespace deletes its ends of the cables, and with them the other ends.
        foreach (string space in _spaces) Execute("ip", "netns", "delete", space);
        _spaces.Clear();
    }

    private string AddSpace(string suffix)
    {
        Assert.SkipUnless(Exists("ip"), "The test needs the command ip (Debian: iproute2).");
        string space = $"{_name}-{suffix}";
        (int code, string output) = Execute("ip", "netns", "add", space);
        Assert.SkipUnless(code == 0, $"No network namespace can be created here: {output.Trim()}");
        _spaces.Add(space);
        Ip("-n", space, "link", "set", "lo", "up");
        return space;
    }

    private void Cable()
    {
        for (int cable = 0; cable < 2; cable++)
        {
            Connect(A, $"a{cable}", B, $"b{cable}");
            AddAddress(A, $"{AddressOfA(cable)}/24", $"a{cable}");
            AddAddress(B, $"{AddressOfB(cable)}/24", $"b{cable}");
        }

        AddAddress(A, $"{OtherAddressOfA}/24", "a0");
        // nodad: otherwise an address cannot be used for a second.
        AddAddress(A, "fd77::1/64", "a0", "nodad");
        AddAddress(B, $"{V6OfB}/64", "b0", "nodad");
    }

    /// <summary>A, a router, B; the MTU of the router towards B is 1,280 bytes.</summary>
    private void Route()
    {
        Router = AddSpace("r");
        Connect(A, "a0", Router, "r0");
        Connect(B, "b1", Router, "r1");
        AddAddress(A, $"{AddressOfA(0)}/24", "a0");
        AddAddress(Router, $"{AddressOfB(0)}/24", "r0");
        AddAddress(Router, $"{AddressOfA(1)}/24", "r1");
        AddAddress(B, $"{AddressOfB(1)}/24", "b1");
        Ip("-n", A, "route", "add", "default", "via", $"{AddressOfB(0)}");
        Ip("-n", B, "route", "add", "default", "via", $"{AddressOfA(1)}");
        Ip("-n", Router, "link", "set", "r1", "mtu", "1280");
        Ip("netns", "exec", Router, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward");
    }

    private static void Connect(string one, string device, string other, string otherDevice)
    {
        Ip("-n", one, "link", "add", device, "type", "veth", "peer", "name", otherDevice, "netns", other);
        Ip("-n", one, "link", "set", device, "up");
        Ip("-n", other, "link", "set", otherDevice, "up");
        UntilUp(one, device);
        UntilUp(other, otherDevice);
    }

    /// <summary>Waits until the link has a carrier, because data sent before is lost.</summary>
    internal static void UntilUp(string space, string device)
    {
        long start = Stopwatch.GetTimestamp();
        while (!Ip("-n", space, "-o", "link", "show", device).Contains("state UP", StringComparison.Ordinal))
        {
            Assert.True(Stopwatch.GetElapsedTime(start).TotalSeconds < 20, $"{device} did not come up");
        }
    }

    internal static void AddAddress(string space, string address, string device, params string[] more) =>
        Ip(["-n", space, "address", "add", address, "dev", device, .. more]);

    private static string Leading(string text)
    {
        string first = text[..text.IndexOf(':', StringComparison.Ordinal)];
        return int.Parse(first, CultureInfo.InvariantCulture).ToString(CultureInfo.InvariantCulture);
    }
}
