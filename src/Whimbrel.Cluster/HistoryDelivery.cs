namespace Whimbrel.Clusters;

/// <summary>
/// Delivers a message of a recoverable group and its position to local members, in the clients' format.
/// </summary>
/// <param name="members">The local members, or only the resuming session. Valid during the call.</param>
/// <param name="position">Position of the message.</param>
/// <param name="payload">Broadcast message. Valid during the call.</param>
/// <returns>
/// Result of the broadcast to <paramref name="members"/>. After <see cref="SendResult.Full"/> the message is delivered
/// again.
/// </returns>
public delegate SendResult HistoryDelivery(SessionGroup members, GroupPosition position, ReadOnlySpan<byte> payload);
