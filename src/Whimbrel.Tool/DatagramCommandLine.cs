using System.CommandLine;
using System.CommandLine.Parsing;
using System.Net;

namespace Whimbrel.Tool;

/// <summary>Arguments of the datagram commands: serve udp, serve multicast, join, and connect for datagrams.</summary>
internal static class DatagramCommandLine
{
    private const int MaxMulticastBytes = 1400;
    private const int DefaultMulticastRate = 10;

    /// <summary>Names after "serve", for messages.</summary>
    internal const string Kinds = "udp|multicast";

    private static readonly Option<bool> s_stats = new("--stats")
    {
        Description =
            "Print a line on stderr every second: datagrams and MB a second in and out, and drops of the system."
    };
    private static readonly Option<int?> s_loops = CommandLine.Value("--loops", "N",
        "Number of loops that share the port, each with a thread. Default: one per core; 1 for a Unix socket.",
        "a number from 1 to 256", static text => CommandLine.Number(text, 1, 256));
    private static readonly Option<string?> s_listen = CommandLine.Address("--listen", "ADDRESS",
        "Address to receive at: ADDR:PORT such as 0.0.0.0:1111 or *:1111, or udp://ADDR:PORT, or unix:PATH.", "",
        DatagramText.ReadForReceiving);
    private static readonly Option<int?> s_sourceRate = CommandLine.Value("--source-rate",
        "N", "Answered datagrams a second per source, and in a burst; others are dropped and "
            + "counted. A source is an IPv4 address or an IPv6 /64 network. Default: no limit.",
        "a number from 1 to 1000000", static text => CommandLine.Number(text, 1, 1_000_000));
    private static readonly Option<bool> s_noOffload =
        new("--no-offload") { Description = "Disable UDP_GRO and UDP_SEGMENT, for comparisons." };
    private static readonly Option<int?> s_rate = CommandLine.Value("--rate", "N",
        $"Datagrams a second. Default {DefaultMulticastRate}.", "a number from 1 to 1000000",
        static text => CommandLine.Number(text, 1, 1_000_000));
    private static readonly Option<int?> s_size = CommandLine.Value("--size", "BYTES",
        "Bytes of a datagram. Default 32.", $"a number from {PushMessage.MinSize} to {MaxMulticastBytes}",
        static text => CommandLine.Number(text, PushMessage.MinSize, MaxMulticastBytes));
    private static readonly Option<string?> s_interface = new("--interface")
    {
        Description = "Outgoing interface: name, number or address. Default: by the system's routes.",
        HelpName = "NAME"
    };
    private static readonly Option<string[]> s_interfaces = new("--interface")
    {
        Description = "Interface to join at: name, number or address; repeatable. Default: by the system's routes.",
        HelpName = "NAME"
    };
    private static readonly Option<int?> s_hops = CommandLine.Value("--hops", "N",
        "Hop limit. 0: this machine; 1 (default): this network.", "a number from 0 to 255",
        static text => CommandLine.Number(text, 0, 255));
    private static readonly Option<bool> s_noLoopback =
        new("--no-loopback") { Description = "Do not deliver to members on this machine." };
    private static readonly Option<IPAddress?> s_source = CommandLine.Value("--source", "ADDRESS",
        "Receive from this sender only (source-specific multicast). Default: all senders.", "an IP address",
        static text => IPAddress.TryParse(text, out IPAddress? address) ? address : null);
    private static readonly Option<long?> s_count = CommandLine.Value<long?>("--count",
        "N", "End after this number of datagrams.", "a number from 1 to 1000000000",
        static text => CommandLine.Number(text, 1, 1_000_000_000));
    private static readonly Option<bool> s_quiet =
        new("--quiet") { Description = "Count datagrams without printing them." };
    private static readonly Argument<string?> s_group = new("GROUP")
    {
        Arity = ArgumentArity.ExactlyOne,
        Description = $"The group: 239.1.1.1, 239.1.1.1:{CommandLine.DefaultPort}, ff15::1 or "
            + $"[ff15::1]:{CommandLine.DefaultPort}. Default port {CommandLine.DefaultPort}."
    };

    /// <summary>Returns the usage of a command in one line; null for other commands.</summary>
    internal static string? UsageOf(Command command) => command.Name switch
    {
        "udp" => $"whimbrel serve udp [--listen ADDRESS | --port N | --unix PATH] [--source-rate N] [--engine "
            + $"{CommandLine.Engines}] [--loops N] [--no-offload] [--stats] [--for SECONDS]",
        "multicast" => $"whimbrel serve multicast GROUP[:PORT] [--rate N] [--size BYTES] [--interface NAME] [--hops N] "
            + $"[--no-loopback] [--engine {CommandLine.Engines}] [--stats] [--for SECONDS]",
        "join" => $"whimbrel join GROUP[:PORT] [--source ADDRESS] [--interface NAME]... [--count N] [--quiet] "
            + $"[--engine {CommandLine.Engines}] [--stats] [--for SECONDS]",
        _ => null,
    };

