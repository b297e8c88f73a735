using System.Net;

namespace Whimbrel;

/// <summary>Options of a <see cref="Server"/>. Plain data, copied and validated once, at start.</summary>
public sealed class ServerOptions : ConnectionOptions
{
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

    /// <summary>Limits of the server and of its connections.</summary>
    /// <exception cref="ArgumentNullException">The value is null.</exception>
    public ServerLimits Limits
    {
        get;
        init => field = value ?? throw new ArgumentNullException(nameof(value));
    } = new();

    /// <summary>Time limits of each connection.</summary>
    /// <exception cref="ArgumentNullException">The value is null.</exception>
    public ConnectionTimeouts Timeouts
    {
        get;
        init => field = value ?? throw new ArgumentNullException(nameof(value));
    } = new();

    /// <summary>Socket options of the listeners and of accepted connections.</summary>
    /// <exception cref="ArgumentNullException">The value is null.</exception>
    public ServerSocketOptions Socket
    {
        get;
        init => field = value ?? throw new ArgumentNullException(nameof(value));
    } = new();

    /// <summary>Options of accepting: when, on which loops, and which connections.</summary>
    /// <exception cref="ArgumentNullException">The value is null.</exception>
    public AcceptOptions Accept
    {
        get;
        init => field = value ?? throw new ArgumentNullException(nameof(value));
    } = new();

    /// <summary>
    /// Path of a Unix socket, created at start and deleted at stop, from which <c>whimbrel top</c> reads the state of
    /// the engine's loops and servers. Each client gets one line of JSON (docs/guide/metrics.md). Only the user of this
    /// process may connect (on Windows: users with access to the folder). A path left over from a process that ended is
    /// replaced; any other existing path fails the start. Paths that end in <c>.status</c> are found by process id.
    /// Default null: none. One server of an engine is enough; the memory engine creates none.
    /// </summary>
    public string? StatusPath { get; init; }

    /// <summary>
    /// Replaces the process without refusing a connection: the start takes the listening sockets of the old process,
    /// and a new process takes those of this one. The same object for all servers of the process. Default null: the
    /// start binds.
    /// </summary>
    public ProcessUpgrade? Upgrade { get; init; }

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

    internal override ConnectionLimits CommonLimits => Limits;

    internal override ConnectionTimeouts CommonTimeouts => Timeouts;

    internal override ConnectionSocketOptions CommonSocket => Socket;

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
        Accept.Check(errors, engine);
        EndPointRules.Collect(errors, Address, EndPoint, EndPoints, engine, toListen: true);
        SocketOptionRules.Check(errors, this, engine);
        if (StatusPath is { } path)
        {
            if (EndPointRules.StatusAt(path, out string? mistake) is not { } status)
                errors.Add($"StatusPath {mistake}");
            else if (status.ToString() == Upgrade?.Path)
                errors.Add($"StatusPath = {path}, which is the path of Upgrade: give each a path of its own");
        }

        ProcessUpgrade.Check(errors, Upgrade, engine);
        Tls?.Validate(errors, isServer: true);
        if (Tls is null && EndPointRules.WantsTls(Address))
            errors.Add(
                $"Address = {Address}, but Tls is missing: a server needs a certificate. Create one: whimbrel certs");
        return errors;
    }
}
