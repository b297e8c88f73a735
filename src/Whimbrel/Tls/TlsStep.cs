namespace Whimbrel.Tls;

/// <summary>Result of a call of a layer, which determines the owner's next step.</summary>
internal enum TlsStep : byte
{
    /// <summary>
    /// Everything possible with this input is done. The owner sends the output and continues with more input.
    /// </summary>
    NeedInput,

    /// <summary>
    /// The handshake is complete; returned exactly once. No plaintext was delivered yet. The owner notifies its
    /// session, then calls Receive again with the unconsumed input, also without any: the layer may contain plaintext.
    /// </summary>
    Ready,

    /// <summary>
    /// The output is full. The owner sends it, then makes the same call again with the rest and an empty output.
    /// </summary>
    OutputFull,

    /// <summary>The sink has stopped deliveries. Call Receive again (also without input) to continue.</summary>
    Stopped,

    /// <summary>The peer ended its side with close_notify. No more data is delivered.</summary>
    PeerClosed,

    /// <summary>The peer's data ended without close_notify, or in the middle of a record.</summary>
    Truncated,

    /// <summary>
    /// The layer has failed: <see cref="TlsLayer.Fault"/> has the reason. The output may contain an alert to send
    /// before the end.
    /// </summary>
    Refused,
}
