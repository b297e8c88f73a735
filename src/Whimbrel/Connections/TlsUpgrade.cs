using Whimbrel.Engines;
using Whimbrel.Tls;

namespace Whimbrel.Connections;

/// <summary>One upgrade to TLS that was asked for: with what, and who waits for its end.</summary>
internal sealed class TlsUpgrade(TlsProfile profile, UnreadBytes unread, Completion<TlsInfo>? waiting)
{
    internal TlsProfile Profile { get; } = profile;

    internal UnreadBytes Unread { get; } = unread;

    internal TlsLink? Link { get; set; }

    internal void Done(TlsInfo info) => waiting?.SetResult(info);

    internal void Failed(CloseReason reason) => waiting?.SetException(new NetworkException(reason.Error, reason.Exception));
}
