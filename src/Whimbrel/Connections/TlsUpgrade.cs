using Whimbrel.Engines;
using Whimbrel.Tls;

namespace Whimbrel.Connections;

/// <summary>One upgrade to TLS that was asked for: with what, and who waits for its end.</summary>
/// <remarks>
/// It begins when the callback that asked has returned. On the loop that is known at once. A strand asks by an item in the data lane,
/// together with what the callback had sent: draining it is the moment from which received bytes are cipher text. The loop answers with
/// an event, which runs behind the callback and brings back what it and the strand left unread (<see cref="Rest"/>).
/// </remarks>
internal sealed class TlsUpgrade(TlsProfile profile, UnreadBytes unread, Completion<TlsInfo>? waiting)
{
    private Completion<TlsInfo>? _waiting = waiting;

    internal TlsProfile Profile { get; } = profile;

    internal UnreadBytes Unread { get; } = unread;

    /// <summary>While the connection is Concluding: the reason of the close, unless the handshake fails.</summary>
    internal CloseReason CloseAs { get; set; }

    /// <summary>What a strand had received in the clear and its session has not taken. The strand's until it comes back, then the loop's.</summary>
    internal UnreadStore Rest;

    /// <summary>Once, on the session's thread, after OnTlsHandshakeCompleted.</summary>
    internal void Done(TlsInfo info) => Take()?.SetResult(info);

    /// <summary>The connection ended. Nothing when it was done before.</summary>
    internal void Failed(CloseReason reason) => Take()?.SetException(new NetworkException(reason.Error, reason.Exception));

    private Completion<TlsInfo>? Take() => Interlocked.Exchange(ref _waiting, null);
}
