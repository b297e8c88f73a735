using System.Globalization;
using System.Net;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using Microsoft.Extensions.DependencyInjection;
using Whimbrel.Http;

namespace Whimbrel.Hosting;

/// <summary>
/// Reads the options of a server from a section of the configuration, over those in code, because operators override
/// the program. The core checks the ranges (<see cref="ServerOptions.FindMistakes"/>); this class only parses text.
/// </summary>
internal static class ServerSection
{
    private const string HttpProtocol = "http/1.1";

    // Options that had another name before they were in groups. Those that kept their name are found in their section.
    private static readonly Dictionary<string, string> s_renamed = new(StringComparer.OrdinalIgnoreCase)
    {
        ["AcceptLimit"] = "Accept:Limit",
        ["AcceptScheme"] = "Accept:Scheme",
        ["MaxConnections"] = "Limits:Connections",
        ["SendLimitBytes"] = "Limits:SendBytes",
        ["UnreadLimitBytes"] = "Limits:UnreadBytes",
        ["DrainLimit"] = "Timeouts:DrainTotal",
        ["DrainTimeout"] = "Timeouts:Drain",
        ["IdleTimeout"] = "Timeouts:Idle",
        ["ReceiveTimeout"] = "Timeouts:Receive",
        ["SendTimeout"] = "Timeouts:Send",
    };

    internal static ServerOptions Read(SectionReader section, ServerOptions code, Engine? engine,
        IServiceProvider services, string folder, Action<DiagnosticEvent> onDiagnosticEvent, bool isHttp = false)
    {
        TlsOptions? tls = ReadTls(section.Section("Tls"), code.Tls, folder, isHttp);
        (string? address, EndPoint? endPoint, IReadOnlyList<EndPoint> endPoints) = ReadWhere(section, code,
            tls is not null, isHttp);
        ServerOptions options = new()
        {
            Address = address,
            EndPoint = endPoint,
            EndPoints = endPoints,
            Tls = tls,
            Engine = code.Engine ?? engine,
            Services = code.Services ?? services,
            OnDiagnosticEvent = code.OnDiagnosticEvent ?? onDiagnosticEvent,

            CountSends = section.Flag(nameof(code.CountSends), code.CountSends),
            Scheduling = section.Word(nameof(code.Scheduling), code.Scheduling),
            StatusPath = section.Text(nameof(code.StatusPath)) ?? code.StatusPath,
            Accept = ReadAccept(section.Section(nameof(code.Accept)), code.Accept),
            Limits = ReadLimits(section.Section(nameof(code.Limits)), code.Limits),
            Socket = ReadSocket(section.Section(nameof(code.Socket)), code.Socket),
            Timeouts = ReadTimeouts(section.Section(nameof(code.Timeouts)), code.Timeouts),

            // Options that text cannot express.
            Dispatcher = code.Dispatcher,
            State = code.State,
            Upgrade = code.Upgrade ?? services.GetService<ProcessUpgrade>(),
        };
        section.End(s_renamed);
        return options;
    }

    private static AcceptOptions ReadAccept(SectionReader section, AcceptOptions code)
    {
        AcceptOptions read = new()
        {
            Limit = section.Int(nameof(code.Limit), code.Limit),
            Placement = section.Word(nameof(code.Placement), code.Placement),
            Scheme = section.Word(nameof(code.Scheme), code.Scheme),

            AtStart = code.AtStart,
            Admit = code.Admit,
            ChooseLoop = code.ChooseLoop,
        };
        section.End();
        return read;
    }

    private static ServerLimits ReadLimits(SectionReader section, ServerLimits code)
    {
        ServerLimits read = new()
        {
            AllowLargeMessages = section.Flag(nameof(code.AllowLargeMessages), code.AllowLargeMessages),
            BackPressure = section.Maybe(nameof(code.BackPressure)) ?? code.BackPressure,
            Connections = section.Int(nameof(code.Connections), code.Connections),
            SendBytes = section.Int(nameof(code.SendBytes), code.SendBytes),
            SlowConsumer = section.Word(nameof(code.SlowConsumer), code.SlowConsumer),
            UnreadBytes = section.Int(nameof(code.UnreadBytes), code.UnreadBytes),
        };
        section.End();
        return read;
    }

