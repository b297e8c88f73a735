namespace Whimbrel.Connections;

/// <summary>How far the TLS of a connection is. Steps go downwards (<see cref="TlsTransport"/> says which).</summary>
internal enum TlsPhase : byte
{
    /// <summary>An upgrade was asked for on the pool, in a callback that has not returned. What arrives is cipher text, and waits.</summary>
    Asked,

    /// <summary>An upgrade begins when the callback that asked for it has returned.</summary>
    Due,

    /// <summary>OnTlsHandshakeStarting runs. From here on the handshake counts among those of its shard.</summary>
    Greeting,

    /// <summary>A server waits for the whole ClientHello, a client makes its own; there is no layer yet.</summary>
    Hello,

    /// <summary>The ClientHello has come, and has one of the places that <see cref="TlsOptions.MaxHandshakes"/> counts.</summary>
    Heard,

    /// <summary>The handshake runs.</summary>
    Shaking,

    /// <summary>It takes long, so its steps are made on the pool.</summary>
    ShakingOnPool,

    /// <summary>Both halves are open.</summary>
    Open,

    /// <summary>We have ended our half properly; the peer's still sends.</summary>
    OwnEnded,

    /// <summary>The peer has ended its half properly; ours still sends.</summary>
    PeerEnded,

    /// <summary>Both have.</summary>
    BothEnded,

    /// <summary>It failed: nothing is encrypted or decrypted any more.</summary>
    Over,

    /// <summary>The connection has ended. A thread of the pool that still has the layer frees it.</summary>
    Freed,
}
