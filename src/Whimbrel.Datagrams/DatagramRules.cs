using System.Net;
using System.Net.Sockets;
using Whimbrel.Linux;

namespace Whimbrel.Datagrams;

/// <summary>Validates the options of a datagram socket. Called once, at start.</summary>
internal static class DatagramRules
{
    /// <summary>Returns the address to bind. Throws with all mistakes.</summary>
    internal static EndPoint Validate(DatagramOptions options, Engine engine, bool isPull)
    {
        OptionErrors errors = new(nameof(DatagramOptions));
        errors.Range(nameof(options.SendLimitBytes), options.SendLimitBytes, 64 * 1024, 1 << 30);
        errors.Range(nameof(options.SendLimitDatagrams), options.SendLimitDatagrams, 1, 1_000_000);
        errors.Range(nameof(options.ReceiveLimitBytes), options.ReceiveLimitBytes, 1, 65_535);
        errors.Range(nameof(options.UnreadLimitBytes), options.UnreadLimitBytes, 64 * 1024, 1 << 30);
        errors.Range(nameof(options.DrainTimeout), options.DrainTimeout, TimeSpan.Zero, TimeSpan.FromHours(1));
        errors.Range(nameof(options.ReceiveBufferBytes), options.ReceiveBufferBytes, 0, 1 << 30);
        errors.Range(nameof(options.SendBufferBytes), options.SendBufferBytes, 0, 1 << 30);
        errors.Range(nameof(options.MulticastHops), options.MulticastHops, 0, 255);
        errors.Range(nameof(options.TypeOfService), options.TypeOfService, 0, 252);
        if (options.TypeOfService % 4 != 0)
            errors.Add($"TypeOfService = {options.TypeOfService}, allowed multiples of 4: the lowest two bits are "
                + $"the system's");
        errors.Defined(nameof(options.Overflow), options.Overflow);
        errors.Defined(nameof(options.Steering), options.Steering);
        errors.Defined(nameof(options.PathMtu), options.PathMtu);
        errors.Range(nameof(options.AnswerLimit), options.AnswerLimit, 0, AnswerBudget.MaxFactor);
        if (options.AnswerLimit > 0 && isPull)
            errors.Add($"AnswerLimit = {options.AnswerLimit}, and a socket without a handler cannot verify addresses");
        if (options.AnswerLimit > 0 && options.RemoteEndPoint is not null)
            errors.Add(
                $"AnswerLimit = {options.AnswerLimit}, and a connected socket has one peer, which it chose itself");
        EndPoint? endPoint = CheckAddresses(errors, options, engine);
        CheckSharing(errors, options, engine, endPoint, isPull);
        CheckGroups(errors, options, endPoint);
        ProcessUpgrade.Check(errors, options.Upgrade, engine);
        if (options.Upgrade is not null && options.RemoteEndPoint is not null)
            errors.Add($"Upgrade = {options.Upgrade.Path}, and a connected socket is its process's own");
        errors.ThrowIfAny();
        return endPoint!;
    }

