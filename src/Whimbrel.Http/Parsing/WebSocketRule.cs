namespace Whimbrel.Http.Parsing;

/// <summary>Rules that a peer can break after the handshake. Each has a status and a sentence in
/// <see cref="WebSocketRules"/>.</summary>
internal enum WebSocketRule : byte
{
    /// <summary>No rule is broken.</summary>
    None,

    /// <summary>Reserved bit without an agreed extension, or the compression bit in a wrong frame.</summary>
    ReservedBit,

    /// <summary>Unknown opcode.</summary>
    ReservedOpcode,

    /// <summary>Fragmented control frame.</summary>
    FragmentedControl,

    /// <summary>Control frame of more than 125 bytes.</summary>
    LongControl,

    /// <summary>Client frame without a mask.</summary>
    NotMasked,

    /// <summary>Server frame with a mask.</summary>
    Masked,

    /// <summary>Length in more bytes than needed.</summary>
    LengthNotMinimal,

    /// <summary>Length of 2^63 or more.</summary>
    LengthTooLarge,

    /// <summary>Continuation without a message.</summary>
    NothingToContinue,

    /// <summary>Message that begins inside another.</summary>
    MessageInMessage,

    /// <summary>Too many frames without a payload inside a message.</summary>
    TooManyEmptyFrames,

    /// <summary>Message larger than the limit.</summary>
    MessageTooLarge,

    /// <summary>Text, or reason of a close, that is not UTF-8.</summary>
    BadUtf8,

    /// <summary>Close with an incomplete status.</summary>
    CloseTooShort,

    /// <summary>Close with a status that may not be sent.</summary>
    BadCloseStatus,

    /// <summary>Compressed message that is not complete DEFLATE data.</summary>
    BadDeflate,
}
