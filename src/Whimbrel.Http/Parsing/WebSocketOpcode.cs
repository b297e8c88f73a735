namespace Whimbrel.Http.Parsing;

/// <summary>What a frame is (RFC 6455, 5.2).</summary>
internal enum WebSocketOpcode : byte
{
    /// <summary>Goes on with the message under way.</summary>
    Continuation = 0,

    /// <summary>Begins a message of UTF-8.</summary>
    Text = 1,

    /// <summary>Begins a message of bytes.</summary>
    Binary = 2,

    /// <summary>The sender sends no further data.</summary>
    Close = 8,

    /// <summary>Asks for a pong with the same payload.</summary>
    Ping = 9,

    /// <summary>Answers a ping, or comes unasked.</summary>
    Pong = 10,
}
