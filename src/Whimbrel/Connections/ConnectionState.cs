namespace Whimbrel.Connections;

/// <summary>
/// States of a connection. Legal transitions go downwards; <see cref="Free"/> follows only <see cref="Closed"/>.
/// </summary>
internal enum ConnectionState : byte
{
    /// <summary>The connection is in the pool of its loop.</summary>
    Free,

    /// <summary>The connection has a session, but no connected socket yet.</summary>
    Connecting,

    /// <summary>
    /// The connection has a socket, and a TLS handshake is in progress. The session is notified afterwards.
    /// </summary>
    Handshaking,

    /// <summary>
    /// Sends are possible. Data is delivered after OnConnected, before which OnTlsHandshakeCompleted may be called.
    /// </summary>
    Open,

    /// <summary>
    /// Close was called during the handshake of an upgrade, with sends waiting for it. Nothing is delivered, sends are
    /// rejected, and draining starts after the handshake. Only a failure of the handshake replaces the reason.
    /// </summary>
    Concluding,

    /// <summary>Close was called: nothing is delivered, queued data is sent.</summary>
    Draining,

    /// <summary>FIN is sent: received data is discarded until the peer's FIN, a byte limit or a deadline.</summary>
    Lingering,

    /// <summary>The engine was called to close the descriptor.</summary>
    Detaching,

    /// <summary>The descriptor is closed; the session's last callback is still to come.</summary>
    Closed,
}

/// <summary>
/// Reasons for which nothing is delivered to the session, or for which the connection is not read (contract 10).
/// </summary>
[Flags]
internal enum ReceiveGate : ushort
{
    None = 0,
    User = 1,
    BackPressure = 2,
    Mailbox = 4,

    /// <summary>The peer has sent FIN: there is nothing more to read.</summary>
    Finished = 8,

    /// <summary>The connection is not connected yet.</summary>
    NotOpen = 16,

    /// <summary>The limit of data that waits for the thread pool is reached (contract 14).</summary>
    Pool = 32,

    /// <summary>The session hands over, and posts to it run first (contract 18).</summary>
    HandOver = 64,

    /// <summary>The reader of a body stream has not requested more.</summary>
    Reader = 128,

    /// <summary>An OnReceivedAsync of the session has not completed.</summary>
    Callback = 256,

    /// <summary>On the pool: an upgrade to TLS was requested, and OnTlsHandshakeCompleted has not returned.</summary>
    Upgrade = 512,
}
