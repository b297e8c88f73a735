namespace Whimbrel;

/// <summary>A session and the size of its send queue, as returned by <see cref="Server.FindSlowest"/>.</summary>
/// <param name="Session">The session; it may have ended since.</param>
/// <param name="BytesPending">Number of bytes queued by sends and not yet accepted by the kernel.</param>
public readonly record struct SlowSession(Session Session, long BytesPending);
