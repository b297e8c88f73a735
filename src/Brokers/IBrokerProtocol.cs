namespace Whimbrel.Clusters;

/// <summary>What a broker is told and says, on one connection: a greeting, and then messages. One object for each <see cref="BrokerSession"/>; everything on the bus's loop.</summary>
internal interface IBrokerProtocol
{
    /// <summary>What the broker is called in notices: <c>The NATS server</c>.</summary>
    string Server { get; }

    /// <summary>What it has to do first: <c>greet</c>.</summary>
    string Greets { get; }

    /// <summary>Asks whether it is there.</summary>
    byte[] Ping { get; }

    /// <summary>Nothing is read now.</summary>
    bool IsHeld { get; }

    /// <summary>So many bytes stand before an envelope at the most.</summary>
    int MostBefore(string subject);

    /// <summary>Writes what stands before an envelope; behind it is a line end. Gives its length.</summary>
    int WriteBefore(Span<byte> target, string subject, int envelope);

    /// <summary>The connection stands. Once, before all that follows.</summary>
    void Connected(BrokerSession session);

    /// <summary>An upgrade to TLS is done.</summary>
    void Handshaked();

    /// <summary>The first thing that the broker says in these bytes: how long it was, 0 when it is not whole, and <see cref="BrokerSession.Need"/> was told.</summary>
    int Hear(ReadOnlySpan<byte> unread);

    /// <summary>Why it may have ended, where nothing else is known; or null.</summary>
    string? GuessEnd(CloseReason reason);
}
