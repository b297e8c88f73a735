namespace Whimbrel.Connections;

/// <summary>The one lifetime of a connection. Legal steps go downwards; <see cref="Free"/> follows only <see cref="Closed"/>.</summary>
internal enum ConnectionState : byte
{
    /// <summary>In the pool of its loop.</summary>
    Free,

    /// <summary>Has a session, not yet a connected socket.</summary>
    Connecting,

    /// <summary>Has a socket, and TLS is being agreed on; the session hears of the connection afterwards.</summary>
    Handshaking,

    /// <summary>Sends; delivers after OnConnected, before which OnTlsHandshakeCompleted may be called.</summary>
    Open,

    /// <summary>
    /// Close was called while the handshake of an upgrade runs and something waits for it: delivers nothing, takes no sends, and
    /// drains when the handshake is done. Only the handshake may still fail, and is the reason then.
    /// </summary>
    Concluding,

    /// <summary>Close was called: delivers nothing, sends what is queued.</summary>
    Draining,

    /// <summary>FIN is sent: discards input until the peer's FIN, a byte limit or a deadline.</summary>
    Lingering,

    /// <summary>The engine was asked to close the descriptor.</summary>
    Detaching,

    /// <summary>The descriptor is closed; the session's last callback is still owed.</summary>
    Closed,
}

/// <summary>Why a connection is not being read. Reading is on when no bit is set (contract 10).</summary>
[Flags]
internal enum ReceiveGate : ushort
{
    None = 0,
    User = 1,
    BackPressure = 2,
    Mailbox = 4,

    /// <summary>The peer has finished: there is nothing more to read.</summary>
    Finished = 8,

    /// <summary>Not yet connected.</summary>
    NotOpen = 16,

    /// <summary>As much waits for the thread pool as may wait (contract 14).</summary>
    Pool = 32,

    /// <summary>The session hands over, and what was posted to it runs first (contract 18).</summary>
    HandOver = 64,

    /// <summary>Whoever reads a body of the session has not asked for more.</summary>
    Reader = 128,

    /// <summary>An OnReceivedAsync of the session has not completed.</summary>
    Callback = 256,
}