    private static ServerSocketOptions ReadSocket(SectionReader section, ServerSocketOptions code)
    {
        ServerSocketOptions read = new()
        {
            Backlog = section.Int(nameof(code.Backlog), code.Backlog),
            BindToDevice = section.Text(nameof(code.BindToDevice)) ?? code.BindToDevice,
            BusyPoll = section.Time(nameof(code.BusyPoll), code.BusyPoll),
            DeferAccept = section.Time(nameof(code.DeferAccept), code.DeferAccept),
            DualMode = section.Flag(nameof(code.DualMode), code.DualMode),
            ExclusiveAddressUse = section.Flag(nameof(code.ExclusiveAddressUse), code.ExclusiveAddressUse),
            FastOpenQueue = section.Int(nameof(code.FastOpenQueue), code.FastOpenQueue),
            FreeBind = section.Flag(nameof(code.FreeBind), code.FreeBind),
            KeepAlive = section.Flag(nameof(code.KeepAlive), code.KeepAlive),
            KeepAliveCount = section.Int(nameof(code.KeepAliveCount), code.KeepAliveCount),
            KeepAliveInterval = section.Time(nameof(code.KeepAliveInterval), code.KeepAliveInterval),
            KeepAliveTime = section.Time(nameof(code.KeepAliveTime), code.KeepAliveTime),
            NoDelay = section.Flag(nameof(code.NoDelay), code.NoDelay),
            ReceiveBufferBytes = section.Int(nameof(code.ReceiveBufferBytes), code.ReceiveBufferBytes),
            RemoveStaleUnixPath = section.Flag(nameof(code.RemoveStaleUnixPath), code.RemoveStaleUnixPath),
            ReuseAddress = section.Flag(nameof(code.ReuseAddress), code.ReuseAddress),
            ReusePort = section.Flag(nameof(code.ReusePort), code.ReusePort),
            SendBufferBytes = section.Int(nameof(code.SendBufferBytes), code.SendBufferBytes),
            TypeOfService = section.Int(nameof(code.TypeOfService), code.TypeOfService),
            UserTimeout = section.Time(nameof(code.UserTimeout), code.UserTimeout),

            Create = code.Create,
            Mark = code.Mark,
            OnCreated = code.OnCreated,
        };
        section.End();
        return read;
    }

    private static ConnectionTimeouts ReadTimeouts(SectionReader section, ConnectionTimeouts code)
    {
        ConnectionTimeouts read = new()
        {
            Drain = section.Time(nameof(code.Drain), code.Drain),
            DrainWindow = section.Time(nameof(code.DrainWindow), code.DrainWindow),
            DrainTotal = section.Time(nameof(code.DrainTotal), code.DrainTotal),
            Idle = section.Time(nameof(code.Idle), code.Idle),
            Receive = section.Time(nameof(code.Receive), code.Receive),
            Send = section.Time(nameof(code.Send), code.Send),
        };
        section.End();
        return read;
    }

