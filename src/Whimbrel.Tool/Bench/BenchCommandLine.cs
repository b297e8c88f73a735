using System.CommandLine;
using System.CommandLine.Parsing;

namespace Whimbrel.Tool.Bench;

/// <summary>Arguments of <c>whimbrel bench</c>.</summary>
internal static class BenchCommandLine
{
    private static readonly Argument<string?> s_address = new("ADDRESS") { Arity = ArgumentArity.ZeroOrOne };
    private static readonly Option<string[]?> s_connections = Numbers("--connections",
        "Numbers of connections; each is measured for itself. Default 1.", BenchSettings.MostConnections);
    private static readonly Option<string[]?> s_rate = Numbers("--rate",
        $"Messages a second over all connections; each rate is measured for itself. Default "
            + $"{BenchSettings.DefaultRate}.", 10_000_000);
    private static readonly Option<bool> s_closed = new("--closed-loop")
    {
        Description = "Follow each answer by the next message at once, instead of sending at a rate. A pause of the "
            + "server then delays few messages, so latencies look better than they are."
    };
    private static readonly Option<int?> s_inFlight = CommandLine.Value("--in-flight", "N",
        $"Most messages of a connection without an answer; further ones wait, and their latency counts. Default "
            + $"{BenchSettings.DefaultInFlight}, in a closed loop 1.",
        $"a number from 1 to {BenchSettings.MostInFlight}",
        static text => CommandLine.Number(text, 1, BenchSettings.MostInFlight));
    private static readonly Option<int?> s_size = CommandLine.Value<int?>("--size", "BYTES",
        "Bytes of a message. Default 32.", $"a size from 1 to {BenchSettings.MostBytes}, such as 512 or 4KiB",
        static text => UnitText.TryParseBytes(text, out long bytes) && bytes is >= 1 and <= BenchSettings.MostBytes
            ? (int)bytes : null);
    private static readonly Option<double?> s_duration = Time("--duration", "Measured time of a cell. Default 10.",
        0.1);
    private static readonly Option<double?> s_warmUp = Time("--warm-up",
        "Time before it, with the same load, that is not measured. Default 2.", 0);
    private static readonly Option<double?> s_patience = Time("--timeout",
        "Wait for the last answers, and for the first; a datagram is lost after it. Default 5.", 0.01);
    private static readonly Option<int?> s_loops = CommandLine.Value("--loops", "N",
        "Number of threads of the driver. Default 1.", "a number from 1 to 256",
        static text => CommandLine.Number(text, 1, 256));
    private static readonly Option<string?> s_json = CommandLine.Value<string?>("--json", "FILE",
        "Write the report as JSON, for whimbrel plot and other programs; - is stdout.", "a file, or - for stdout",
        static text => text.Length > 0 ? text : null);
    private static readonly Option<int?> s_server = CommandLine.Value<int?>("--server-pid", "PID",
        "Process of the server on this machine: reports its CPU time for each answer (Linux).",
        "the number of a running process",
        static text => CommandLine.Number(text, 1, int.MaxValue) is { } pid && Directory.Exists($"/proc/{pid}")
            ? pid : null);
    private static readonly Option<bool> s_limited = new("--report-limited")
    {
        Description = "Report figures also when the driver was the limit; the report says so."
    };

    /// <summary>Returns the usage of a command in one line; null for other commands.</summary>
    internal static string? UsageOf(Command command)
    {
        bool isOne = command.Parents.Any(static p => p.Name == "bench");
        if (!isOne && command.Name != "bench") return null;
        string kind = isOne ? command.Name : "tcp|tls|ws|http|udp";
        return $"whimbrel bench {kind} ADDRESS [--rate N,... | --closed-loop] [--connections N,...] [--size BYTES] "
            + $"[--duration SECONDS] [--json FILE] (whimbrel bench {(isOne ? kind : "tcp")} --help explains)";
    }

    internal static Command Bench() => new("bench", "Sends a load at a set rate and measures latencies, corrected for "
        + "what a pause of the server delays. Exit code 0: measured; 1: errors, unanswered messages, or interrupted; "
        + "3: refused, because the driver was the limit.")
    {
        One(BenchProtocol.Tcp, "Messages that a TCP server sends back: HOST:PORT or unix:PATH."),
        One(BenchProtocol.Tls, "The same over TLS: HOST:PORT."),
        One(BenchProtocol.Ws, "Binary messages that a WebSocket server sends back: ws://HOST:PORT/PATH or wss://."),
        One(BenchProtocol.Http, "GET, one at a time on each kept connection: http://HOST:PORT/PATH or https://."),
        One(BenchProtocol.Udp, "Datagrams that a server sends back: HOST:PORT."),
    };

    private static Command One(BenchProtocol protocol, string description)
    {
        Command command = new(protocol.ToString().ToLowerInvariant(), description)
        {
            s_address, s_rate, s_closed, s_connections, s_duration, s_warmUp, s_patience, s_loops, CommandLine.Engine,
            s_json, s_server, s_limited,
        };
        if (protocol != BenchProtocol.Http)
        {
            command.Add(s_inFlight);
            command.Add(s_size);
        }

        if (protocol is BenchProtocol.Tls or BenchProtocol.Ws or BenchProtocol.Http)
        {
            foreach (Option option in CommandLine.ClientTls) command.Add(option);
            command.Validators.Add(CommandLine.OneCertificate);
            command.Validators.Add(CommandLine.OneTrust);
        }

        command.Validators.Add(result => Check(result, protocol));
        command.SetAction(async parsed =>
        {
            string address = BenchAddress.Read(protocol, parsed.GetValue(s_address)!, out _)!;
            return CommandLine.TryReadTls(parsed, BenchAddress.IsSecure(address), out TlsArguments? tls)
                ? await BenchCommand.RunAsync(SettingsOf(parsed, protocol, address, tls))
                : ExitCode.Failed;
        });
        return command;
    }

