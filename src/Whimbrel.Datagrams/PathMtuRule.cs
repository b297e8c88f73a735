namespace Whimbrel;

/// <summary>Treatment of a datagram larger than the path MTU: IP_MTU_DISCOVER and IPV6_MTU_DISCOVER.</summary>
public enum PathMtuRule
{
    /// <summary>As configured in the system.</summary>
    System,

    /// <summary>The datagram is fragmented, possibly by routers, too (IPv4).</summary>
    Fragment,

    /// <summary>
    /// The datagram is never fragmented. If it is larger than the known path MTU, the send fails (OnSendFailed); if a
    /// router drops it, OnPeerError is called with the path MTU.
    /// </summary>
    DontFragment,

    /// <summary>
    /// As <see cref="DontFragment"/>, but the known path MTU is ignored: for programs with their own path MTU
    /// discovery.
    /// </summary>
    Probe,
}
