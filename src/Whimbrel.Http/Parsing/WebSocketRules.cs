namespace Whimbrel.Http.Parsing;

/// <summary>Close statuses and texts for broken rules (RFC 6455, 7.4.1).</summary>
internal static class WebSocketRules
{
    /// <summary>Returns the status of the close frame.</summary>
    internal static WebSocketStatus StatusOf(WebSocketRule rule) => rule switch
    {
        WebSocketRule.BadUtf8 or WebSocketRule.BadDeflate => WebSocketStatus.InvalidPayload,
        WebSocketRule.MessageTooLarge => WebSocketStatus.MessageTooBig,
        WebSocketRule.TooManyEmptyFrames => WebSocketStatus.PolicyViolation,
        _ => WebSocketStatus.ProtocolError,
    };

    /// <summary>Returns the error as a sentence without its full stop, of at most 123 bytes. It contains no received
    /// data.</summary>
    internal static string TextOf(WebSocketRule rule) => rule switch
    {
        WebSocketRule.ReservedBit => "A reserved bit is set without an agreed extension",
        WebSocketRule.ReservedOpcode => "The opcode of a frame is reserved",
        WebSocketRule.FragmentedControl => "A control frame is fragmented",
        WebSocketRule.LongControl => "A control frame has more than 125 bytes",
        WebSocketRule.NotMasked => "A frame of the client is not masked",
        WebSocketRule.Masked => "A frame of the server is masked",
        WebSocketRule.LengthNotMinimal => "The length of a frame is encoded in more bytes than needed",
        WebSocketRule.LengthTooLarge => "The length of a frame has its first bit set",
        WebSocketRule.NothingToContinue => "A frame continues a message that was not begun",
        WebSocketRule.MessageInMessage => "A message begins inside another",
        WebSocketRule.TooManyEmptyFrames => "A message has too many frames without a payload",
        WebSocketRule.MessageTooLarge => "The message is too large",
        WebSocketRule.BadUtf8 => "Text is not valid UTF-8",
        WebSocketRule.CloseTooShort => "A close frame has an incomplete status",
        WebSocketRule.BadCloseStatus => "A close frame has a status that may not be sent",
        WebSocketRule.BadDeflate => "A compressed message is malformed",
        _ => "Nothing is wrong",
    };
}
