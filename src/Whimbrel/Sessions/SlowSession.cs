namespace Whimbrel;

/// <summary>A session and what waits in its send queue, as <see cref="Server.FindSlowest"/> found it.</summary>
/// <param name="Session">The session; it may have ended since.</param>
/// <param name="BytesPending">Bytes that sends had queued and the system had not taken.</param>
public readonly record struct SlowSession(Session Session, long BytesPending);
