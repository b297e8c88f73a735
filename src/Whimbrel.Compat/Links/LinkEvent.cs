namespace Whimbrel.Compat.Links;

/// <summary>A step in the life of a connection, in the order in which they come.</summary>
internal enum LinkEvent
{
    Connecting,
    Connected,
    Handshaking,
    Handshaked,
    Empty,
    Disconnecting,
    Disconnected,
}
