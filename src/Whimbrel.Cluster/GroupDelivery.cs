namespace Whimbrel.Clusters;

/// <summary>Delivers a broadcast to the local members in another format, for example as a WebSocket message.</summary>
/// <param name="members">The local members.</param>
/// <param name="payload">Broadcast message of this or another node. Valid during the call.</param>
/// <param name="except">Member to leave out, or null.</param>
/// <returns>Result of the broadcast to <paramref name="members"/>.</returns>
public delegate SendResult GroupDelivery(SessionGroup members, ReadOnlySpan<byte> payload, Session? except);