    private static EndPoint? CheckAddresses(OptionErrors errors, DatagramOptions options, Engine engine)
    {
        EndPoint? local = options.EndPoint is null ? null : EndPointRules.Plain(options.EndPoint);
        EndPoint? remote = options.RemoteEndPoint is null ? null : EndPointRules.Plain(options.RemoteEndPoint);
        if (local is null && remote is null)
            errors.Add("EndPoint is missing: give where to receive, or RemoteEndPoint for a connected socket");
        if (local is InheritedSocket inherited)
        {
            EndPointRules.CheckInherited(errors, nameof(options.EndPoint), inherited, engine, toListen: true,
                SocketType.Dgram);
            local = inherited.LocalEndPoint;
        }
        else if (local is not null) EndPointRules.Check(errors, nameof(options.EndPoint), local, engine);
        if (remote is not null)
        {
            EndPointRules.Check(errors, nameof(options.RemoteEndPoint), remote, engine);
            if (remote is IPEndPoint { Port: 0 }) errors.Add("RemoteEndPoint has port 0, allowed 1 to 65535");
            if (local is not null && local.AddressFamily != remote.AddressFamily
                && local is not IPEndPoint { AddressFamily: AddressFamily.InterNetworkV6 })
                errors.Add($"EndPoint = {local} and RemoteEndPoint = {remote} are of different families");
        }

        foreach (EndPoint? one in new[] { local, remote })
        {
            if (one is not (null or IPEndPoint or UnixDomainSocketEndPoint))
                errors.Add($"{one} is no address of datagrams: give an IPEndPoint or a UnixDomainSocketEndPoint");
        }

        if (local is not null) return local;
        return remote switch
        {
            IPEndPoint { AddressFamily: AddressFamily.InterNetwork } => new IPEndPoint(IPAddress.Any, 0),
            IPEndPoint => new IPEndPoint(IPAddress.IPv6Any, 0),
            UnixDomainSocketEndPoint when !KernelProbe.IsLinux => NoUnixName(errors),
            // Linux provides an abstract name, so that the socket can be answered.
            UnixDomainSocketEndPoint => new UnixDomainSocketEndPoint($"\0whimbrel-{Guid.NewGuid():N}"),
            _ => null,
        };
    }

    private static EndPoint? NoUnixName(OptionErrors errors)
    {
        errors.Add("EndPoint is missing: a connected Unix datagram socket needs a path of its own here, or it "
            + "cannot be answered");
        return null;
    }

    private static void CheckSharing(OptionErrors errors, DatagramOptions options, Engine engine, EndPoint? endPoint,
        bool isPull)
    {
        errors.Range(nameof(options.Loops), options.Loops, 0, Math.Min(256, engine.LoopCount));
        int loops = options.Loops == 0 ? engine.LoopCount : options.Loops;
        if (loops <= 1) return;
        if (isPull) errors.Add($"Loops = {options.Loops}, and a socket without a handler has one loop");
        if (!engine.CanSharePorts) errors.Add($"Loops = {options.Loops}, which needs SO_REUSEPORT of Linux: use 1");
        if (options.RemoteEndPoint is not null)
            errors.Add($"Loops = {options.Loops}, and a connected socket has one loop");
        if (options.EndPoint is InheritedSocket)
            errors.Add($"Loops = {options.Loops}, and a socket of another process has one loop");
        if (endPoint is UnixDomainSocketEndPoint)
            errors.Add($"Loops = {options.Loops}, and a Unix socket has one loop");
    }

    /// <summary>Returns why a socket at this address would receive nothing of a group, or null.</summary>
    internal static string? WhyDeaf(EndPoint? endPoint, MulticastGroup group) =>
        !KernelProbe.IsLinux || endPoint is not IPEndPoint { Address: { } address } || address.Equals(IPAddress.Any)
        || address.Equals(IPAddress.IPv6Any) || MulticastGroup.IsGroup(address)
            ? null
            : $"a socket bound to {address} receives nothing of a group on Linux: bind it to "
                + (address.AddressFamily == AddressFamily.InterNetworkV6 ? "IPAddress.IPv6Any " : "IPAddress.Any ")
                + $"or to {group.Address}, and select the network by the group's Interface";

    private static void CheckGroups(OptionErrors errors, DatagramOptions options, EndPoint? endPoint)
    {
        if (options.Groups is null)
        {
            errors.Add("Groups is null, leave it empty for none");
            return;
        }

        foreach (MulticastGroup? group in options.Groups)
        {
            if (group is null)
            {
                errors.Add("Groups contains null");
                continue;
            }

            try
            {
                group.Check(nameof(options.Groups));
            }
            catch (ArgumentException e)
            {
                errors.Add(e.Message.Split(" (Parameter")[0].TrimEnd('.'));
            }

            if (WhyDeaf(endPoint, group) is { } why) errors.Add($"Groups contains {group}, and {why}");
            if (endPoint is UnixDomainSocketEndPoint)
                errors.Add($"Groups contains {group}, and a Unix socket has no groups");
        }
    }
}
