using System.Net;

namespace Whimbrel;

/// <summary>What a <see cref="Server"/> needs to know. Plain data, copied and validated once, at start.</summary>
public sealed class ServerOptions : ConnectionOptions
{
    internal const int MostConnections = 10_000_000;

    private string? _address;

    /// <summary>Where to listen: an <see cref="IPEndPoint"/> (port 0 takes a free one) or a Unix path. Shorthand for one entry in <see cref="EndPoints"/>.</summary>
    public EndPoint? EndPoint { get; init; }

    /// <summary>
    /// Where to listen, as text: <c>tcp://127.0.0.1:1111</c>, <c>tcp://*:1111</c>, <c>unix:/path</c> (<see cref="NetworkAddress"/> has all
    /// forms). Of names it takes only <c>localhost</c>, which is 127.0.0.1. Shorthand for one entry in <see cref="EndPoints"/>.
    /// </summary>
    public string? Address
    {
        get => _address;
        init => _address = value;
    }

    /// <summary>Several addresses to listen at. Give this, <see cref="EndPoint"/> or <see cref="Address"/>.</summary>
    public IReadOnlyList<EndPoint> EndPoints { get; init; } = [];

    /// <summary>
    /// Accept from the end of the start on. Default true. False: the start binds and listens, so that ports are known and mistakes
    /// found, and who connects waits in the backlog until <see cref="Server.StartAcceptingAsync"/>.
    /// </summary>
    public bool AcceptAtStart { get; init; } = true;

    /// <summary>Connections that the system keeps ready to be accepted. 1 up to 65,535, and at most the system's somaxconn; default 4,096.</summary>
    public int Backlog { get; init; } = 4096;

    /// <summary>For an IPv6 wildcard listener: also take IPv4 connections. Default true.</summary>
    public bool DualMode { get; init; } = true;

    /// <summary>SO_REUSEADDR: listen though old connections of the port are still in TIME_WAIT. Default true (ignored on Windows, where it means something else; the portable engine cannot leave it out elsewhere).</summary>
    public bool ReuseAddress { get; init; } = true;

    /// <summary>SO_REUSEPORT: several processes may listen at one port; the system spreads connections. Default false. Linux.</summary>
    public bool ReusePort { get; init; }

    /// <summary>SO_EXCLUSIVEADDRUSE: nobody else can take the port by force. Default false. Windows; elsewhere nobody can in any case, unless both sides set <see cref="ReusePort"/>.</summary>
    public bool ExclusiveAddressUse { get; init; }

    /// <summary>TCP_FASTOPEN: a known peer's first bytes come with its SYN; this many such connections may wait for the end of their handshake. 1 up to 65,535; 0 (the default) is off. Linux, with bit 2 in net.ipv4.tcp_fastopen.</summary>
    public int FastOpenQueue { get; init; }

    /// <summary>TCP_DEFER_ACCEPT: accept a connection only when its first bytes are there, or after this time. Whole seconds, which Linux rounds up to its steps of 1, 3, 7, 15, 31...; 1 s up to an hour; zero (the default) is off. Linux.</summary>
    public TimeSpan DeferAccept { get; init; }

    /// <summary>Most connections at a time; more are accepted and closed at once, and counted. 1 up to 10,000,000; default 100,000.</summary>
    public int MaxConnections { get; init; } = 100_000;

    /// <summary>Delete a Unix path that is left over from a process that ended. Only sockets are deleted, and only when nobody answers there. Default true.</summary>
    public bool RemoveStaleUnixPath { get; init; } = true;

    /// <summary>Stop accepting after so many connections; those that were accepted go on. 0 (the default) is no limit. <see cref="Server.StartAcceptingAsync"/> counts anew.</summary>
    public int AcceptLimit { get; init; }

    /// <summary>One listener for all loops, or one for each. Default <see cref="AcceptScheme.Auto"/>.</summary>
    public AcceptScheme AcceptScheme { get; init; }

    /// <summary>Which loop an accepted connection lives on. Default <see cref="Placement.Auto"/>.</summary>
    public Placement Placement { get; init; }

