namespace Whimbrel.Tls;

/// <summary>
/// What the callbacks of OpenSSL see of one connection: where the input is, where the output goes, and a few marks. Native
/// memory, because its address must not move; owned by the layer. The pointers are set for the time of one call of libssl and
/// null outside.
/// </summary>
internal unsafe struct OpenSslWindow
{
    /// <summary>Cipher text that OpenSSL has not read yet.</summary>
    internal byte* Input;

    /// <summary>Where the next cipher text goes.</summary>
    internal byte* Output;

    internal int InputLength;
    internal int OutputRoom;

    /// <summary>Messages after the handshake that the peer may still send before it counts as a flood.</summary>
    internal int Credit;

    /// <summary>Messages and alerts after the handshake, all of them.</summary>
    internal uint PostMessages;

    internal bool IsHandshakeDone;

    /// <summary>The peer sent more messages than it had credit for. Input is held back from then on.</summary>
    internal bool IsFlooded;
}
