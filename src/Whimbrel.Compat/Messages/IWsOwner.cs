namespace Whimbrel.Compat;

/// <summary>Session or client of the original API that has a WebSocket, as <see cref="WsSending"/> sees it: plain or
/// TLS.</summary>
internal interface IWsOwner
{
    /// <summary>Queues bytes.</summary>
    bool Queue(ReadOnlySpan<byte> bytes);

    /// <summary>Queues two pieces as one message.</summary>
    /// <returns>Null if the bytes must be one piece, because a client masks them.</returns>
    bool? Queue(ReadOnlySpan<byte> head, ReadOnlySpan<byte> payload) => null;

    /// <summary>Sends bytes, and waits until the system has them.</summary>
    long SendNow(ReadOnlySpan<byte> bytes);

    /// <summary>Receives, and waits.</summary>
    long ReceiveNow(byte[] buffer, long offset, long size);

    /// <summary>Called before the handshake answer is queued. From now on broadcasts wait and are sent after
    /// it.</summary>
    void Opening()
    {
    }

    /// <summary>Called when the handshake answer was queued, before any callback.</summary>
    void Opened()
    {
    }

    /// <summary>Called before a close frame is queued; nothing follows it.</summary>
    void Closing()
    {
    }
}