    /// <summary>
    /// Chooses the loop of each accepted connection: one of the server's engine. Instead of <see cref="Placement"/>. Called on the
    /// accepting loop, must not block. If it throws or gives another engine's loop, that connection is closed, and
    /// <see cref="Server.OnError"/> is told.
    /// </summary>
    public Func<AcceptedConnection, Loop>? ChooseLoop { get; init; }

    /// <summary>
    /// Sees each connection before a session is made for it; false closes it at once. Called on the accepting loop, must not
    /// block: look things up beforehand. If it throws, that connection is closed, and <see cref="Server.OnError"/> is told.
    /// </summary>
    public Func<AcceptedConnection, bool>? Admit { get; init; }

    /// <summary>
    /// The path of a Unix socket, made at start and deleted at stop, at which <c>whimbrel top</c> finds out how the engine's loops and servers are: whoever connects gets
    /// one line of JSON (docs/guide/metrics.md). Only this process's user may (on Windows: whoever may into the folder). A path that is left over from a process that
    /// ended is taken, any other fails the start. Paths that end in <c>.status</c> are found by process id. Null (the default): none. One server of an engine is enough;
    /// the memory engine makes none.
    /// </summary>
    public string? StatusPath { get; init; }

    /// <summary>TLS for every connection, on TCP and on Unix sockets. Null (the default): none. An address <c>tls://</c> needs it.</summary>
    public TlsOptions? Tls { get; init; }

    /// <summary>Anything that all sessions of the server share, first value of <see cref="Server.State"/>. The library does not use it.</summary>
    public object? State { get; init; }

    /// <summary>A copy that listens there.</summary>
    internal ServerOptions At(string address)
    {
        if (EndPoint is not null || EndPoints.Count > 0 || Address is not null) throw new ArgumentException("The options say where to listen, and an address is given too: use one of them.");
        return With(address);
    }

    /// <summary>A copy that listens at another address.</summary>
    /// <param name="address">As <see cref="Address"/>. Replaces an address that these options have; <see cref="EndPoint"/> and <see cref="EndPoints"/> stay.</param>
    public ServerOptions With(string address)
    {
        ArgumentNullException.ThrowIfNull(address);
        ServerOptions copy = (ServerOptions)Clone();
        copy._address = address;
        return copy;
    }

    /// <summary>Where to listen, whichever of the three properties says so. After <see cref="Validate"/>.</summary>
    internal List<EndPoint> EndPointsOn(Engine engine) => EndPointRules.Collect(null, Address, EndPoint, EndPoints, engine, toListen: true);

    /// <summary>
    /// What a start would refuse these options for, all of it, a sentence for each that begins with the option's name; empty when nothing is wrong. For
    /// those who have options from somewhere and want to say it before they start anything. Opens nothing; reads the certificate.
    /// </summary>
    public IReadOnlyList<string> FindMistakes() => Judge(Engine ?? Engine.Default).Mistakes;

    internal void Validate(Engine engine) => Judge(engine).ThrowIfAny();

    private OptionErrors Judge(Engine engine)
    {
        OptionErrors errors = new(nameof(ServerOptions));
        ValidateCommon(errors);
        errors.Range(nameof(Backlog), Backlog, 1, 65_535);
        errors.Range(nameof(MaxConnections), MaxConnections, 1, MostConnections);
        errors.Range(nameof(AcceptLimit), AcceptLimit, 0, int.MaxValue);
        errors.Defined(nameof(AcceptScheme), AcceptScheme);
        errors.Defined(nameof(Placement), Placement);
        if (AcceptScheme == AcceptScheme.ListenerPerLoop && !engine.CanSharePorts) errors.Add("AcceptScheme = ListenerPerLoop, which needs SO_REUSEPORT of Linux: use OneListener");
        if (ChooseLoop is not null && Placement != Placement.Auto) errors.Add("Placement and ChooseLoop are both given: use one of them");
        EndPointRules.Collect(errors, Address, EndPoint, EndPoints, engine, toListen: true);
        SocketOptionRules.Check(errors, this, engine);
        if (StatusPath is { } path && EndPointRules.StatusAt(path, out string? mistake) is null) errors.Add($"StatusPath {mistake}");
        Tls?.Validate(errors, isServer: true);
        if (Tls is null && EndPointRules.WantsTls(Address)) errors.Add($"Address = {Address}, but Tls is missing: a server needs a certificate. Create one: whimbrel certs");
        return errors;
    }
}
