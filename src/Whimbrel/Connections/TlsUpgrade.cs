using Whimbrel.Engines;
using Whimbrel.Tls;

namespace Whimbrel.Connections;

/// <summary>One requested upgrade to TLS: its options, and the completion for its awaiter.</summary>
/// <remarks>
/// It begins when the callback that requested it has returned. On the loop that is known at once. A strand requests it
/// by an item in the data lane, together with the messages of the callback: from the processing of that item on,
/// received data is cipher text. The loop answers with an event, which runs after the callback and returns the unread
/// data of callback and strand (<see cref="Rest"/>).
/// </remarks>
internal sealed class TlsUpgrade(TlsProfile profile, UnreadBytes unread, Completion<TlsInfo>? waiting)
{
    private Completion<TlsInfo>? _waiting = waiting;

    internal TlsProfile Profile { get; } = profile;

    internal UnreadBytes Unread { get; } = unread;

    /// <summary>While the connection is Concluding: the reason of the close, unless the handshake fails.</summary>
    internal CloseReason CloseAs { get; set; }

    /// <summary>
    /// Data that a strand had received in the clear and its session has not consumed. Owned by the strand until it is
    /// returned, then by the loop.
    /// </summary>
    internal UnreadStore Rest;

    /// <summary>Completes the awaiter, once, on the session's thread, after OnTlsHandshakeCompleted.</summary>
    internal void Done(TlsInfo info) => Take()?.SetResult(info);

    /// <summary>Fails the awaiter because the connection has ended. Does nothing if it was completed before.</summary>
    internal void Failed(CloseReason reason) =>
        Take()?.SetException(new NetworkException(reason.Error, reason.Exception));

    private Completion<TlsInfo>? Take() => Interlocked.Exchange(ref _waiting, null);
}
