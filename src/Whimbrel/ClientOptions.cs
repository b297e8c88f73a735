using System.Net;

namespace Whimbrel;

/// <summary>What a <see cref="Client"/> needs to know. Plain data, copied and validated once, by the first connect.</summary>
public sealed class ClientOptions : ConnectionOptions
{
    /// <summary>Where to connect: an <see cref="IPEndPoint"/> or a Unix path.</summary>
    public EndPoint? EndPoint { get; init; }

    /// <summary>The address to connect from, or null for the system's choice.</summary>
    public EndPoint? LocalEndPoint { get; init; }

    /// <summary>Longest time for a dial. 1 ms up to an hour; default 15 s.</summary>
    public TimeSpan ConnectTimeout { get; init; } = TimeSpan.FromSeconds(15);

    /// <summary>
    /// TCP_FASTOPEN_CONNECT: at a server that is known from an earlier connection, what OnConnected sends goes out with the SYN. There
    /// OnConnected comes before the server has answered, and a refusal is the end of a connection, not a failed dial. The bytes may
    /// arrive twice (RFC 7413): for requests that can be repeated. Default false. Linux, with bit 1 in net.ipv4.tcp_fastopen.
    /// </summary>
    public bool FastOpen { get; init; }

    internal void Validate(Engine engine)
    {
        OptionErrors errors = new(nameof(ClientOptions));
        ValidateCommon(errors);
        errors.Range(nameof(ConnectTimeout), ConnectTimeout, TimeSpan.FromMilliseconds(1), TimeSpan.FromHours(1));
        EndPointRules.Check(errors, nameof(EndPoint), EndPoint, engine);
        if (EndPoint is IPEndPoint { Port: 0 }) errors.Add("EndPoint has port 0, allowed 1 to 65535");
        if (LocalEndPoint is not null) EndPointRules.Check(errors, nameof(LocalEndPoint), LocalEndPoint, engine);
        SocketOptionRules.Check(errors, this, engine);
        errors.ThrowIfAny();
    }
}
