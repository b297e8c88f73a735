using System.Net;

namespace Whimbrel;

/// <summary>Options of a <see cref="Server"/>. Plain data, copied and validated once, at start.</summary>
public sealed class ServerOptions : ConnectionOptions
{
    internal const int MostConnections = 10_000_000;

    private string? _address;

    /// <summary>
    /// Address to listen on: an <see cref="IPEndPoint"/> (port 0 takes a free one) or a Unix path. Shorthand for one
    /// entry in <see cref="EndPoints"/>.
    /// </summary>
    public EndPoint? EndPoint { get; init; }

    /// <summary>
    /// Address to listen on, as text: <c>tcp://127.0.0.1:1111</c>, <c>tcp://*:1111</c>, <c>unix:/path</c> (see
    /// <see cref="NetworkAddress"/> for all forms). The only host name it accepts is <c>localhost</c>, which is
    /// 127.0.0.1. Shorthand for one entry in <see cref="EndPoints"/>.
    /// </summary>
    public string? Address
    {
        get => _address;
        init => _address = value;
    }

    /// <summary>Addresses to listen on. Use this, <see cref="EndPoint"/> or <see cref="Address"/>.</summary>
    public IReadOnlyList<EndPoint> EndPoints { get; init; } = [];

    /// <summary>
    /// Whether accepting begins at the end of the start. Default true. False: the start binds and listens, so that
    /// ports are known and mistakes are found. Clients then wait in the backlog until
    /// <see cref="Server.StartAcceptingAsync"/>.
    /// </summary>
    public bool AcceptAtStart { get; init; } = true;

    /// <summary>
    /// Maximum number of connections that the kernel keeps ready to be accepted. 1 to 65,535, limited by the system's
    /// somaxconn; default 4,096.
    /// </summary>
    public int Backlog { get; init; } = 4096;

    /// <summary>Whether an IPv6 wildcard listener also accepts IPv4 connections. Default true.</summary>
    public bool DualMode { get; init; } = true;

    /// <summary>
    /// SO_REUSEADDR: allows listening while old connections of the port are still in TIME_WAIT. Default true. Ignored
    /// on Windows, where the option has another meaning; elsewhere the portable engine always sets it.
    /// </summary>
    public bool ReuseAddress { get; init; } = true;

    /// <summary>
    /// SO_REUSEPORT: allows several processes to listen on one port; the kernel distributes connections. Default false.
    /// Linux.
    /// </summary>
    public bool ReusePort { get; init; }

    /// <summary>
    /// SO_EXCLUSIVEADDRUSE: prevents other processes from taking the port by force. Default false. Windows; on other
    /// systems ports are exclusive unless both sides set <see cref="ReusePort"/>.
    /// </summary>
    public bool ExclusiveAddressUse { get; init; }

    /// <summary>
    /// TCP_FASTOPEN: number of connections with data in their SYN that may wait for the end of their handshake. 1 to
    /// 65,535; default 0, off. Linux, with bit 2 set in net.ipv4.tcp_fastopen.
    /// </summary>
    public int FastOpenQueue { get; init; }

    /// <summary>
    /// TCP_DEFER_ACCEPT: accepts a connection only when its first bytes have arrived, or after this time. Whole
    /// seconds, which Linux rounds up to its steps of 1, 3, 7, 15, 31...; 1 s to 1 hour; default zero, off. Linux.
    /// </summary>
    public TimeSpan DeferAccept { get; init; }

    /// <summary>
    /// Maximum number of open connections; further ones are accepted, counted and closed at once. 1 to 10,000,000;
    /// default 100,000.
    /// </summary>
    public int MaxConnections { get; init; } = 100_000;

    /// <summary>
    /// Whether to delete a Unix path left over from a process that ended. Only sockets are deleted, and only if no
    /// process answers there. Default true.
    /// </summary>
    public bool RemoveStaleUnixPath { get; init; } = true;

    /// <summary>
    /// Number of connections after which accepting stops; accepted connections continue. Default 0, no limit.
    /// <see cref="Server.StartAcceptingAsync"/> restarts the count.
    /// </summary>
    public int AcceptLimit { get; init; }

