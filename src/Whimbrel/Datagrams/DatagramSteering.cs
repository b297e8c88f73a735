namespace Whimbrel;

/// <summary>Which loop of a shared port (<see cref="DatagramOptions.Loops"/>) receives a datagram. The system decides.</summary>
public enum DatagramSteering
{
    /// <summary>By a hash of both addresses: what one peer sends goes to one loop, in order, as long as the socket lives. One busy peer keeps one loop busy.</summary>
    ByPeer,

    /// <summary>At random: spread evenly, also what comes from one peer, whose datagrams then overtake each other.</summary>
    Evenly,

    /// <summary>By the cpu that took it from the device: cpu number modulo loops. For loops that are bound to cpus (<see cref="EngineOptions.Cpus"/>).</summary>
    ByCpu,
}
