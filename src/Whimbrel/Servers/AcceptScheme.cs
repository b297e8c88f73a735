namespace Whimbrel;

/// <summary>How a <see cref="Server"/> accepts at one address.</summary>
public enum AcceptScheme
{
    /// <summary>What measurements say is best; today <see cref="OneListener"/>. The default.</summary>
    Auto,

    /// <summary>One loop accepts and hands each connection to the loop that <see cref="Placement"/> names.</summary>
    OneListener,

    /// <summary>
    /// Each loop has a listener of its own at the same TCP port (SO_REUSEPORT): the system spreads new connections, and each
    /// stays where it was accepted. Linux only; a Unix path has one listener also then. The port is still this server's
    /// alone: another one that did not ask to share is refused.
    /// </summary>
    ListenerPerLoop,
}
