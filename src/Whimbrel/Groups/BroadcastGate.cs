namespace Whimbrel;

/// <summary>Whether a connection takes the broadcasts of its groups now. For protocols, so that none lands inside a message.</summary>
public enum BroadcastGate
{
    /// <summary>Broadcasts are queued as they come. The default.</summary>
    Open,

    /// <summary>Broadcasts wait, counted against the send limit, until the gate is opened.</summary>
    Held,

    /// <summary>Broadcasts pass this connection by.</summary>
    Shut,
}
