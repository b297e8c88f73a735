using System.CommandLine;
using System.CommandLine.Parsing;
using System.Globalization;
using System.Net;
using Whimbrel.Tool.Bench;
using Whimbrel.Tool.Doctor;
using Whimbrel.Tool.Plot;
using Whimbrel.Tool.Top;

namespace Whimbrel.Tool;

/// <summary>The words of the tool: commands, options, what their values may be, and how to say what would be
/// right.</summary>
internal static class CommandLine
{
    internal const int DefaultPort = 1111;
    private const int MaxBroadcastBytes = 32 * 1024;

    private static readonly string s_engines = string.Join('|', Enum.GetNames<EngineKind>()).ToLowerInvariant();
    private static readonly string s_schemes = string.Join('|', Enum.GetNames<AcceptScheme>()).ToLowerInvariant();
    private static readonly string s_kinds =
        $"{string.Join('|', Enum.GetNames<ServeKind>()).ToLowerInvariant()}|{DatagramCommandLine.Kinds}";

    private static readonly Option<string?> s_listen = Listen("--listen", "ADDRESS", "Where to listen: ADDR:PORT such "
        + "as 0.0.0.0:1111 or *:1111, or tcp://ADDR:PORT, tls://ADDR:PORT, unix:PATH, systemd:NAME (a socket unit), or "
        + "fd:NUMBER.", "");
    private static readonly Option<int?> s_port = Value("--port", "N",
        $"Listen at 127.0.0.1 and this port; 0 takes a free one. Default {DefaultPort}.", "a port from 0 to 65535",
        static text => Number(text, 0, IPEndPoint.MaxPort));
    private static readonly Option<string?> s_unix = Listen("--unix", "PATH",
        "Use a Unix socket; @NAME is an abstract name of Linux.", "unix:");
    private static readonly Option<EngineKind?> s_engine = Value("--engine", s_engines,
        "Which engine. Default auto: the best that works here, or what WHIMBREL_ENGINE says.", s_engines,
        static text => Word<EngineKind>(text));
    private static readonly Option<int?> s_loops = Value("--loops", "N",
        "Number of loops, each with a thread. Default: one for each core.", "a number from 1 to 256",
        static text => Number(text, 1, 256));
    private static readonly Option<AcceptScheme?> s_accept = Value("--accept", s_schemes,
        "One listener for all loops, or one for each. Default auto.", s_schemes,
        static text => Word<AcceptScheme>(text));
    private static readonly Option<Scheduling?> s_scheduling = Value("--scheduling", "inline|pool",
        "Where callbacks run: on their loop (default) or on the thread pool.", "inline or pool", static text =>
            text switch { "inline" => Scheduling.Inline, "pool" => Scheduling.ThreadPool, _ => (Scheduling?)null });
    private static readonly Option<bool> s_stats = new("--stats")
    {
        Description = "A line on stderr every second: connections, messages or receives, MB/s in and out."
    };
    private static readonly Option<string?> s_status = Value<string?>("--status", "PATH",
        "Open a Unix socket there for whimbrel top; a name that ends in .status is found by process id.", "a path",
        static text => text.Length > 0 ? text : null);
    private static readonly Option<int?> s_dashboard = Value("--dashboard", "PORT",
        "Show connections, groups, loops and notices in a page at http://127.0.0.1:PORT/whimbrel, for this machine.",
        "a port from 0 to 65535", static text => Number(text, 0, 65535));
    private static readonly Option<string?> s_upgrade = Value<string?>("--upgrade", "PATH",
        "Take the listening sockets of the process that serves with the same path, which drains and ends; without one, "
            + "listen as usual. A Unix socket; Linux.", "a path", static text => text.Length > 0 ? text : null);
    private static readonly Option<double?> s_drain = Value<double?>("--drain", "SECONDS",
        "Ask sessions to end one after the other in this time, when it stops. Default: all at once.",
        "seconds up to 3600, or a time such as 2m30s", static text => Seconds(text, 0, 3600));
    private static readonly Option<double?> s_for = Value<double?>("--for", "SECONDS",
        "End after this time; a server drains.", "seconds, for example 10 or 0.5, or a time such as 2m30s",
        static text => Seconds(text, double.Epsilon, 1e8));
    private static readonly Option<int?> s_rate = Value("--rate", "N",
        "Messages a second. Default: as many as possible.", "a number from 1 to 1000000000",
        static text => Number(text, 1, 1_000_000_000));
    private static readonly Option<int?> s_size = Value("--size", "BYTES",
        "Bytes of a message. Default 32.", $"a number from {PushMessage.MinSize} to {MaxBroadcastBytes}",
        static text => Number(text, PushMessage.MinSize, MaxBroadcastBytes));
    private static readonly Option<int?> s_batch = Value("--batch", "N", "Messages in one broadcast. Default 1.",
        "a number from 1 to 1024", static text => Number(text, 1, 1024));
    private static readonly Option<string?> s_files = Value<string?>("--files",
        "DIR", "Serve the files of this folder instead.", "a folder that exists",
        static text => Directory.Exists(text) ? text : null);
    private static readonly Option<bool> s_deflate =
        new("--deflate") { Description = "Compress messages for clients that offer it (permessage-deflate)." };
    private static readonly Option<string?> s_cluster = Value<string?>("--cluster",
        "ADDRESS", "Share the room with servers that use the same broker: nats://HOST:PORT, "
            + "redis://HOST:PORT or amqp://HOST:PORT. A password in it is visible in the process list.",
        "nats://HOST:PORT, redis://HOST:PORT or amqp://HOST:PORT",
        static text => text.Contains("://", StringComparison.Ordinal) ? text : null);
    private static readonly Option<string?> s_node = Value<string?>("--node", "NAME",
        "Name of this server in the cluster. Default: the machine's name and a random suffix.",
        $"1 to {ChatText.MaxNameLength} of the characters a-z A-Z 0-9 - _",
        static text => ChatText.IsName(text) ? text : null);
    private static readonly Option<string?> s_out = Value<string?>("--out",
        "DIR", $"The folder. Default {CertsSettings.DefaultFolder}.", "a folder",
        static text => text.Length > 0 ? text : null);
    private static readonly Option<string[]?> s_san = Several(["--san", "--host"], "NAME,...",
        "Names of the server: DNS names, *.example.org, IP addresses; repeatable. Default localhost, 127.0.0.1, ::1.",
        static text => SubjectName.Read(text, out string? mistake) is null ? mistake : null);
    private static readonly Option<string?> s_server = Value("--server", "FILE",
        $"Name of the server's files, without an extension. Default {CertsSettings.DefaultServer}.", FileNameForm,
        static text => IsFileName(text) ? text : null);
    private static readonly Option<string[]?> s_clients = Several(["--client"], "NAME,...",
        $"Name of a client's certificate and its files. Default {CertsSettings.DefaultClient}.",
        static text => IsFileName(text) ? null : $"takes {FileNameForm}, not '{text}'");
    private static readonly Option<int?> s_rsa = new("--rsa")
    {
        Description = "Create RSA keys of this size, 2048 by default, instead of P-256.",
        HelpName = "BITS",
        Arity = ArgumentArity.ZeroOrOne,
        CustomParser = static argument =>
        {
            if (argument.Tokens.Count == 0) return CertificateKey.LeastRsaBits;
            int? bits = Number(argument.Tokens[0].Value, CertificateKey.LeastRsaBits, CertificateKey.MostRsaBits);
            if (bits is null || bits % 8 != 0)
                argument.AddError($"--rsa takes a number of bits from {CertificateKey.LeastRsaBits} to "
                    + $"{CertificateKey.MostRsaBits} that is a multiple of 8, not '{argument.Tokens[0].Value}'.");
            return bits;
        },
    };
    private static readonly Option<int?> s_days = Value("--days", "N", $"Validity of server and client certificates, "
        + $"in days. Default {CertsSettings.DefaultDays}; the authority is valid for ten years, or as long.",
        $"a number from 1 to {CertsSettings.MostDays}", static text => Number(text, 1, CertsSettings.MostDays));
    private static readonly Option<string?> s_password = Value<string?>("--password", "TEXT",
        "Password of encrypted private keys. It is visible in the process list; --password-file is better.",
        "a text that is not empty", static text => text.Length > 0 ? text : null);
    private static readonly Option<string?> s_passwordFile = Value<string?>("--password-file", "FILE",
        "Read the password from the first line of this file.", "a file", static text => text.Length > 0 ? text : null);
    private static readonly Option<bool> s_tls =
        new("--tls") { Description = "Use TLS. Implied by the other TLS options and by a tls:// address." };
    private static readonly Option<string?> s_cert = FileOption("--cert",
        "The certificate and its intermediates, as PEM. A server without one creates its own.");
    private static readonly Option<string?> s_key = FileOption("--key",
        "The private key as PEM, if it is not in the same file.");
    private static readonly Option<string?> s_pfx = FileOption("--pfx", "Certificate and key in one PFX file.");
    private static readonly Option<string?> s_clientCa = FileOption("--client-ca",
        "Require client certificates that are signed by an authority in this PEM file.");
    private static readonly Option<string?> s_ca = AuthorityOption("--ca", "server");
    private static readonly Option<string?> s_pin = PinOption("--pin", "server");
    private static readonly Option<string?> s_serverName = NameOption("--server-name", "server");
    private static readonly Option<string[]?> s_alpn = Several(["--alpn"],
        "NAME,...", "Application protocols in order of preference.",
        static text => text.Length <= 255 ? null : "takes names of at most 255 bytes");
    private static readonly Option<bool> s_force =
        new("--force") { Description = "Replace existing files, except the authority." };
    private static readonly Option<bool> s_newCa =
        new("--new-ca") { Description = "Create a new authority. Replacing an existing one needs --force too." };
    private static readonly Argument<string?> s_address = new("ADDRESS")
    {
        Arity = ArgumentArity.ZeroOrOne,
        Description =
            "Where to connect: HOST:PORT, tcp://HOST:PORT, tls://HOST:PORT, ws://HOST:PORT/PATH, wss://HOST/PATH "
            + "or unix:PATH. IPv6 addresses are in brackets: [::1]:1111. The port may be a service name."
    };