    private static void Check(CommandResult result, BenchProtocol protocol)
    {
        if (result.GetResult(s_address) is not { Tokens: [{ Value: var text }] })
        {
            result.AddError("An address is missing.");
            return;
        }

        if (BenchAddress.Read(protocol, text, out string? mistake) is not { } address) result.AddError(mistake!);
        else if (!BenchAddress.IsSecure(address) && CommandLine.ClientTls.Any(o => CommandLine.IsGiven(result, o)))
            result.AddError(protocol == BenchProtocol.Ws ? "ws:// has no TLS: use wss://."
                : "http:// has no TLS: use https://.");
        if (CommandLine.IsGiven(result, s_closed) && CommandLine.IsGiven(result, s_rate))
            result.AddError("Give --rate or --closed-loop: a closed loop sends when an answer has come.");
        int cells = CountOf(result, s_connections) * CountOf(result, s_rate);
        if (cells > BenchSettings.MostCells)
            result.AddError($"--connections times --rate are {cells} cells, allowed 1 to {BenchSettings.MostCells}.");
        long inFlight = MostOf(result, s_connections) * MostOf(result, s_inFlight);
        if (inFlight > BenchSettings.MostInFlightOfAll)
            result.AddError($"--connections times --in-flight are {inFlight} messages, allowed 1 to "
                + $"{BenchSettings.MostInFlightOfAll}.");
        if (protocol == BenchProtocol.Udp) CheckDatagram(result);
    }

    // From the tokens, because reading the value of an option with an error throws; that error is reported anyway.
    private static long MostOf(CommandResult result, Option option) => result.GetResult(option)?.Tokens
        .SelectMany(static t => t.Value.Split(','))
        .Max(static t => (long?)CommandLine.Number(t, 1, int.MaxValue)) ?? 1;

    private static void CheckDatagram(CommandResult result)
    {
        if (result.GetResult(s_size) is { Tokens: [{ Value: var text }] } && UnitText.TryParseBytes(text, out long size)
            && size is < BenchSettings.LeastDatagramBytes or > DatagramOptions.MaxDatagramBytes)
            result.AddError($"--size of a datagram is {BenchSettings.LeastDatagramBytes} to "
                + $"{DatagramOptions.MaxDatagramBytes}, not '{text}': it begins with a number.");
    }

    private static int CountOf(CommandResult result, Option option) =>
        Math.Max(1, result.GetResult(option)?.Tokens.Sum(static t => t.Value.Split(',').Length) ?? 1);

    private static BenchSettings SettingsOf(ParseResult parsed, BenchProtocol protocol, string address,
        TlsArguments? tls)
    {
        bool isClosed = parsed.GetValue(s_closed);
        return new BenchSettings(protocol, address)
        {
            Engine = parsed.GetValue(CommandLine.Engine) ?? EngineKind.Auto,
            Loops = parsed.GetValue(s_loops) ?? 1,
            Tls = protocol == BenchProtocol.Http && tls is not null ? tls with { Protocols = ["http/1.1"] } : tls,
            Connections = Values(parsed.GetValue(s_connections), 1),
            Rates = Values(parsed.GetValue(s_rate), BenchSettings.DefaultRate),
            IsClosed = isClosed,
            InFlight = protocol == BenchProtocol.Http ? 1
                : parsed.GetValue(s_inFlight) ?? (isClosed ? 1 : BenchSettings.DefaultInFlight),
            SizeBytes = protocol == BenchProtocol.Http ? 1 : parsed.GetValue(s_size) ?? 32,
            WarmUp = TimeSpan.FromSeconds(parsed.GetValue(s_warmUp) ?? 2),
            Duration = TimeSpan.FromSeconds(parsed.GetValue(s_duration) ?? 10),
            Patience = TimeSpan.FromSeconds(parsed.GetValue(s_patience) ?? 5),
            JsonFile = parsed.GetValue(s_json),
            ServerPid = parsed.GetValue(s_server) ?? 0,
            ReportsLimited = parsed.GetValue(s_limited),
        };
    }

    private static int[] Values(string[]? texts, int otherwise) => texts is { Length: > 0 }
        ? [.. texts.Select(static t => CommandLine.Number(t, 1, int.MaxValue)!.Value)]
        : [otherwise];

    private static Option<string[]?> Numbers(string name, string description, int most) =>
        CommandLine.Several([name], "N,...", description, text => CommandLine.Number(text, 1, most) is null
            ? $"takes numbers from 1 to {most}, not '{text}'" : null);

    private static Option<double?> Time(string name, string description, double least) => CommandLine.Value<double?>(
        name, "SECONDS", description, FormattableString.Invariant(
            $"seconds from {least} to 86400, for example 10, or a time such as 2m30s"),
        text => CommandLine.Seconds(text, least, 86_400));
}
