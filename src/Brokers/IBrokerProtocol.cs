namespace Whimbrel.Clusters;

/// <summary>
/// Protocol of a broker on one connection: a greeting, then messages. One object per <see cref="BrokerSession"/>; on
/// the bus's loop.
/// </summary>
internal interface IBrokerProtocol
{
    /// <summary>Name of the broker in diagnostic events: <c>The NATS server</c>.</summary>
    string Server { get; }

    /// <summary>Verb for the broker's first action, for messages: <c>greet</c>.</summary>
    string Greets { get; }

    /// <summary>Bytes of a ping.</summary>
    byte[] Ping { get; }

    /// <summary>Whether reading is suspended.</summary>
    bool IsHeld { get; }

    /// <summary>Returns the maximum number of bytes before an envelope.</summary>
    int MostBefore(string subject);

    /// <summary>
    /// Writes the bytes before an envelope and returns their number. A line end follows the envelope.
    /// </summary>
    int WriteBefore(Span<byte> target, string subject, int envelope);

    /// <summary>Called once, first, when the connection is established.</summary>
    void Connected(BrokerSession session);

    /// <summary>Called when an upgrade to TLS is complete.</summary>
    void Handshaked();

    /// <summary>
    /// Processes the first item in the bytes and returns its length; 0 if it is incomplete, after a call of
    /// <see cref="BrokerSession.Need"/>.
    /// </summary>
    int Hear(ReadOnlySpan<byte> unread);

    /// <summary>Returns a likely reason for an unexplained end, or null.</summary>
    string? GuessEnd(CloseReason reason);
}
