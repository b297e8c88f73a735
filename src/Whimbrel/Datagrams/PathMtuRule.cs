namespace Whimbrel;

/// <summary>What the system does with a datagram that is larger than a path takes: IP_MTU_DISCOVER and IPV6_MTU_DISCOVER.</summary>
public enum PathMtuRule
{
    /// <summary>As the system is set up.</summary>
    System,

    /// <summary>It travels in fragments; routers may fragment it too (IPv4).</summary>
    Fragment,

    /// <summary>It is never fragmented: one that is larger than the known path fails to be sent (OnSendFailed), and what a router drops is told by OnPeerError, with the path's size.</summary>
    DontFragment,

    /// <summary>As <see cref="DontFragment"/>, but what the system believes of the path is ignored: for programs that probe by themselves.</summary>
    Probe,
}