    /// <summary>One listener for all loops, or one for each. Default <see cref="AcceptScheme.Auto"/>.</summary>
    public AcceptScheme AcceptScheme { get; init; }

    /// <summary>Rule that assigns accepted connections to loops. Default <see cref="Placement.Auto"/>.</summary>
    public Placement Placement { get; init; }

    /// <summary>
    /// Function that returns the loop for each accepted connection, a loop of the server's engine. Replaces
    /// <see cref="Placement"/>. Called on the accepting loop; must not block. If it throws or returns a loop of another
    /// engine, that connection is closed and <see cref="Server.OnError"/> is called.
    /// </summary>
    public Func<AcceptedConnection, Loop>? ChooseLoop { get; init; }

    /// <summary>
    /// Filter called for each connection before its session is created; false closes the connection at once. Called on
    /// the accepting loop; must not block, so look data up beforehand. If it throws, that connection is closed and
    /// <see cref="Server.OnError"/> is called.
    /// </summary>
    public Func<AcceptedConnection, bool>? Admit { get; init; }

    /// <summary>
    /// Path of a Unix socket, created at start and deleted at stop, from which <c>whimbrel top</c> reads the state of
    /// the engine's loops and servers. Each client gets one line of JSON (docs/guide/metrics.md). Only the user of this
    /// process may connect (on Windows: users with access to the folder). A path left over from a process that ended is
    /// replaced; any other existing path fails the start. Paths that end in <c>.status</c> are found by process id.
    /// Default null: none. One server of an engine is enough; the memory engine creates none.
    /// </summary>
    public string? StatusPath { get; init; }

    /// <summary>
    /// TLS options for every connection, on TCP and on Unix sockets. Default null: no TLS. An address <c>tls://</c>
    /// requires them.
    /// </summary>
    public TlsOptions? Tls { get; init; }

    /// <summary>
    /// Object shared by all sessions of the server; initial value of <see cref="Server.State"/>. The library does not
    /// use it.
    /// </summary>
    public object? State { get; init; }

    /// <summary>Returns a copy that listens on the given address.</summary>
    internal ServerOptions At(string address)
    {
        if (EndPoint is not null || EndPoints.Count > 0 || Address is not null)
            throw new ArgumentException(
                "The options say where to listen, and an address is given too: use one of them.");
        return With(address);
    }

    /// <summary>Returns a copy that listens on another address.</summary>
    /// <param name="address">Address, as in <see cref="Address"/>. Replaces the address of these options;
    /// <see cref="EndPoint"/> and <see cref="EndPoints"/> stay.</param>
    public ServerOptions With(string address)
    {
        ArgumentNullException.ThrowIfNull(address);
        ServerOptions copy = (ServerOptions)Clone();
        copy._address = address;
        return copy;
    }

    /// <summary>
    /// Returns the addresses to listen on, from whichever of the three properties is set. After <see cref="Validate"/>.
    /// </summary>
    internal List<EndPoint> EndPointsOn(Engine engine) =>
        EndPointRules.Collect(null, Address, EndPoint, EndPoints, engine, toListen: true);

    /// <summary>
    /// Returns all mistakes for which a start would reject these options, one sentence each, beginning with the
    /// option's name; empty if there are none. Opens no socket; reads the certificate.
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
        if (AcceptScheme == AcceptScheme.ListenerPerLoop && !engine.CanSharePorts)
            errors.Add("AcceptScheme = ListenerPerLoop, which needs SO_REUSEPORT of Linux: use OneListener");
        if (ChooseLoop is not null && Placement != Placement.Auto)
            errors.Add("Placement and ChooseLoop are both given: use one of them");
        EndPointRules.Collect(errors, Address, EndPoint, EndPoints, engine, toListen: true);
        SocketOptionRules.Check(errors, this, engine);
        if (StatusPath is { } path && EndPointRules.StatusAt(path, out string? mistake) is null)
            errors.Add($"StatusPath {mistake}");
        Tls?.Validate(errors, isServer: true);
        if (Tls is null && EndPointRules.WantsTls(Address))
            errors.Add(
                $"Address = {Address}, but Tls is missing: a server needs a certificate. Create one: whimbrel certs");
        return errors;
    }
}
