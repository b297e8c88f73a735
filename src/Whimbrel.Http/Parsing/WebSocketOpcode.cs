namespace Whimbrel.Http.Parsing;

/// <summary>Opcode of a frame (RFC 6455, 5.2).</summary>
internal enum WebSocketOpcode : byte
{
    /// <summary>Continues the current message.</summary>
    Continuation = 0,

    /// <summary>Begins a text message in UTF-8.</summary>
    Text = 1,

    /// <summary>Begins a binary message.</summary>
    Binary = 2,

    /// <summary>The sender sends no further data.</summary>
    Close = 8,

    /// <summary>Asks for a pong with the same payload.</summary>
    Ping = 9,

    /// <summary>Answers a ping, or is unsolicited.</summary>
    Pong = 10,
}