    private static readonly Argument<string?> s_page = new("PAGE")
    {
        Arity = ArgumentArity.ZeroOrOne,
        Description =
            "Page name, such as descriptor-limit or docs/symptoms/descriptor-limit.md. Without one: list all pages."
    };
    private static readonly Option<bool> s_json = new("--json") { Description = "One JSON object instead of lines." };
    private static readonly Option<string?> s_app = Value<string?>("--app", "PROGRAM",
        "Program whose garbage collector settings to check: PROGRAM.dll, or its .runtimeconfig.json.",
        "a program that has a .runtimeconfig.json beside it", static text => RuntimeConfigOf(text));
    private static readonly Option<int?> s_probedPort = Value("--port", "N",
        "Also check whether a server can listen at this port, by listening for a moment.", "a port from 1 to 65535",
        static text => Number(text, 1, IPEndPoint.MaxPort));
    private static readonly Option<bool> s_udp =
        new("--udp") { Description = "Send datagrams, one per line. Implied by a udp:// address." };

    // For the datagram commands, which are in another file.
    internal static Option<int?> Port => s_port;

    internal static Option<string?> Unix => s_unix;

    internal static Option<EngineKind?> Engine => s_engine;

    /// <summary>TLS options of clients, without --tls and the application protocols.</summary>
    internal static Option[] ClientTls => [s_ca, s_pin, s_serverName, s_cert, s_key, s_pfx, s_password, s_passwordFile];

