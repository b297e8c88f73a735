using System.CommandLine;
using System.CommandLine.Parsing;
using System.Globalization;
using System.Net;
using Whimbrel.Tool.Doctor;

namespace Whimbrel.Tool;

/// <summary>The words of the tool: commands, options, what their values may be, and how to say what would be right.</summary>
internal static class CommandLine
{
    internal const int DefaultPort = 1111;
    private const int MaxBroadcastBytes = 32 * 1024;

    private static readonly string s_engines = string.Join('|', Enum.GetNames<EngineKind>()).ToLowerInvariant();
    private static readonly string s_schemes = string.Join('|', Enum.GetNames<AcceptScheme>()).ToLowerInvariant();
    private static readonly string s_kinds = $"{string.Join('|', Enum.GetNames<ServeKind>()).ToLowerInvariant()}|{DatagramCommandLine.Kinds}";

    private static readonly Option<string?> s_listen = Listen("--listen", "ADDRESS", "Where to listen: ADDR:PORT such as 0.0.0.0:1111 or *:1111, or tcp://ADDR:PORT, or unix:PATH.", "");
    private static readonly Option<int?> s_port = Value("--port", "N", $"Listen at 127.0.0.1 and this port; 0 takes a free one. Default {DefaultPort}.", "a port from 0 to 65535", static text => Number(text, 0, IPEndPoint.MaxPort));
    private static readonly Option<string?> s_unix = Listen("--unix", "PATH", "Use a Unix socket; @NAME is an abstract name of Linux.", "unix:");
    private static readonly Option<EngineKind?> s_engine = Value("--engine", s_engines, "Which engine. Default auto: the best that works here, or what WHIMBREL_ENGINE says.", s_engines, static text => Word<EngineKind>(text));
    private static readonly Option<int?> s_loops = Value("--loops", "N", "Number of loops, each with a thread. Default: one for each core.", "a number from 1 to 256", static text => Number(text, 1, 256));
    private static readonly Option<AcceptScheme?> s_accept = Value("--accept", s_schemes, "One listener for all loops, or one for each. Default auto.", s_schemes, static text => Word<AcceptScheme>(text));
    private static readonly Option<Scheduling?> s_scheduling = Value("--scheduling", "inline|pool", "Where callbacks run: on their loop (default) or on the thread pool.", "inline or pool", static text => text switch { "inline" => Scheduling.Inline, "pool" => Scheduling.ThreadPool, _ => (Scheduling?)null });
    private static readonly Option<bool> s_stats = new("--stats") { Description = "A line on stderr every second: connections, messages or receives, MB/s in and out." };
    private static readonly Option<double?> s_for = Value<double?>("--for", "SECONDS", "Drain and end by itself after this time.", "seconds, for example 10 or 0.5", static text => double.TryParse(text, NumberStyles.AllowDecimalPoint, CultureInfo.InvariantCulture, out double seconds) && seconds is > 0 and <= 1e8 ? seconds : null);
    private static readonly Option<int?> s_rate = Value("--rate", "N", "Messages a second. Default: as many as go.", "a number from 1 to 1000000000", static text => Number(text, 1, 1_000_000_000));
    private static readonly Option<int?> s_size = Value("--size", "BYTES", "Bytes of a message. Default 32.", $"a number from {PushMessage.MinSize} to {MaxBroadcastBytes}", static text => Number(text, PushMessage.MinSize, MaxBroadcastBytes));
    private static readonly Option<int?> s_batch = Value("--batch", "N", "Whole messages in one broadcast. Default 1.", "a number from 1 to 256", static text => Number(text, 1, 256));
    private static readonly Argument<string?> s_address = new("ADDRESS") { Arity = ArgumentArity.ZeroOrOne, Description = "Where to connect: HOST:PORT, tcp://HOST:PORT or unix:PATH. IPv6 addresses stand in brackets: [::1]:1111. The port may be the name of a service." };

    private static readonly Option<bool> s_json = new("--json") { Description = "One JSON object instead of lines." };
    private static readonly Option<string?> s_app = Value<string?>("--app", "PROGRAM", "Whose garbage collector to look at: PROGRAM.dll, or its .runtimeconfig.json.", "a program that has a .runtimeconfig.json beside it", static text => RuntimeConfigOf(text));
    private static readonly Option<int?> s_probedPort = Value("--port", "N", "Also see whether a server could listen at this port, by doing so for a moment.", "a port from 1 to 65535", static text => Number(text, 1, IPEndPoint.MaxPort));
    private static readonly Option<bool> s_udp = new("--udp") { Description = "Datagrams: each line is one. So does an address that begins with udp://." };

    // For the commands on datagrams, which are in a file of their own.
    internal static Option<int?> Port => s_port;

    internal static Option<string?> Unix => s_unix;

    internal static Option<EngineKind?> Engine => s_engine;

    internal static Option<double?> For => s_for;

    internal static string Engines => s_engines;