    private static (string? Address, EndPoint? EndPoint, IReadOnlyList<EndPoint> EndPoints) ReadWhere(
        SectionReader section, ServerOptions code, bool isTls, bool isHttp)
    {
        string? address = section.Text("Address");
        string? port = section.Text("Port");
        List<string> addresses = section.Texts("Addresses");
        if (isHttp)
        {
            if (address is not null && HttpServer.WrongWith(address) is { } wrong)
                section.Mistake("Address", wrong.TrimEnd('.'));
            address = address is null ? null : HttpServer.AddressOf(address);
            addresses = addresses.ConvertAll(HttpServer.AddressOf);
        }

        if ((address is null ? 0 : 1) + (port is null ? 0 : 1) + (addresses.Count == 0 ? 0 : 1) > 1)
            section.Mistake("Address", "give one of Address, Addresses and Port");
        if (address is not null) return (address, null, []);
        if (port is not null) return (AddressOfPort(section, port, isTls), null, []);
        if (addresses.Count == 0)
        {
            if (code.Address is not null || code.EndPoint is not null || code.EndPoints.Count > 0)
                return (isHttp && code.Address is { } written ? HttpServer.AddressOf(written) : code.Address,
                    code.EndPoint, code.EndPoints);
            section.Mistake("Address", $"is missing, for example "
                + $"{(isHttp ? "http://*:8080, https://127.0.0.1:8443" : "tcp://*:1111, tls://127.0.0.1:2222")} or "
                + $"unix:/run/chat.sock; Port alone is every address of this machine");
            return ("tcp://127.0.0.1:0", null, []);
        }

        List<EndPoint> endPoints = [];
        for (int i = 0; i < addresses.Count; i++)
        {
            if (EndPointOf(addresses[i], isTls, isHttp, out string? mistake) is { } endPoint) endPoints.Add(endPoint);
            else section.Mistake($"Addresses:{i.ToString(CultureInfo.InvariantCulture)}", mistake);
        }

        return endPoints.Count > 0 ? (null, null, endPoints) : ("tcp://127.0.0.1:0", null, []);
    }

