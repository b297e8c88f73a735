namespace Whimbrel;

/// <summary>
/// Rule by which the kernel assigns datagrams to the loops of a shared port (<see cref="DatagramOptions.Loops"/>).
/// </summary>
public enum DatagramSteering
{
    /// <summary>
    /// By a hash of both addresses: datagrams of one peer go to one loop, in order, as long as the socket is open. One
    /// busy peer keeps one loop busy.
    /// </summary>
    ByPeer,

    /// <summary>At random: evenly, also for datagrams of one peer, which may then be reordered.</summary>
    Evenly,

    /// <summary>
    /// By the cpu that received it from the device: cpu number modulo loops. For loops bound to cpus
    /// (<see cref="EngineOptions.Cpus"/>).
    /// </summary>
    ByCpu,
}
