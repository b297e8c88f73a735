using System.Net;

namespace Whimbrel;

/// <summary>What a <see cref="Client"/> needs to know. Plain data, copied and validated once, by the first connect.</summary>
public sealed class ClientOptions : ConnectionOptions
{
    private const int MaxEndPoints = 64;
    private static readonly TlsOptions s_defaultTls = new();

    // What With changes in its copy.
    private EndPoint? _endPoint;
    private string? _address;
    private IReadOnlyList<EndPoint> _endPoints = [];
    private TlsOptions? _tls;

    /// <summary>Where to connect: an <see cref="IPEndPoint"/>, a <see cref="DnsEndPoint"/> or a Unix path. Shorthand for one entry in <see cref="EndPoints"/>.</summary>
    public EndPoint? EndPoint
    {
        get => _endPoint;
        init => _endPoint = value;
    }

    /// <summary>
    /// Where to connect, as text: <c>tcp://example.org:http</c>, <c>tcp://[::1]:1111</c>, <c>unix:/path</c> (<see cref="NetworkAddress"/> has
    /// all forms). Shorthand for one entry in <see cref="EndPoints"/>.
    /// </summary>
    public string? Address
    {
        get => _address;
        init => _address = value;
    }

    /// <summary>
    /// Several places of which one is wanted: they are tried in this order within one dial, and the first that answers is
    /// taken. A place that accepts, and where TLS or a protocol's opening handshake then fails, is tried after the others by the next dials,
    /// until one of them has connected. Give this, <see cref="EndPoint"/> or <see cref="Address"/>. At most 64.
    /// </summary>
    public IReadOnlyList<EndPoint> EndPoints
    {
        get => _endPoints;
        init => _endPoints = value;
    }

    /// <summary>The address to connect from, or null for the system's choice.</summary>
    public EndPoint? LocalEndPoint { get; init; }

    /// <summary>
    /// The loop its connections live on, also those that the policy dials: inside a session its own <see cref="Session.Loop"/>, so that one thread
    /// serves both connections of a relay. A loop of <see cref="ConnectionOptions.Engine"/>, which may be left out then. Null (the
    /// default): the loops of the engine take turns.
    /// </summary>
    public Loop? Loop { get; init; }

    internal Engine EngineOrDefault => Engine ?? Loop?.Engine ?? Whimbrel.Engine.Default;

    /// <summary>Longest time for a dial, over all its addresses and with looking up their names. 1 ms up to an hour; default 15 s.</summary>
    public TimeSpan ConnectTimeout { get; init; } = TimeSpan.FromSeconds(15);

    /// <summary>
    /// TCP_FASTOPEN_CONNECT: at a server that is known from an earlier connection, what OnConnected sends goes out with the SYN. There
    /// OnConnected comes before the server has answered, and a refusal is the end of a connection, not a failed dial. The bytes may
    /// arrive twice (RFC 7413): for requests that can be repeated. Default false. Linux, with bit 1 in net.ipv4.tcp_fastopen.
    /// </summary>
    public bool FastOpen { get; init; }

    /// <summary>TLS for the connection. Null (the default): none, unless the address is <c>tls://</c>, which takes the default options.</summary>
    public TlsOptions? Tls
    {
        get => _tls;
        init => _tls = value;
    }

    /// <summary>What TLS to speak; null for none. After <see cref="Validate"/>.</summary>
    internal TlsOptions? TlsToSpeak => Tls ?? (EndPointRules.WantsTls(Address) ? s_defaultTls : null);

    /// <summary>Whether and when the client dials again by itself. Null (the default): never.</summary>
    public ReconnectPolicy? Reconnect { get; init; }

    /// <summary>Copies these options, with another address or other TLS: one set of options for several clients.</summary>
    /// <param name="address">
    /// As <see cref="Address"/>; the copy then has neither <see cref="EndPoint"/> nor <see cref="EndPoints"/>. Null keeps
    /// what these options have.
    /// </param>
    /// <param name="tls">As <see cref="Tls"/>. Null keeps what these options have.</param>
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

    /// <summary>What to dial, whichever of the three properties says so. After <see cref="Validate"/>.</summary>
    internal List<EndPoint> TargetsOn(Engine engine) => EndPointRules.Collect(null, Address, EndPoint, EndPoints, engine, toListen: false);

    internal void Validate(Engine engine)
    {
        OptionErrors errors = new(nameof(ClientOptions));
        ValidateCommon(errors);
        errors.Range(nameof(ConnectTimeout), ConnectTimeout, TimeSpan.FromMilliseconds(1), TimeSpan.FromHours(1));
        EndPointRules.Collect(errors, Address, EndPoint, EndPoints, engine, toListen: false);
        if (EndPoints.Count > MaxEndPoints) errors.Add($"EndPoints has {EndPoints.Count} entries, allowed 1 to {MaxEndPoints}");
        if (Loop is not null && !ReferenceEquals(Loop.Engine, engine)) errors.Add($"Loop = {Loop}, which is no loop of Engine ({engine}): leave Engine out, or give one of its loops");
        Reconnect?.Validate(errors);
        if (LocalEndPoint is not null) EndPointRules.Check(errors, nameof(LocalEndPoint), LocalEndPoint, engine);
        SocketOptionRules.Check(errors, this, engine);
        Tls?.Validate(errors, isServer: false);
        if (Tls is { NeedsHostName: true } && EndPointRules.Collect(null, Address, EndPoint, EndPoints, engine, toListen: false).Exists(static e => e is not (IPEndPoint or DnsEndPoint)))
            errors.Add("Tls.HostName is missing: a path has no name that a certificate could cover");
        errors.ThrowIfAny();
    }
}