    internal static RootCommand Create()
    {
        RootCommand root = new(
            """
            Servers and a client on the Whimbrel networking library.

            For measurements: while it serves, the signal SIGUSR1 prints "allocated BYTES" (all that was ever allocated on the
            managed heap) and SIGUSR2 collects garbage, gives memory back to the system and prints "collected", both on stdout.
            """)
        {
            Serve(),
            Connect(),
            Doctor(),
            DatagramCommandLine.Join(),
        };
        return root;
    }

    /// <summary>What is wrong, in one sentence: the word that was not understood, if there is one, before what is missing because of it.</summary>
    internal static string WrongIn(ParseResult parsed)
    {
        if (parsed.UnmatchedTokens.Count > 0) return $"'{parsed.UnmatchedTokens[0]}' is not known here.";
        bool lacksCommand = parsed.CommandResult.Command.Subcommands.Count > 0;
        return lacksCommand ? "A command is missing." : parsed.Errors[0].Message;
    }

    /// <summary>How a command is used, in one line.</summary>
    internal static string UsageOf(Command command) => DatagramCommandLine.UsageOf(command) ?? command.Name switch
    {
        "serve" => $"whimbrel serve {s_kinds} [options] (whimbrel serve --help explains)",
        "connect" => "whimbrel connect HOST:PORT, whimbrel connect tcp://HOST:PORT, whimbrel connect unix:PATH or whimbrel connect udp://HOST:PORT",
        "push" => $"whimbrel serve push {CommonUsage} [--rate N] [--size BYTES] [--batch N]",
        "doctor" => "whimbrel doctor [--json] [--loops N] [--app PROGRAM.dll] [--port N]",
        _ when command is RootCommand => $"whimbrel serve {s_kinds}, whimbrel connect HOST:PORT, or whimbrel doctor (whimbrel --help explains)",
        _ => $"whimbrel serve {command.Name} {CommonUsage}",
    };

    private static string CommonUsage => $"[--listen ADDRESS | --port N | --unix PATH] [--engine {s_engines}] [--loops N] [--accept {s_schemes}] [--scheduling inline|pool] [--stats] [--for SECONDS]";

    // ------------------------------------------------------------------ commands

    private static Command Serve() => new("serve", "Runs a server until Ctrl-C or SIGTERM, then drains and prints totals.")
    {
        ServeOne(ServeKind.Echo, "Sends back what it receives."),
        ServeOne(ServeKind.Discard, "Reads and throws away."),
        ServeOne(ServeKind.Chat, "What one types, all others see. /help lists its commands."),
        ServeOne(ServeKind.Push, "Sends numbered messages to every client.", s_rate, s_size, s_batch),
        ServeOne(ServeKind.Groups, "For measurements: clients join groups and broadcast to them, in messages of 32 bytes."),
        DatagramCommandLine.ServeUdp(),
        DatagramCommandLine.ServeMulticast(),
    };

    private static Command ServeOne(ServeKind kind, string description, params Option[] more)
    {
        Command command = new(kind.ToString().ToLowerInvariant(), description);
        foreach (Option option in (Option[])[s_listen, s_port, s_unix, s_engine, s_loops, s_accept, s_scheduling, s_stats, s_for, .. more]) command.Add(option);
        command.Validators.Add(static result => AllowOnePlace(result, s_listen));
        if (kind == ServeKind.Push)
        {
            command.Validators.Add(static result =>
            {
                int bytes = NumberOr(PushMessage.MinSize, result, s_size) * NumberOr(1, result, s_batch);
                if (bytes > MaxBroadcastBytes) result.AddError($"--size times --batch is {bytes} bytes, and one broadcast has at most {MaxBroadcastBytes}.");
            });
        }

        command.SetAction(parsed => ServeCommand.RunAsync(SettingsOf(kind, parsed)));
        return command;
    }

    private static ServeSettings SettingsOf(ServeKind kind, ParseResult parsed)
    {
        string address = parsed.GetValue(s_unix) ?? parsed.GetValue(s_listen) ?? $"tcp://127.0.0.1:{parsed.GetValue(s_port) ?? DefaultPort}";
        PushSettings push = kind == ServeKind.Push
            ? new PushSettings(parsed.GetValue(s_rate) ?? 0, parsed.GetValue(s_size) ?? PushMessage.MinSize, parsed.GetValue(s_batch) ?? 1)
            : default;
        TimeSpan? duration = parsed.GetValue(s_for) is { } seconds ? TimeSpan.FromSeconds(seconds) : null;
        return new ServeSettings(kind, address, parsed.GetValue(s_engine) ?? EngineKind.Auto, parsed.GetValue(s_loops) ?? 0, parsed.GetValue(s_accept) ?? AcceptScheme.Auto, parsed.GetValue(s_scheduling) ?? Scheduling.Inline, parsed.GetValue(s_stats), duration, push);
    }

