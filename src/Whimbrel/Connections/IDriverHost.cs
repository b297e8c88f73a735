using Whimbrel.Buffers;

namespace Whimbrel.Connections;

/// <summary>
/// Owner of a <see cref="SessionDriver"/>: the connection, if callbacks run on its loop, or the strand, if they run on
/// the pool. All members are called on the session's thread.
/// </summary>
internal interface IDriverHost
{
    Loop Loop { get; }

    HostShard Shard { get; }

    /// <summary>Data of the running callback.</summary>
    ref OfferedBytes Offered { get; }

    /// <summary>True if the connection is ending: nothing more is delivered.</summary>
    bool IsOver { get; }

    /// <summary>True if unread data is still needed: by the next callback, or by an upgrade to TLS.</summary>
    bool KeepsUnread { get; }

    /// <summary>True if the session is, or was, notified of the peer's FIN: no more data follows.</summary>
    bool IsPeerDone { get; }

    /// <summary>Called before a callback.</summary>
    void Enter(string callback);

    /// <summary>Called after a callback, also if it has thrown.</summary>
    void Leave();

    /// <summary>Sends what the callback has queued. On the loop that is done at the end of the turn.</summary>
    void Flush();

    /// <summary>Carries out what the callback has requested and must not happen inside it.</summary>
    void AfterCallback();

    /// <summary>Called before received data is passed to the session.</summary>
    /// <param name="hasPending">True if sent data is pending.</param>
    /// <returns>A number for <see cref="HasFilledQueue"/>.</returns>
    long BeginOffer(out bool hasPending);

    /// <summary>True if the callback has queued more than the high-water mark (contract 9).</summary>
    /// <param name="mark">Result of <see cref="BeginOffer"/>.</param>
    bool HasFilledQueue(long mark);

    /// <summary>Delivers nothing until the queue has drained.</summary>
    /// <param name="untilEmpty">True to wait until nothing is pending, false for the low-water mark.</param>
    void HoldBack(bool untilEmpty);

    void AbortWith(CloseReason reason);
}