    internal static Option<double?> For => s_for;

    internal static Option<int?> Loops => s_loops;

    internal static Option<bool> Stats => s_stats;

    internal static Option<string?> Status => s_status;

    /// <summary>TLS options of servers.</summary>
    internal static Option[] ServerTls => [s_tls, s_cert, s_key, s_pfx, s_password, s_passwordFile, s_clientCa, s_alpn];

    internal static string Engines => s_engines;

    internal static RootCommand Create()
    {
        RootCommand root = new(
            """
            Servers and a client on the Whimbrel networking library.

            For measurements: while it serves, the signal SIGUSR1 prints "allocated BYTES turns N empty N completions N" (all that
            was ever allocated on the managed heap; turns of the loops, those that brought nothing, and what all brought) and
            SIGUSR2 collects garbage, gives memory back to the system and prints "collected", both on stdout.
            """)
        {
            Serve(),
            Connect(),
            GetCommandLine.Get(),
            RelayCommandLine.Relay(),
            BenchCommandLine.Bench(),
            PlotCommandLine.Plot(),
            Certs(),
            Doctor(),
            TopCommandLine.Top(),
            DatagramCommandLine.Join(),
            Explain(),
        };
        return root;
    }

    /// <summary>Returns the error in one sentence: an unknown word first, because it may cause a missing
    /// argument.</summary>
    internal static string WrongIn(ParseResult parsed)
    {
        if (parsed.Tokens.Any(static t => t.Value == "--insecure"))
            return "There is no --insecure: name trusted authorities by --ca FILE, or a certificate by --pin HASH.";
        if (parsed.UnmatchedTokens.Count > 0)
            return $"'{parsed.UnmatchedTokens[0]}' is not known "
                + $"here.{Meant(parsed.UnmatchedTokens[0], parsed.CommandResult.Command)}";
        bool lacksCommand = parsed.CommandResult.Command.Subcommands.Count > 0;
        if (lacksCommand) return "A command is missing.";
        // For a missing argument the library's message names the command only; ours follows it.
        string named = $"'{parsed.CommandResult.Command.Name}'";
        return (parsed.Errors.FirstOrDefault(e => !e.Message.Contains(named, StringComparison.Ordinal))
            ?? parsed.Errors[0]).Message;
    }

