namespace Whimbrel;

/// <summary>
/// Whether a connection accepts broadcasts of its groups. For protocols, so that no broadcast is inserted inside a
/// message.
/// </summary>
public enum BroadcastGate
{
    /// <summary>Broadcasts are queued when they arrive. The default.</summary>
    Open,

    /// <summary>Broadcasts wait until the gate is opened; they count against the send limit.</summary>
    Held,

    /// <summary>Broadcasts skip this connection.</summary>
    Shut,
}
