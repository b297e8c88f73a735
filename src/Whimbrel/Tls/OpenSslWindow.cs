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

    /// <summary>Steps of messages after the handshake that the peer may still cause before it counts as a flood.</summary>
    internal int Credit;

    /// <summary>Steps of messages after the handshake, and alerts, all of them.</summary>
    internal uint PostSteps;

    internal bool IsHandshakeDone;

    /// <summary>The peer sent more messages than it had credit for. Input is held back from then on.</summary>
    internal bool IsFlooded;
}
