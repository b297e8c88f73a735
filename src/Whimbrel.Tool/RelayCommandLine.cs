using System.CommandLine;
using Whimbrel.Relays;

namespace Whimbrel.Tool;

/// <summary>Arguments of <c>whimbrel relay</c>.</summary>
internal static class RelayCommandLine
{
    private static readonly Argument<string[]> s_addresses = new("ADDRESS")
    {
        Arity = ArgumentArity.OneOrMore,
        HelpName = "LISTEN TARGET...",
        Description = "Listening address, then target addresses: ADDR:PORT, tcp://HOST:PORT, tls://HOST:PORT or "
            + "unix:PATH. With several targets, the one with the fewest connections is next.",
    };

    private static readonly Option<ProxyHeaderForm?> s_header = CommandLine.Value<ProxyHeaderForm?>("--proxy-protocol",
        "1|2", "Send the client's address to targets in a PROXY header of this version.", "1 or 2",
        static text => text switch { "1" => ProxyHeaderForm.Line, "2" => ProxyHeaderForm.Binary, _ => null });

    private static readonly Option<string[]?> s_proxies = CommandLine.Several(["--from-proxies"], "NETWORK,...",
        "Accept only proxies in these networks, which must send a PROXY header.", static text => MistakeIn(text));

    private static readonly Option<string?> s_targetCa = CommandLine.AuthorityOption("--target-ca", "target");
    private static readonly Option<string?> s_targetPin = CommandLine.PinOption("--target-pin", "target");
    private static readonly Option<string?> s_targetName = CommandLine.NameOption("--target-name", "target");
    private static readonly Option<double?> s_check = CommandLine.Value<double?>("--check",
        "SECONDS", "Interval of health checks, which connect to each target also without clients.",
        "seconds from 0.1 to 3600, or a time such as 500ms", static text => CommandLine.Seconds(text, 0.1, 3600));

    internal static string Usage =>
        $"whimbrel relay LISTEN TARGET... [--check SECONDS] [--target-ca FILE | --target-pin HASH] [--target-name "
        + $"NAME] [--proxy-protocol 1|2] [--from-proxies NETWORK,...] [--tls [--cert FILE --key FILE | --pfx FILE] "
        + $"[--client-ca FILE]] [--engine {CommandLine.Engines}] [--loops N] [--stats] [--status PATH] [--for SECONDS]";

    internal static Command Relay()
    {
        Command command = new("relay",
            "Relays connections until Ctrl-C or SIGTERM; then waits for open ones, ten seconds at most.")
        {
            s_addresses, s_check, s_targetCa, s_targetPin, s_targetName, s_header, s_proxies, CommandLine.Engine,
            CommandLine.Loops, CommandLine.Stats, CommandLine.Status, CommandLine.For,
        };
        foreach (Option option in CommandLine.ServerTls) command.Add(option);
        command.Validators.Add(CommandLine.OneCertificate);
        command.Validators.Add(static result =>
        {
            string[] texts = [.. result.GetResult(s_addresses)?.Tokens.Select(static t => t.Value) ?? []];
            if (texts.Length < 2)
                result.AddError(texts.Length == 0 ? "The listening address is missing." : "A target is missing.");
            for (int i = 0; i < texts.Length; i++)
            {
                string? mistake;
                NetworkAddress? address = i == 0
                    ? AddressText.Read(texts[i], out mistake)
                    : AddressText.ReadForConnecting(texts[i], out mistake);
                if (address is null) result.AddError(mistake!);
            }

            int secure = texts.Skip(1).Count(IsSecure);
            if (secure > 0 && secure < texts.Length - 1)
                result.AddError("Either all targets use tls:// or none: run two relays for both kinds.");
            bool hasCa = result.GetResult(s_targetCa) is not null, hasPin = result.GetResult(s_targetPin) is not null;
            if (hasCa && hasPin)
                result.AddError(
                    "Give --target-ca or --target-pin, not both: a pin identifies the certificate completely.");
            if (secure == 0 && (hasCa || hasPin || result.GetResult(s_targetName) is not null))
                result.AddError("--target-ca, --target-pin and --target-name need tls:// targets.");
        });
        command.SetAction(static async parsed =>
        {
            string[] addresses = [.. parsed.GetValue(s_addresses)!.Select(
                static a => AddressText.Read(a, out _)!.ToString())];
            if (!CommandLine.TryReadServerTls(parsed, addresses[0], out TlsArguments? tls)) return ExitCode.Failed;
            TimeSpan? duration = parsed.GetValue(CommandLine.For) is { } seconds ? TimeSpan.FromSeconds(seconds) : null;
            TlsArguments? targetTls = IsSecure(addresses[1]) ? new TlsArguments(null, null, null, null,
                parsed.GetValue(s_targetCa), parsed.GetValue(s_targetPin), parsed.GetValue(s_targetName), []) : null;
            TimeSpan check =
                parsed.GetValue(s_check) is { } every ? TimeSpan.FromSeconds(every) : Timeout.InfiniteTimeSpan;
            return await RelayCommand.RunAsync(new RelaySettings(addresses[0], addresses[1..],
                targetTls, check, parsed.GetValue(s_header) ?? ProxyHeaderForm.None,
                parsed.GetValue(s_proxies) is { Length: > 0 } proxies ? proxies : null, tls,
                parsed.GetValue(CommandLine.Engine) ?? EngineKind.Auto, parsed.GetValue(CommandLine.Loops) ?? 0,
                parsed.GetValue(CommandLine.Stats), duration)
            { StatusPath = parsed.GetValue(CommandLine.Status) });
        });
        return command;
    }

    private static bool IsSecure(string address) => address.StartsWith("tls://", StringComparison.OrdinalIgnoreCase);

    private static string? MistakeIn(string text)
    {
        try
        {
            TrustedNetworks.Parse(text);
            return null;
        }
        catch (ArgumentException)
        {
            return $"takes networks (10.0.0.0/8), addresses and 'unix', not '{text}'";
        }
    }
}