    private static Command Connect()
    {
        Command command = new("connect", "Sends the lines of stdin and prints what comes back. Ctrl-C or the end of the input closes.") { s_address, s_unix, s_udp, s_engine };
        command.Validators.Add(static result =>
        {
            bool hasAddress = result.GetResult(s_address) is { Tokens.Count: > 0 };
            if (hasAddress == IsGiven(result, s_unix))
            {
                result.AddError(hasAddress ? "Give an address or --unix, not both." : "An address is missing.");
            }
            else if (hasAddress)
            {
                string text = result.GetValue(s_address)!;
                string? mistake;
                NetworkAddress? address = IsDatagrams(result.GetValue(s_udp), text) ? DatagramText.ReadForSending(text, out mistake) : AddressText.ReadForDialling(text, out mistake);
                if (address is null) result.AddError(mistake!);
            }
        });
        command.SetAction(static parsed =>
        {
            string text = parsed.GetValue(s_unix) ?? parsed.GetValue(s_address)!;
            EngineKind engine = parsed.GetValue(s_engine) ?? EngineKind.Auto;
            return IsDatagrams(parsed.GetValue(s_udp), text)
                ? ConnectDatagramsCommand.RunAsync(DatagramText.ReadForSending(text, out _)!, new DatagramSettings(engine, Stats: false, Duration: null))
                : ConnectCommand.RunAsync(AddressText.Read(text, out _)!.ToString(), engine);
        });
        return command;
    }

    private static Command Doctor()
    {
        Command command = new("doctor", "Looks at this system and says what slows a server down, with the command that changes it. Exit code 0: nothing to advise; 1: at least one advice.") { s_json, s_loops, s_app, s_probedPort };
        command.SetAction(static parsed => DoctorCommand.RunAsync(parsed.GetValue(s_loops) ?? 0, parsed.GetValue(s_app), parsed.GetValue(s_probedPort), parsed.GetValue(s_json)));
        return command;
    }

    private static bool IsDatagrams(bool isAsked, string address) => isAsked || DatagramText.IsDatagrams(address);

    // ------------------------------------------------------------------ values

    internal static void AllowOnePlace(CommandResult result, Option listen)
    {
        int places = (IsGiven(result, listen) ? 1 : 0) + (IsGiven(result, s_port) ? 1 : 0) + (IsGiven(result, s_unix) ? 1 : 0);
        if (places > 1) result.AddError("Give one of --listen, --port and --unix.");
    }

    internal static bool IsGiven(CommandResult result, Option option) => result.GetResult(option) is { Implicit: false };

    // From the token: to ask for the value of an option that has an error throws, and that error is told anyway.
    private static int NumberOr(int otherwise, CommandResult result, Option option) =>
        result.GetResult(option) is { Tokens: [{ Value: var text }] } && Number(text, 1, MaxBroadcastBytes) is { } number ? number : otherwise;

    /// <summary>An option whose value is read by <paramref name="parse"/>; null from there means wrong, and the message says what is right.</summary>
    internal static Option<T> Value<T>(string name, string placeholder, string description, string right, Func<string, T> parse) => new(name)
    {
        Description = description,
        HelpName = placeholder,
        CustomParser = argument =>
        {
            string text = argument.Tokens.Count > 0 ? argument.Tokens[0].Value : "";
            T value = parse(text);
            if (value is null) argument.AddError($"{name} takes {right}, not '{text}'.");
            return value;
        },
    };

    /// <summary>An option whose value is an address, given without the <paramref name="scheme"/>. Its value is the whole text of the address.</summary>
    private static Option<string?> Listen(string name, string placeholder, string description, string scheme) => Address(name, placeholder, description, scheme, AddressText.ReadForListening);

    internal delegate NetworkAddress? AddressReader(string text, out string? mistake);

    /// <summary>The same, read by another form of addresses.</summary>
    internal static Option<string?> Address(string name, string placeholder, string description, string scheme, AddressReader read) => new(name)
    {
        Description = description,
        HelpName = placeholder,
        CustomParser = argument =>
        {
            string text = argument.Tokens.Count > 0 ? argument.Tokens[0].Value : "";
            NetworkAddress? address = read(scheme + text, out string? mistake);
            if (address is null) argument.AddError($"{name}: {mistake}");
            return address?.ToString();
        },
    };

    internal static int? Number(string text, int least, int most) =>
        int.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out int number) && number >= least && number <= most ? number : null;

    private static T? Word<T>(string text)
        where T : struct, Enum =>
        Enum.TryParse(text, ignoreCase: true, out T value) && Enum.IsDefined(value) && !char.IsAsciiDigit(text[0]) ? value : null;

    private static string? RuntimeConfigOf(string program)
    {
        string path = program.EndsWith(".runtimeconfig.json", StringComparison.Ordinal) ? program : Path.ChangeExtension(program, ".runtimeconfig.json");
        return File.Exists(path) ? path : null;
    }
}
