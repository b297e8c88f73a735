namespace Whimbrel.Compat.Links;

/// <summary>Events of a connection, in their order.</summary>
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
