namespace Whimbrel.Connections;

/// <summary>What waits for a strand besides received bytes.</summary>
internal enum StrandEventKind : byte
{
    Connecting,
    Connected,
    Handshaking,
    Handshaked,
    Upgrading,
    Timer,
    HandedOver,
    ServerStopping,
    Disconnecting,
    Timeout,
    Continuation,
    Call,
    Sent,
    Drained,
}

/// <summary>One thing that waits for a strand besides received bytes.</summary>
internal readonly record struct StrandEvent(StrandEventKind Kind, object? First, object? Second);
