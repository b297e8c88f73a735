using System.Net;

namespace Whimbrel;

/// <summary>Options of a <see cref="Client"/>. Plain data, copied and validated once, by the first connect.</summary>
public sealed class ClientOptions : ConnectionOptions
{
    private const int MaxEndPoints = 64;
    private static readonly TlsOptions s_defaultTls = new();

    // Not init-only, because With changes them in its copy.
    private EndPoint? _endPoint;
    private string? _address;
    private IReadOnlyList<EndPoint> _endPoints = [];
    private TlsOptions? _tls;

    /// <summary>
    /// Address to connect to: an <see cref="IPEndPoint"/>, a <see cref="DnsEndPoint"/> or a Unix path. Shorthand for
    /// one entry in <see cref="EndPoints"/>.
    /// </summary>
    public EndPoint? EndPoint
    {
        get => _endPoint;
        init => _endPoint = value;
    }

    /// <summary>
    /// Address to connect to, as text: <c>tcp://example.org:http</c>, <c>tcp://[::1]:1111</c>, <c>unix:/path</c> (see
    /// <see cref="NetworkAddress"/> for all forms). Shorthand for one entry in <see cref="EndPoints"/>.
    /// </summary>
    public string? Address
    {
        get => _address;
        init => _address = value;
    }

    /// <summary>
    /// Alternative addresses. One connect tries them in this order and uses the first that answers. If TLS or a
    /// protocol's opening handshake then fails, later connects try that address last, until one of them has succeeded.
    /// Use this, <see cref="EndPoint"/> or <see cref="Address"/>. At most 64.
    /// </summary>
    public IReadOnlyList<EndPoint> EndPoints
    {
        get => _endPoints;
        init => _endPoints = value;
    }

    /// <summary>
    /// The loop of the client's connections, including reconnects. Inside a session, its own <see cref="Session.Loop"/>
    /// makes one thread serve both connections of a relay. Must be a loop of <see cref="ConnectionOptions.Engine"/>,
    /// which may be omitted then. Default null: the loops of the engine take turns.
    /// </summary>
    public Loop? Loop { get; init; }

    internal Engine EngineOrDefault => Engine ?? Loop?.Engine ?? Whimbrel.Engine.Default;

    /// <summary>Limits of each connection.</summary>
    /// <exception cref="ArgumentNullException">The value is null.</exception>
    public ConnectionLimits Limits
    {
        get;
        init => field = value ?? throw new ArgumentNullException(nameof(value));
    } = new();

    /// <summary>Time limits of connects and of each connection.</summary>
    /// <exception cref="ArgumentNullException">The value is null.</exception>
    public ClientTimeouts Timeouts
    {
        get;
        init => field = value ?? throw new ArgumentNullException(nameof(value));
    } = new();

    /// <summary>Socket options of each connection.</summary>
    /// <exception cref="ArgumentNullException">The value is null.</exception>
    public ClientSocketOptions Socket
    {
        get;
        init => field = value ?? throw new ArgumentNullException(nameof(value));
    } = new();

    /// <summary>
    /// TLS options of the connection. Default null: no TLS, or the default options for an address <c>tls://</c>.
    /// </summary>
    public TlsOptions? Tls
    {
        get => _tls;
        init => _tls = value;
    }

    /// <summary>The TLS options to use; null for no TLS. After <see cref="Validate"/>.</summary>
    internal TlsOptions? TlsToSpeak => Tls ?? (EndPointRules.WantsTls(Address) ? s_defaultTls : null);

    /// <summary>Policy for automatic reconnects. Default null: none.</summary>
    public ReconnectPolicy? Reconnect { get; init; }

    internal override ConnectionLimits CommonLimits => Limits;

    internal override ConnectionTimeouts CommonTimeouts => Timeouts;

    internal override ConnectionSocketOptions CommonSocket => Socket;

    /// <summary>
    /// Returns a copy of these options with another address or other TLS options, so that several clients can share one
    /// set of options.
    /// </summary>
    /// <param name="address">Address, as in <see cref="Address"/>; the copy then has neither <see cref="EndPoint"/> nor
    /// <see cref="EndPoints"/>. Null keeps the address of these options.</param>
    /// <param name="tls">TLS options, as in <see cref="Tls"/>. Null keeps those of these options.</param>
    /// <returns>The copy. A mistake in it is reported by the first connect.</returns>
    public ClientOptions With(string? address = null, TlsOptions? tls = null)
    {
        ClientOptions copy = (ClientOptions)Clone();
        if (tls is not null) copy._tls = tls;
        if (address is null) return copy;
        copy._address = address;
        copy._endPoint = null;
        copy._endPoints = [];
        return copy;
    }

    /// <summary>
    /// Returns the addresses to connect to, from whichever of the three properties is set. After
    /// <see cref="Validate"/>.
    /// </summary>
    internal List<EndPoint> TargetsOn(Engine engine) =>
        EndPointRules.Collect(null, Address, EndPoint, EndPoints, engine, toListen: false);

    internal void Validate(Engine engine)
    {
        OptionErrors errors = new(nameof(ClientOptions));
        ValidateCommon(errors);
        EndPointRules.Collect(errors, Address, EndPoint, EndPoints, engine, toListen: false);
        if (EndPoints.Count > MaxEndPoints)
            errors.Add($"EndPoints has {EndPoints.Count} entries, allowed 1 to {MaxEndPoints}");
        if (Loop is not null && !ReferenceEquals(Loop.Engine, engine))
            errors.Add(
                $"Loop = {Loop}, which is no loop of Engine ({engine}): leave Engine out, or give one of its loops");
        Reconnect?.Validate(errors);
        if (Socket.LocalEndPoint is not null)
            EndPointRules.Check(errors, "Socket.LocalEndPoint", Socket.LocalEndPoint, engine);
        SocketOptionRules.Check(errors, this, engine);
        Tls?.Validate(errors, isServer: false);
        if (Tls is { NeedsHostName: true } && EndPointRules.Collect(null, Address, EndPoint, EndPoints, engine,
            toListen: false).Exists(static e => e is not (IPEndPoint or DnsEndPoint)))
            errors.Add("Tls.HostName is missing: a path has no name that a certificate could cover");
        errors.ThrowIfAny();
    }
}
