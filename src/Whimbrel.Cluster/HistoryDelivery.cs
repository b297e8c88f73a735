namespace Whimbrel.Clusters;

/// <summary>Gives a message of a recoverable group to members on this node, with its position in whatever form clients read it.</summary>
/// <param name="members">The members here, or the one that resumes. To broadcast to, within the call.</param>
/// <param name="position">Where the message is.</param>
/// <param name="payload">What was broadcast. Valid during the call.</param>
/// <returns>What the broadcast of <paramref name="members"/> gave: after <see cref="SendResult.Full"/> it comes again.</returns>
public delegate SendResult HistoryDelivery(SessionGroup members, GroupPosition position, ReadOnlySpan<byte> payload);
