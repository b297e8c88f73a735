namespace Whimbrel.Tls;

/// <summary>
/// State of one connection for the callbacks of OpenSSL: the input, the output, and a few flags. Native memory, because
/// its address must not change; owned by the layer. The pointers are set for the duration of one call of libssl and
/// null outside.
/// </summary>
internal unsafe struct OpenSslWindow
{
    /// <summary>Cipher text that OpenSSL has not read yet.</summary>
    internal byte* Input;

    /// <summary>Address for the next cipher text.</summary>
    internal byte* Output;

    internal int InputLength;
    internal int OutputRoom;

    /// <summary>
    /// Number of steps of messages after the handshake that the peer may still cause before it counts as a flood.
    /// </summary>
    internal int Credit;

    /// <summary>Total number of steps of messages after the handshake, and alerts.</summary>
    internal uint PostSteps;

    internal bool IsHandshakeDone;

    /// <summary>
    /// True if the peer sent more messages than it had credit for. No more input is passed to OpenSSL then.
    /// </summary>
    internal bool IsFlooded;
}
