namespace Whimbrel.Tls;

/// <summary>What a call of a layer ended with, and so what its owner does next.</summary>
internal enum TlsStep : byte
{
    /// <summary>All that can be done with these bytes is done. What was put out is sent; more input goes on.</summary>
    NeedInput,

    /// <summary>
    /// The handshake is complete; comes exactly once. No plaintext was delivered yet. The owner tells its session, then
    /// calls Receive again with what was not consumed, also when that is nothing: the layer may hold plaintext inside.
    /// </summary>
    Ready,

    /// <summary>The output is full. The owner sends it, then makes the same call again with the rest and an empty output.</summary>
    OutputFull,

    /// <summary>The sink said stop. Receive again (also with no input) when it may go on.</summary>
    Stopped,

    /// <summary>The peer ended its half properly (close_notify). Nothing more is delivered.</summary>
    PeerClosed,

    /// <summary>The peer's bytes ended without close_notify, or in the middle of a record.</summary>
    Truncated,

    /// <summary>It is over: <see cref="TlsLayer.Fault"/> says why. The output may hold an alert to send before the end.</summary>
    Refused,
}