    // ------------------------------------------------------------------ commands

    internal static Command ServeUdp()
    {
        Command command = new("udp", "Sends received datagrams back.")
        {
            s_listen,
            CommandLine.Port,
            CommandLine.Unix,
            s_sourceRate,
            CommandLine.Engine,
            s_loops,
            s_noOffload,
            s_stats,
            CommandLine.For
        };
        command.Validators.Add(static result => CommandLine.AllowOnePlace(result, s_listen));
        command.SetAction(static parsed =>
        {
            string text = parsed.GetValue(CommandLine.Unix) ?? parsed.GetValue(s_listen)
                ?? $"127.0.0.1:{parsed.GetValue(CommandLine.Port) ?? CommandLine.DefaultPort}";
            // The option returns the library's form of an address, in which HOST:PORT means TCP.
            if (text.StartsWith("tcp://", StringComparison.Ordinal))
                text = DatagramText.Scheme + text["tcp://".Length..];
            NetworkAddress address = DatagramText.ReadForReceiving(text, out _)!;
            // Only Linux can share a port.
            int loops = OperatingSystem.IsLinux() && address.Scheme != "unix" ? 0 : 1;
            UdpSettings settings = new(address, parsed.GetValue(s_loops) ?? loops, parsed.GetValue(s_sourceRate) ?? 0,
                !parsed.GetValue(s_noOffload));
            return ServeDatagramsCommand.RunUdpAsync(settings, Common(parsed));
        });
        return command;
    }

    internal static Command ServeMulticast()
    {
        Command command = new("multicast",
            "Sends numbered datagrams to a group. Loopback is on, so that members on this machine get them too.")
        {
            s_group, s_rate, s_size, s_interface, s_hops, s_noLoopback, CommandLine.Engine, s_stats, CommandLine.For,
        };
        command.Validators.Add(CheckGroup);
        command.SetAction(static parsed =>
        {
            MulticastSettings settings = new(GroupOf(parsed), parsed.GetValue(s_interface),
                parsed.GetValue(s_hops) ?? 1, !parsed.GetValue(s_noLoopback),
                parsed.GetValue(s_rate) ?? DefaultMulticastRate, parsed.GetValue(s_size) ?? PushMessage.MinSize);
            return ServeDatagramsCommand.RunMulticastAsync(settings, Common(parsed));
        });
        return command;
    }

    internal static Command Join()
    {
        Command command = new("join", "Joins a multicast group and prints its datagrams, until Ctrl-C.")
        {
            s_group, s_source, s_interfaces, s_count, s_quiet, CommandLine.Engine, s_stats, CommandLine.For,
        };
        command.Validators.Add(CheckGroup);
        command.Validators.Add(static result =>
        {
            // Read from the token, because reading the value of an option with an error throws.
            if (result.GetResult(s_source) is not { Tokens: [{ Value: var text }] }
                || !IPAddress.TryParse(text, out IPAddress? source))
                return;
            if (DatagramText.ReadGroup(TextOf(result), CommandLine.DefaultPort, out _) is not { } group) return;
            if (source.AddressFamily != group.AddressFamily)
                result.AddError($"Source {source} and group {group.Address} are of different families.");
        });
        command.SetAction(static parsed =>
        {
            JoinSettings settings = new(GroupOf(parsed), parsed.GetValue(s_source), parsed.GetValue(s_interfaces) ?? [],
                parsed.GetValue(s_count) ?? 0, parsed.GetValue(s_quiet));
            return JoinCommand.RunAsync(settings, Common(parsed));
        });
        return command;
    }

    // ------------------------------------------------------------------ values

    private static DatagramSettings Common(ParseResult parsed) => new(
        parsed.GetValue(CommandLine.Engine) ?? EngineKind.Auto,
        parsed.GetValue(s_stats),
        parsed.GetValue(CommandLine.For) is { } seconds ? TimeSpan.FromSeconds(seconds) : null);

    private static void CheckGroup(CommandResult result)
    {
        if (TextOf(result) is not { Length: > 0 } text) result.AddError("A group is missing.");
        else if (DatagramText.ReadGroup(text, CommandLine.DefaultPort, out string? mistake) is null)
            result.AddError(mistake!);
    }

    private static string TextOf(CommandResult result) =>
        result.GetResult(s_group) is { Tokens: [{ Value: var text }] } ? text : "";

    private static IPEndPoint GroupOf(ParseResult parsed) =>
        DatagramText.ReadGroup(parsed.GetValue(s_group)!, CommandLine.DefaultPort, out _)!;
}
