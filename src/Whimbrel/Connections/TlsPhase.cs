namespace Whimbrel.Connections;

/// <summary>State of a connection's TLS. Transitions go downwards (<see cref="TlsTransport"/> defines them).</summary>
internal enum TlsPhase : byte
{
    /// <summary>
    /// An upgrade was requested on the pool, in a callback that has not returned. Received data is cipher text, and
    /// waits.
    /// </summary>
    Asked,

    /// <summary>An upgrade begins when the callback that requested it has returned.</summary>
    Due,

    /// <summary>OnTlsHandshakeStarting runs. From here on the handshake is counted in its shard.</summary>
    Greeting,

    /// <summary>A server waits for the complete ClientHello, a client creates its own; there is no layer yet.</summary>
    Hello,

    /// <summary>
    /// The ClientHello was received, and uses one of the places of <see cref="TlsOptions.MaxHandshakes"/>.
    /// </summary>
    Heard,

    /// <summary>The handshake is in progress.</summary>
    Shaking,

    /// <summary>The handshake is in progress with long steps, which run on the pool.</summary>
    ShakingOnPool,

    /// <summary>Both halves are open.</summary>
    Open,

    /// <summary>The own half was ended by close_notify; the peer still sends.</summary>
    OwnEnded,

    /// <summary>The peer has ended its half by close_notify; the own half still sends.</summary>
    PeerEnded,

    /// <summary>Both halves were ended.</summary>
    BothEnded,

    /// <summary>TLS has failed: nothing is encrypted or decrypted any more.</summary>
    Over,

    /// <summary>The connection has ended. A pool thread that still has the layer frees it.</summary>
    Freed,
}
