namespace Whimbrel.Clusters;

/// <summary>What a server says, and what can become of reading it.</summary>
internal enum NatsItemKind
{
    /// <summary>The rest has not come yet.</summary>
    Incomplete,

    /// <summary>What the server is: JSON.</summary>
    Info,

    /// <summary>A message of a subscription.</summary>
    Message,

    /// <summary>The line of a message that is larger than what is taken: its payload is to be passed over.</summary>
    TooLarge,

    /// <summary>To be answered.</summary>
    Ping,

    /// <summary>An answer.</summary>
    Pong,

    /// <summary>Agreement, which was not asked for.</summary>
    Ok,

    /// <summary>What the server refuses, or why it ends.</summary>
    Error,

    /// <summary>No NATS.</summary>
    Malformed,
}
