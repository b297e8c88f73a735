namespace Whimbrel.Http;

/// <summary>Close status of a WebSocket (RFC 6455, 7.4). Statuses from 3000 on are for libraries, from 4000 on for
/// applications: all of them may be used.</summary>
public enum WebSocketStatus
{
    /// <summary>The close frame had no status. Never sent.</summary>
    None = 1005,

    /// <summary>The connection ended without a close frame. Never sent.</summary>
    Abnormal = 1006,

    /// <summary>The purpose of the connection is fulfilled.</summary>
    Normal = 1000,

    /// <summary>The server shuts down, or the browser leaves the page.</summary>
    GoingAway = 1001,

    /// <summary>The peer broke the protocol.</summary>
    ProtocolError = 1002,

    /// <summary>The peer sent a type of message that is not supported, for example text.</summary>
    UnsupportedData = 1003,

    /// <summary>Text is not UTF-8, or compressed data is malformed.</summary>
    InvalidPayload = 1007,

    /// <summary>A message breaks a rule of the application.</summary>
    PolicyViolation = 1008,

    /// <summary>A message is too large.</summary>
    MessageTooBig = 1009,

    /// <summary>The server did not agree to an extension that the client needs.</summary>
    MandatoryExtension = 1010,

    /// <summary>The server failed.</summary>
    InternalError = 1011,

    /// <summary>The server restarts.</summary>
    ServiceRestart = 1012,

    /// <summary>The server is overloaded.</summary>
    TryAgainLater = 1013,

    /// <summary>A gateway got an invalid response.</summary>
    BadGateway = 1014,
}
