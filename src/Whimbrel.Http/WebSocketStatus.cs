namespace Whimbrel.Http;

/// <summary>Why a WebSocket is closed (RFC 6455, 7.4). Numbers from 3000 on belong to libraries, from 4000 on to applications: any of them may be used.</summary>
public enum WebSocketStatus
{
    /// <summary>The close frame had no status. Never sent as one.</summary>
    None = 1005,

    /// <summary>The connection ended without a close frame. Never sent as one.</summary>
    Abnormal = 1006,

    /// <summary>What it was opened for is done.</summary>
    Normal = 1000,

    /// <summary>A server goes down, or a page is left.</summary>
    GoingAway = 1001,

    /// <summary>The peer broke the protocol.</summary>
    ProtocolError = 1002,

    /// <summary>The peer sent a kind of message that cannot be taken, text for example.</summary>
    UnsupportedData = 1003,

    /// <summary>Text is no UTF-8, or compressed data is malformed.</summary>
    InvalidPayload = 1007,

    /// <summary>A message breaks a rule of the application.</summary>
    PolicyViolation = 1008,

    /// <summary>A message is too large.</summary>
    MessageTooBig = 1009,

    /// <summary>A client misses an extension that the server did not agree to.</summary>
    MandatoryExtension = 1010,

    /// <summary>The server failed.</summary>
    InternalError = 1011,

    /// <summary>The server begins anew.</summary>
    ServiceRestart = 1012,

    /// <summary>The server has too much to do.</summary>
    TryAgainLater = 1013,

    /// <summary>A gateway got a bad answer.</summary>
    BadGateway = 1014,
}