    private static string AddressOfPort(SectionReader section, string text, bool isTls)
    {
        bool isPort = int.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out int port)
            && port <= IPEndPoint.MaxPort;
        if (!isPort) section.Mistake("Port", $"{text} is not a port (0 to {IPEndPoint.MaxPort})");
        return $"{(isTls ? "tls" : "tcp")}://*:{(isPort ? port : 0).ToString(CultureInfo.InvariantCulture)}";
    }

    private static EndPoint? EndPointOf(string text, bool isTls, bool isHttp, out string mistake)
    {
        if (!NetworkAddress.TryParse(text, out NetworkAddress? address, out string? fault))
        {
            mistake = (isHttp ? HttpServer.WrongWith(text)! : fault).TrimEnd('.');
            return null;
        }

        try
        {
            EndPoint endPoint = address.ToEndPoint();
            mistake = address.Scheme == "tls" && !isTls
                ? "wants TLS, but there is no Tls:CertificatePath. Create one: whimbrel certs"
                : endPoint is DnsEndPoint { Host: not "localhost" } ? $"'{text}' names a host: a server listens at an "
                    + $"address of this machine, at localhost, or at * for all"
                : "";
            if (mistake.Length > 0) return null;
            return endPoint is DnsEndPoint local ? new IPEndPoint(IPAddress.Loopback, local.Port) : endPoint;
        }
        catch (Exception e) when (e is FormatException or NotSupportedException)
        {
            mistake = e.Message;
            return null;
        }
    }

    // ------------------------------------------------------------------ TLS

    /// <summary>
    /// Returns the TLS options in code if there is no such section; otherwise those of the section only, so that parts
    /// of two certificates are never combined.
    /// </summary>
    private static TlsOptions? ReadTls(SectionReader section, TlsOptions? code, string folder, bool isHttp)
    {
        bool needsProtocol = isHttp && code is { ApplicationProtocols.Count: 0 };
        if (!section.Exists && !needsProtocol) return code;
        TlsOptions options = code ?? new TlsOptions();
        IReadOnlyList<string> protocols = section.Texts(nameof(options.ApplicationProtocols)) is { Count: > 0 } names
            ? names
            : options.ApplicationProtocols;
        if (isHttp && protocols.Count == 0) protocols = [HttpProtocol];
        else if (isHttp && !protocols.Contains(HttpProtocol))
            section.Mistake(nameof(options.ApplicationProtocols),
                $"there is no {HttpProtocol} among them: no client would get an answer");
        TlsOptions read = new()
        {
            Certificate = ReadCertificate(section, folder) ?? options.Certificate,
            Roots = ReadRoots(section, folder) ?? options.Roots,
            ClientCertificates = section.Word(nameof(options.ClientCertificates), options.ClientCertificates),
            HandshakeTimeout = section.Time(nameof(options.HandshakeTimeout), options.HandshakeTimeout),
            MaxHandshakes = section.Int(nameof(options.MaxHandshakes), options.MaxHandshakes),
            MaxSilent = section.Int(nameof(options.MaxSilent), options.MaxSilent),
            AllowResumption = section.Flag(nameof(options.AllowResumption), options.AllowResumption),
            Provider = section.Word(nameof(options.Provider), options.Provider),
            ApplicationProtocols = protocols,

            AllowedWeakAlgorithms = options.AllowedWeakAlgorithms,
            CipherSuites = options.CipherSuites,
            DhParametersFile = options.DhParametersFile,
            ExtraRoots = options.ExtraRoots,
            Names = options.Names,
            PinnedKeys = options.PinnedKeys,
            Protocols = options.Protocols,
            RevocationLists = options.RevocationLists,
            SelectCertificate = options.SelectCertificate,
            ChallengeCertificate = options.ChallengeCertificate,
            TicketCount = options.TicketCount,
            TicketKeyLifetime = options.TicketKeyLifetime,
            TicketKeys = options.TicketKeys,
            TicketLifetime = options.TicketLifetime,
            UnknownName = options.UnknownName,
            Verify = options.Verify,
        };
        section.End();
        return read;
    }

    private static TlsCertificate? ReadCertificate(SectionReader section, string folder)
    {
        string? path = section.Text("CertificatePath");
        string? keyPath = section.Text("KeyPath");
        string? password = section.Text("Password");
        if (path is null)
        {
            if (keyPath is not null || password is not null)
                section.Mistake("CertificatePath", "is missing, but KeyPath or Password is given");
            return null;
        }

        // Relative paths start at the program's folder, independent of the working directory.
        string? file = FileAt(section, "CertificatePath", path, folder);
        string? keyFile = keyPath is null ? null : FileAt(section, "KeyPath", keyPath, folder);
        if (file is null || (keyPath is not null && keyFile is null)) return null;
        bool isPfx = Path.GetExtension(file).ToUpperInvariant() is ".PFX" or ".P12";
        if (isPfx && keyPath is not null) section.Mistake("KeyPath", $"is given, but {file} has its key in itself");
        TlsCertificate certificate =
            isPfx ? TlsCertificate.FromPfxFile(file, password) : TlsCertificate.FromPemFile(file, keyFile, password);
        try
        {
            if (certificate.Current.HasPrivateKey) return certificate;
            section.Mistake("CertificatePath", $"{file} has no private key. Create one: whimbrel certs");
        }
        catch (Exception e)
            when (e is IOException or UnauthorizedAccessException or CryptographicException or ArgumentException)
        {
            section.Mistake("CertificatePath", e.Message.TrimEnd('.'));
        }

        return null;
    }

    private static X509Certificate2Collection? ReadRoots(SectionReader section, string folder)
    {
        if (section.Text("RootsPath") is not { } path || FileAt(section, "RootsPath", path, folder) is not { } file)
            return null;
        X509Certificate2Collection roots = [];
        try
        {
            roots.ImportFromPemFile(file);
            if (roots.Count > 0) return roots;
            section.Mistake("RootsPath", $"{file} has no certificate in it");
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException or CryptographicException)
        {
            section.Mistake("RootsPath", $"{file} cannot be loaded: {e.Message.TrimEnd('.')}");
        }

        return null;
    }

    private static string? FileAt(SectionReader section, string key, string path, string folder)
    {
        string file = Path.Combine(folder, path);
        if (File.Exists(file)) return file;
        section.Mistake(key, $"{file} does not exist. Create one: whimbrel certs");
        return null;
    }
}
