using System.Net;

namespace Whimbrel;

/// <summary>What a <see cref="Server"/> needs to know. Plain data, copied and validated once, at start.</summary>
public sealed class ServerOptions : ConnectionOptions
{
    private EndPoint? _endPoint;

    /// <summary>Where to listen: an <see cref="IPEndPoint"/> (port 0 takes a free one) or a Unix path. Shorthand for one entry in <see cref="EndPoints"/>.</summary>
    public EndPoint? EndPoint
    {
        get => _endPoint;
        init => _endPoint = value;
    }

    /// <summary>Several addresses to listen at. Give this or <see cref="EndPoint"/>.</summary>
    public IReadOnlyList<EndPoint> EndPoints { get; init; } = [];

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

    /// <summary>A copy that listens there.</summary>
    internal ServerOptions At(EndPoint endPoint)
    {
        if (AllEndPoints.Count > 0) throw new ArgumentException("The options name an end point, and an address is given too: use one of them.");
        ServerOptions copy = (ServerOptions)Clone();
        copy._endPoint = endPoint;
        return copy;
    }

    internal IReadOnlyList<EndPoint> AllEndPoints => EndPoint is null ? EndPoints : [EndPoint];

    internal void Validate(Engine engine)
    {
        OptionErrors errors = new(nameof(ServerOptions));
        ValidateCommon(errors);
        errors.Range(nameof(Backlog), Backlog, 1, 65_535);
        errors.Range(nameof(MaxConnections), MaxConnections, 1, 10_000_000);
        if (EndPoint is not null && EndPoints.Count > 0) errors.Add("EndPoint and EndPoints are both given: use one of them");
        if (AllEndPoints.Count == 0) errors.Add("EndPoint is missing: give an IPEndPoint or a UnixDomainSocketEndPoint");
        foreach (EndPoint endPoint in AllEndPoints) EndPointRules.Check(errors, nameof(EndPoint), endPoint, engine);
        SocketOptionRules.Check(errors, this, engine);
        errors.ThrowIfAny();
    }
}
