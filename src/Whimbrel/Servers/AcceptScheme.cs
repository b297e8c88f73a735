namespace Whimbrel;

/// <summary>How a <see cref="Server"/> accepts connections at one address.</summary>
public enum AcceptScheme
{
    /// <summary>The scheme that is best by measurements; currently <see cref="OneListener"/>. The default.</summary>
    Auto,

    /// <summary>One loop accepts, and passes each connection to the loop chosen by <see cref="Placement"/>.</summary>
    OneListener,

    /// <summary>
    /// Each loop has its own listener at the same TCP port (SO_REUSEPORT): the kernel distributes new connections, and
    /// each stays on the loop that accepted it. Linux only; a Unix path always has one listener. The port stays
    /// exclusive to this server: a server without port sharing cannot bind it.
    /// </summary>
    ListenerPerLoop,
}
