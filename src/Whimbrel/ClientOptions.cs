using System.Net;

namespace Whimbrel;

/// <summary>What a <see cref="Client"/> needs to know. Plain data, copied and validated once, by the first connect.</summary>
public sealed class ClientOptions : ConnectionOptions
{
    /// <summary>Where to connect: an <see cref="IPEndPoint"/> or a Unix path.</summary>
    public EndPoint? EndPoint { get; init; }

    /// <summary>
    /// Where to connect, as text: <c>tcp://127.0.0.1:http</c>, <c>tcp://[::1]:1111</c>, <c>unix:/path</c> (<see cref="NetworkAddress"/> has
    /// all forms). Give this or <see cref="EndPoint"/>.
    /// </summary>
    public string? Address { get; init; }


    /// <summary>The address to connect from, or null for the system's choice.</summary>
    public EndPoint? LocalEndPoint { get; init; }

    /// <summary>Longest time for a dial. 1 ms up to an hour; default 15 s.</summary>
    public TimeSpan ConnectTimeout { get; init; } = TimeSpan.FromSeconds(15);

    /// <summary>What to dial, whichever of the three properties says so. After <see cref="Validate"/>.</summary>
    internal List<EndPoint> TargetsOn(Engine engine) => EndPointRules.Collect(null, Address, EndPoint, [], engine, toListen: false);

    internal void Validate(Engine engine)
    {
        OptionErrors errors = new(nameof(ClientOptions));
        ValidateCommon(errors);
        errors.Range(nameof(ConnectTimeout), ConnectTimeout, TimeSpan.FromMilliseconds(1), TimeSpan.FromHours(1));
        EndPointRules.Collect(errors, Address, EndPoint, [], engine, toListen: false);
        if (LocalEndPoint is not null) EndPointRules.Check(errors, nameof(LocalEndPoint), LocalEndPoint, engine);
        errors.ThrowIfAny();
    }
}