    private static string Meant(string word, Command command)
    {
        IEnumerable<string> known = word.StartsWith('-')
            ? command.Options.Select(static o => o.Name)
            : command.Subcommands.Select(static c => c.Name);
        return Likeness.Nearest(word, known) is { } meant ? $" Did you mean '{meant}'?" : "";
    }

    /// <summary>Returns the usage of a command in one line.</summary>
    internal static string UsageOf(Command command) => BenchCommandLine.UsageOf(command)
        ?? DatagramCommandLine.UsageOf(command) ?? command.Name switch
    {
        "serve" => $"whimbrel serve {s_kinds} [options] (whimbrel serve --help explains)",
        "connect" => "whimbrel connect HOST:PORT, whimbrel connect [--ca FILE | --pin HASH] tls://HOST:PORT, whimbrel "
            + "connect ws://HOST:PORT/PATH, whimbrel connect unix:PATH or whimbrel connect udp://HOST:PORT",
        "push" => $"whimbrel serve push {CommonUsage} [--rate N] [--size BYTES] [--batch N]",
        "ws" => $"whimbrel serve ws {CommonUsage} [--deflate]",
        "chat" => $"whimbrel serve chat {CommonUsage} [--cluster ADDRESS [--node NAME]]",
        "get" => GetCommandLine.Usage,
        "relay" => RelayCommandLine.Usage,
        "top" => TopCommandLine.Usage,
        "plot" => PlotCommandLine.Usage,
        "certs" => "whimbrel certs [--out DIR] [--san NAME,...] [--server FILE] [--client NAME,...] [--rsa [BITS]] "
            + "[--days N] [--password TEXT | --password-file FILE] [--force] [--new-ca]",
        "explain" => "whimbrel explain [PAGE] (without one: list all pages)",
        "doctor" => "whimbrel doctor [--json] [--loops N] [--app PROGRAM.dll] [--port N]",
        _ when command is RootCommand => $"whimbrel serve {s_kinds}, whimbrel connect HOST:PORT, whimbrel get URL, "
            + $"whimbrel relay LISTEN TARGET, whimbrel bench tcp ADDRESS, whimbrel plot FILE, whimbrel join GROUP, "
            + $"whimbrel certs, whimbrel doctor, whimbrel top PATH, or whimbrel explain PAGE (whimbrel --help "
            + $"explains)",
        _ => $"whimbrel serve {command.Name} {CommonUsage}",
    };

    private static string CommonUsage => $"[--listen ADDRESS | --port N | --unix PATH] [--engine {s_engines}] [--loops "
        + $"N] [--accept {s_schemes}] [--scheduling inline|pool] [--stats] [--status PATH] [--dashboard PORT] "
        + $"[--for SECONDS] [--tls [--cert FILE --key FILE | --pfx FILE] [--client-ca FILE]]";

    // ------------------------------------------------------------------ commands

    private static Command Serve() => new("serve",
        "Runs a server until Ctrl-C or SIGTERM, then drains and prints totals.")
    {
        ServeOne(ServeKind.Echo, "Sends received data back."),
        ServeOne(ServeKind.Discard, "Reads and discards data."),
        ServeOne(ServeKind.Chat, "Chat room: each line goes to all other users. /help lists its commands.",
            s_cluster, s_node),
        ServeOne(ServeKind.Push, "Sends numbered messages to every client.", s_rate, s_size, s_batch),
        ServeOne(ServeKind.Groups,
            "For benchmarks: clients join groups and broadcast to them, in messages of 32 bytes."),
        ServeOne(ServeKind.Http, "An HTTP server to try clients with. GET / lists what it answers.", s_files),
        ServeOne(ServeKind.Ws, "A WebSocket server that sends messages back.", s_deflate),
        DatagramCommandLine.ServeUdp(),
        DatagramCommandLine.ServeMulticast(),
    };

