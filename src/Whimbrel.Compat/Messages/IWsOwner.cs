namespace Whimbrel.Compat;

/// <summary>A session or client of the old API that has a WebSocket, as <see cref="WsSending"/> sees it. Four classes are one.</summary>
internal interface IWsOwner
{
    /// <summary>Queues bytes.</summary>
    bool Queue(ReadOnlySpan<byte> bytes);

    /// <summary>Queues two pieces as one.</summary>
    /// <returns>Null: it takes bytes in one piece only, because somebody else is to see them.</returns>
    bool? Queue(ReadOnlySpan<byte> head, ReadOnlySpan<byte> payload) => null;

    /// <summary>Sends bytes and waits until the system has them.</summary>
    long SendNow(ReadOnlySpan<byte> bytes);

    /// <summary>Receives, and waits.</summary>
    long ReceiveNow(byte[] buffer, long offset, long size);

    /// <summary>The answer to the handshake is about to be queued. Messages to all sessions wait for it from here on, and stand behind it.</summary>
    void Opening()
    {
    }

    /// <summary>The handshake is done; the answer to it was queued. Nobody has been told.</summary>
    void Opened()
    {
    }

    /// <summary>A close is about to be queued, and nothing behind it.</summary>
    void Closing()
    {
    }
}
