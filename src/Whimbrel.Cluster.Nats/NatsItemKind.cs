namespace Whimbrel.Clusters;

/// <summary>Kind of a protocol item, or the result of reading one.</summary>
internal enum NatsItemKind
{
    /// <summary>More bytes are needed.</summary>
    Incomplete,

    /// <summary>INFO: description of the server, JSON.</summary>
    Info,

    /// <summary>A message of a subscription.</summary>
    Message,

    /// <summary>The line of a message above the limit: its payload must be skipped.</summary>
    TooLarge,

    /// <summary>PING, to be answered by PONG.</summary>
    Ping,

    /// <summary>PONG.</summary>
    Pong,

    /// <summary>+OK, which was not requested.</summary>
    Ok,

    /// <summary>-ERR: a rejected request, or the reason of a disconnect.</summary>
    Error,

    /// <summary>The bytes are no NATS protocol.</summary>
    Malformed,
}