    private static Command ServeOne(ServeKind kind, string description, params Option[] more)
    {
        Command command = new(kind.ToString().ToLowerInvariant(), description);
        foreach (Option option in (Option[])[s_listen, s_port, s_unix, s_engine,
            s_loops, s_accept, s_scheduling, s_stats, s_status, s_dashboard, s_upgrade, s_drain, s_for, s_tls, s_cert,
            s_key, s_pfx, s_password, s_passwordFile, s_clientCa, s_alpn, .. more])
            command.Add(option);
        command.Validators.Add(OneCertificate);
        command.Validators.Add(static result => AllowOnePlace(result, s_listen));
        if (kind == ServeKind.Chat)
        {
            command.Validators.Add(static result =>
            {
                if (IsGiven(result, s_node) && !IsGiven(result, s_cluster))
                    result.AddError("--node is the name in a cluster, and --cluster is missing.");
            });
        }

        if (kind == ServeKind.Push)
        {
            command.Validators.Add(static result =>
            {
                int bytes = NumberOr(PushMessage.MinSize, result, s_size) * NumberOr(1, result, s_batch);
                if (bytes > MaxBroadcastBytes)
                    result.AddError(
                        $"--size times --batch is {bytes} bytes, and one broadcast has at most {MaxBroadcastBytes}.");
            });
        }

        command.SetAction(async parsed => TryReadTls(parsed, AddressOf(parsed), s_clientCa, out TlsArguments? tls)
            ? await ServeCommand.RunAsync(SettingsOf(kind, parsed, tls)) : ExitCode.Failed);
        return command;
    }

    private static string AddressOf(ParseResult parsed) => parsed.GetValue(s_unix) ?? parsed.GetValue(s_listen)
        ?? $"tcp://127.0.0.1:{parsed.GetValue(s_port) ?? DefaultPort}";

    private static ServeSettings SettingsOf(ServeKind kind, ParseResult parsed, TlsArguments? tls)
    {
        PushSettings push = kind == ServeKind.Push
            ? new PushSettings(parsed.GetValue(s_rate) ?? 0, parsed.GetValue(s_size) ?? PushMessage.MinSize,
                parsed.GetValue(s_batch) ?? 1)
            : default;
        TimeSpan? duration = parsed.GetValue(s_for) is { } seconds ? TimeSpan.FromSeconds(seconds) : null;
        return new ServeSettings(kind, AddressOf(parsed), parsed.GetValue(s_engine) ?? EngineKind.Auto,
            parsed.GetValue(s_loops) ?? 0, parsed.GetValue(s_accept) ?? AcceptScheme.Auto,
            parsed.GetValue(s_scheduling) ?? Scheduling.Inline, parsed.GetValue(s_stats), duration, tls, push,
            kind == ServeKind.Http ? parsed.GetValue(s_files) : null)
        {
            Deflates = kind == ServeKind.Ws && parsed.GetValue(s_deflate),
            StatusPath = parsed.GetValue(s_status),
            DashboardPort = parsed.GetValue(s_dashboard),
            UpgradePath = parsed.GetValue(s_upgrade),
            DrainWindow = TimeSpan.FromSeconds(parsed.GetValue(s_drain) ?? 0),
            Cluster = kind == ServeKind.Chat ? parsed.GetValue(s_cluster) : null,
            Node = kind == ServeKind.Chat ? parsed.GetValue(s_node) : null,
        };
    }

