namespace Whimbrel.Compat.Links;

/// <summary>The native session of a link, for one connection.</summary>
internal interface IBridge
{
    /// <summary>What it reports to.</summary>
    BridgeEnd End { get; }

    /// <summary>What comes much at a time is received there, where that can be. In the session's order.</summary>
    void SetReceiveBuffer(byte[] buffer);

    /// <summary>Broadcasts wait, or go on behind what was sent meanwhile.</summary>
    /// <param name="holds">They wait.</param>
    /// <returns>False, and nothing was done: this is not the session's thread.</returns>
    bool TryHoldBroadcasts(bool holds);
}
