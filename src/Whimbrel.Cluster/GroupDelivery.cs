namespace Whimbrel.Clusters;

/// <summary>Gives a broadcast to the members on this node, for members that want it in a form: as a WebSocket message, for instance.</summary>
/// <param name="members">The members here.</param>
/// <param name="payload">What was broadcast, on this node or another. Valid during the call.</param>
/// <param name="except">A member that does not get it, or null.</param>
/// <returns>What the broadcast of <paramref name="members"/> gave.</returns>
public delegate SendResult GroupDelivery(SessionGroup members, ReadOnlySpan<byte> payload, Session? except);
