namespace Whimbrel.Http.Parsing;

/// <summary>What a peer can break once the protocol was switched. Each has a status to close with and a sentence in <see cref="WebSocketRules"/>.</summary>
internal enum WebSocketRule : byte
{
    /// <summary>Nothing is wrong.</summary>
    None,

    /// <summary>A reserved bit that nothing was agreed on for, or the bit of compression where it may not stand.</summary>
    ReservedBit,

    /// <summary>An opcode without a meaning.</summary>
    ReservedOpcode,

    /// <summary>A control frame in fragments.</summary>
    FragmentedControl,

    /// <summary>A control frame of more than 125 bytes.</summary>
    LongControl,

    /// <summary>A client's frame without a mask.</summary>
    NotMasked,

    /// <summary>A server's frame with a mask.</summary>
    Masked,

    /// <summary>A length in more bytes than it needs.</summary>
    LengthNotMinimal,

    /// <summary>A length of 2^63 and more.</summary>
    LengthTooLarge,

    /// <summary>A continuation of nothing.</summary>
    NothingToContinue,

    /// <summary>A message begins inside another.</summary>
    MessageInMessage,

    /// <summary>Frames without a payload go on for ever inside a message.</summary>
    TooManyEmptyFrames,

    /// <summary>A message is larger than the limit.</summary>
    MessageTooLarge,

    /// <summary>Text, or the reason of a close, is no UTF-8.</summary>
    BadUtf8,

    /// <summary>A close with half a status.</summary>
    CloseTooShort,

    /// <summary>A close with a status that may not be sent.</summary>
    BadCloseStatus,

    /// <summary>A compressed message is no whole DEFLATE data.</summary>
    BadDeflate,
}