    private static Command Connect()
    {
        Command command = new("connect",
            "Sends lines of stdin and prints received data. Ctrl-C or the end of input closes.")
        {
            s_address, s_unix, s_udp, s_engine, s_tls, s_ca, s_pin, s_serverName, s_cert, s_key, s_pfx, s_password,
            s_passwordFile, s_alpn,
        };
        command.Validators.Add(OneCertificate);
        command.Validators.Add(OneTrust);
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
                if (ConnectSocketCommand.IsSocket(text))
                {
                    if (!Uri.TryCreate(text, UriKind.Absolute, out Uri? url) || url.Host.Length == 0
                        || url.UserInfo.Length > 0 || url.Fragment.Length > 0)
                        result.AddError($"'{text}' is not a WebSocket URL: use ws://HOST:PORT/PATH or wss://HOST/PATH, "
                            + $"without a fragment.");
                    else if (result.GetValue(s_udp)) result.AddError("Give --udp or a WebSocket URL, not both.");
                    else if (url.Scheme == "ws" && MeansTls(option => IsGiven(result, option)))
                        result.AddError("ws:// has no TLS: use wss://.");
                    return;
                }

                NetworkAddress? address = IsDatagrams(result.GetValue(s_udp), text)
                    ? DatagramText.ReadForSending(text, out mistake)
                    : AddressText.ReadForConnecting(text, out mistake);
                if (address is null) result.AddError(mistake!);
                else if (IsDatagrams(result.GetValue(s_udp), text) && MeansTls(option => IsGiven(result, option)))
                    result.AddError("TLS for datagrams is not supported.");
            }
        });
        command.SetAction(static async parsed =>
        {
            string text = parsed.GetValue(s_unix) ?? parsed.GetValue(s_address)!;
            EngineKind engine = parsed.GetValue(s_engine) ?? EngineKind.Auto;
            if (IsDatagrams(parsed.GetValue(s_udp), text))
                return await ConnectDatagramsCommand.RunAsync(DatagramText.ReadForSending(text, out _)!,
                    new DatagramSettings(engine, Stats: false, Duration: null));
            if (ConnectSocketCommand.IsSocket(text))
                return TryReadTls(parsed, text.StartsWith("wss", StringComparison.OrdinalIgnoreCase),
                    out TlsArguments? socketTls)
                    ? await ConnectSocketCommand.RunAsync(text, engine, socketTls)
                    : ExitCode.Failed;
            string address = AddressText.Read(text, out _)!.ToString();
            return TryReadTls(parsed, address, s_ca, out TlsArguments? tls)
                ? await ConnectCommand.RunAsync(address, engine, tls)
                : ExitCode.Failed;
        });
        return command;
    }

    internal static void OneTrust(CommandResult result)
    {
        if (IsGiven(result, s_ca) && IsGiven(result, s_pin))
            result.AddError("Give --ca or --pin, not both: a pin identifies the certificate completely.");
    }

    internal static void OneCertificate(CommandResult result)
    {
        if (IsGiven(result, s_pfx) && (IsGiven(result, s_cert) || IsGiven(result, s_key)))
            result.AddError("Give --pfx, or --cert and --key.");
        else if (IsGiven(result, s_key) && !IsGiven(result, s_cert))
            result.AddError("--key is the key of a --cert, which is missing.");
        OnePassword(result);
    }

    private static bool MeansTls(Func<Option, bool> isGiven) =>
        ((Option[])[s_tls, s_cert, s_key, s_pfx, s_password, s_passwordFile, s_clientCa, s_ca, s_pin, s_serverName,
            s_alpn]).Any(isGiven);

    /// <summary>
    /// Reads the TLS arguments; null if no option means TLS. Returns false, after a message, if a password cannot be
    /// read.
    /// </summary>
    private static bool TryReadTls(ParseResult parsed, string address, Option<string?> authority,
        out TlsArguments? tls) =>
        TryReadTls(parsed, NetworkAddress.Parse(address).Scheme == "tls", out tls, authority);

    internal static bool TryReadServerTls(ParseResult parsed, string address, out TlsArguments? tls) =>
        TryReadTls(parsed, address, s_clientCa, out tls);

    internal static bool TryReadTls(ParseResult parsed, bool isTls, out TlsArguments? tls,
        Option<string?>? authority = null)
    {
        authority ??= s_ca;
        tls = null;
        if (!isTls && !MeansTls(option => parsed.GetResult(option) is { Implicit: false })) return true;
        if (!TryReadPassword(parsed, out string? password)) return false;
        bool isServer = authority == s_clientCa;
        tls = new TlsArguments(parsed.GetValue(s_cert), parsed.GetValue(s_key), parsed.GetValue(s_pfx),
            password, parsed.GetValue(authority), isServer ? null : parsed.GetValue(s_pin),
            isServer ? null : parsed.GetValue(s_serverName), parsed.GetValue(s_alpn) ?? []);
        return true;
    }

    private static Command Certs()
    {
        Command command = new("certs",
            "Creates certificates for development and tests: an authority, a server and clients, as PEM and PFX.")
        {
            s_out, s_san, s_server, s_clients, s_rsa, s_days, s_password, s_passwordFile, s_force, s_newCa,
        };
        command.Validators.Add(static result =>
        {
            OnePassword(result);
            string[] names = [CertificateFolder.Authority,
                .. TokensOf(result, s_server) is [var one] ? (string[])[one] : [CertsSettings.DefaultServer],
                .. SeveralOf(TokensOf(result, s_clients))];
            if (names.GroupBy(static n => n, StringComparer.OrdinalIgnoreCase).FirstOrDefault(static g => g.Count() > 1)
                is { } twice)
                result.AddError($"'{twice.Key}' names the files of two certificates.");
        });
        command.SetAction(static parsed =>
        {
            if (!TryReadPassword(parsed, out string? password)) return ExitCode.Failed;
            SubjectName[] names = [.. (parsed.GetValue(s_san) ?? []).Select(static n => SubjectName.Read(n, out _)!)
                .Distinct()];
            string? server = parsed.GetValue(s_server);
            return CertsCommand.Run(new CertsSettings(
                parsed.GetValue(s_out) ?? CertsSettings.DefaultFolder,
                server ?? CertsSettings.DefaultServer,
                server is not null || names.Length > 0,
                names,
                parsed.GetValue(s_clients) ?? [],
                parsed.GetValue(s_rsa) ?? 0,
                parsed.GetValue(s_days) ?? CertsSettings.DefaultDays,
                password,
                parsed.GetValue(s_force),
                parsed.GetValue(s_newCa)));
        });
        return command;
    }

    private static void OnePassword(CommandResult result)
    {
        if (IsGiven(result, s_password) && IsGiven(result, s_passwordFile))
            result.AddError("Give --password or --password-file, not both.");
    }

    /// <summary>Reads the password. Returns false, after a message, if its file cannot be read.</summary>
    private static bool TryReadPassword(ParseResult parsed, out string? password)
    {
        password = parsed.GetValue(s_password);
        if (parsed.GetValue(s_passwordFile) is not { } file) return true;
        try
        {
            password = File.ReadLines(file).FirstOrDefault();
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            Console.Error.WriteLine($"whimbrel: {e.Message}");
            return false;
        }

        if (!string.IsNullOrEmpty(password)) return true;
        Console.Error.WriteLine($"whimbrel: the first line of {file} is empty: it must contain the password.");
        return false;
    }

    private static Command Doctor()
    {
        Command command = new("doctor", "Checks this system for settings that slow a server down, and "
            + "prints the command that changes them. Exit code 0: no advice; 1: at least one advice.")
        {
            s_json,
            s_loops,
            s_app,
            s_probedPort
        };
        command.SetAction(static parsed => DoctorCommand.RunAsync(parsed.GetValue(s_loops) ?? 0, parsed.GetValue(s_app),
            parsed.GetValue(s_probedPort), parsed.GetValue(s_json)));
        return command;
    }

    private static Command Explain()
    {
        Command command =
            new("explain", "Prints a troubleshooting page that a message named: symptom, cause, remedy.") { s_page };
        command.Validators.Add(static result =>
        {
            string? text = result.GetValue(s_page);
            if (text is null || ExplainCommand.NameOf(text) is not null) return;
            string? meant = Likeness.Nearest(text, ExplainCommand.Pages);
            result.AddError($"There is no page '{text}'.{(meant is null ? "" : $" Did you mean '{meant}'?")}");
        });
        command.SetAction(static parsed => ExplainCommand.Run(parsed.GetValue(s_page)));
        return command;
    }

    private static bool IsDatagrams(bool isAsked, string address) => isAsked || DatagramText.IsDatagrams(address);

    // ------------------------------------------------------------------ values

    private const string FileNameForm = "a name of letters, digits and . _ - @ that begins with a letter or a digit";

    private static bool IsFileName(string text) =>
        text.Length is > 0 and <= 64 && char.IsAsciiLetterOrDigit(text[0])
        && text.All(static c => char.IsAsciiLetterOrDigit(c) || c is '.' or '_' or '-' or '@');

    internal static Option<string?> AuthorityOption(string name, string whose) =>
        FileOption(name,
            $"Trusted authorities for the {whose}'s certificate, as PEM, instead of those of this system.");

    internal static Option<string?> PinOption(string name, string whose) => Value<string?>(
        name, "HASH", $"Accept only this {whose}'s certificate (SHA-256, "
            + $"hexadecimal) or key (SHA-256, base64), without other checks.",
        "SHA-256 as 64 hexadecimal digits of the certificate, or as 44 characters of base64 of its key",
        static text => TlsArguments.IsPin(text) ? text : null);

    internal static Option<string?> NameOption(string name, string whose) => Value<string?>(
        name, "NAME", $"Required name in the {whose}'s certificate. Default: the host of the address.",
        "a name or an IP address",
        static text => SubjectName.Read(text, out _) is { } found && text[0] != '*' ? found.Text : null);

    private static Option<string?> FileOption(string name, string description) =>
        Value<string?>(name, "FILE", description, "a file", static text => text.Length > 0 ? text : null);

    private static string[] TokensOf(CommandResult result,
        Option option) => [.. result.GetResult(option)?.Tokens.Select(static t => t.Value) ?? []];

    private static string[] SeveralOf(IEnumerable<string> tokens) => [.. tokens.SelectMany(
        static t => t.Split(',', StringSplitOptions.TrimEntries | StringSplitOptions.RemoveEmptyEntries))];

    /// <summary>Creates a repeatable option with comma-separated values. <paramref name="wrong"/> returns the error of
    /// a value, or null.</summary>
    internal static Option<string[]?> Several(string[] names, string placeholder, string description,
        Func<string, string?> wrong) => new(names[0], names[1..])
        {
            Description = description,
            HelpName = placeholder,
            Arity = ArgumentArity.OneOrMore,
            AllowMultipleArgumentsPerToken = false,
            CustomParser = argument =>
            {
                string[] values = SeveralOf(argument.Tokens.Select(static t => t.Value));
                if (values.Length == 0) argument.AddError($"{names[0]} takes {placeholder}.");
                foreach (string mistake in values.Select(wrong).OfType<string>())
                    argument.AddError(mistake.StartsWith("takes", StringComparison.Ordinal)
                        ? $"{names[0]} {mistake}." : $"{names[0]}: {mistake}.");
                return values;
            },
        };

    internal static void AllowOnePlace(CommandResult result, Option listen)
    {
        int places = (IsGiven(result, listen) ? 1 : 0) + (IsGiven(result, s_port) ? 1 : 0)
            + (IsGiven(result, s_unix) ? 1 : 0);
        if (places > 1) result.AddError("Give only one of --listen, --port and --unix.");
    }

    internal static bool IsGiven(CommandResult result, Option option) =>
        result.GetResult(option) is { Implicit: false };

    // Read from the token, because reading the value of an option with an error throws; that error is reported anyway.
    private static int NumberOr(int otherwise, CommandResult result, Option option) =>
        result.GetResult(option) is { Tokens: [{ Value: var text }] }
        && Number(text, 1, MaxBroadcastBytes) is { } number ? number : otherwise;

    /// <summary>Creates an option with a parser. If it returns null, the message says what is right.</summary>
    internal static Option<T> Value<T>(string name, string placeholder, string description, string right,
        Func<string, T> parse) => new(name)
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

    /// <summary>Creates an option for an address without a scheme. Its value is the whole address.</summary>
    private static Option<string?> Listen(string name, string placeholder, string description, string scheme) =>
        Address(name, placeholder, description, scheme, AddressText.ReadForListening);

    internal delegate NetworkAddress? AddressReader(string text, out string? mistake);

    /// <summary>Creates an option for an address that another method parses.</summary>
    internal static Option<string?> Address(string name, string placeholder, string description, string scheme,
        AddressReader read) => new(name)
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
        int.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out int number) && number >= least
        && number <= most ? number : null;

    /// <summary>Parses a number of seconds, or a time with units such as 250ms or 2m30s.</summary>
    internal static double? Seconds(string text, double least, double most)
    {
        if (!double.TryParse(text, NumberStyles.AllowDecimalPoint, CultureInfo.InvariantCulture, out double seconds))
        {
            if (!UnitText.TryParseTime(text, out TimeSpan time)) return null;
            seconds = time.TotalSeconds;
        }

        return seconds >= least && seconds <= most ? seconds : null;
    }

    private static T? Word<T>(string text)
        where T : struct, Enum =>
        Enum.TryParse(text, ignoreCase: true, out T value) && Enum.IsDefined(value) && !char.IsAsciiDigit(text[0])
            ? value
            : null;

    private static string? RuntimeConfigOf(string program)
    {
        string path = program.EndsWith(".runtimeconfig.json", StringComparison.Ordinal)
            ? program
            : Path.ChangeExtension(program, ".runtimeconfig.json");
        return File.Exists(path) ? path : null;
    }
}
