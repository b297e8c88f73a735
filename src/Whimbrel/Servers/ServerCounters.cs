namespace Whimbrel;

/// <summary>
/// What a <see cref="Server"/> has done since its start. Each number is exact when its sessions have ended; while they run it was
/// true a moment ago, and the numbers need not belong to the same moment.
/// </summary>
/// <param name="Sessions">Connected, beginning or ending now.</param>
/// <param name="Accepted">Connections taken.</param>
/// <param name="Rejected">Closed at once because <see cref="ServerOptions.MaxConnections"/> or <see cref="ServerOptions.AcceptLimit"/> was reached.</param>
/// <param name="Refused">Closed at once because <see cref="ServerOptions.Admit"/> said no, or it or <see cref="ServerOptions.ChooseLoop"/> threw.</param>
/// <param name="SlowConsumers">Sessions ended because their peer read too slowly.</param>
/// <param name="BytesReceived">Bytes received.</param>
/// <param name="BytesSent">Bytes given to the system.</param>
/// <param name="MessagesReceived">Calls of <see cref="Session"/>'s OnData or OnReceived: deliveries, of which a protocol may make more or fewer messages.</param>
/// <param name="MessagesSent">
/// Sends that were taken (Send, SendAsync, Commit; empty ones and broadcasts not), or null without
/// <see cref="ConnectionOptions.CountSends"/>.
/// </param>
/// <param name="TlsHandshakes">TLS handshakes that succeeded.</param>
/// <param name="TlsResumed">Those of them that resumed an earlier session.</param>
/// <param name="TlsFailed">TLS handshakes that failed, were too slow or too many.</param>
/// <param name="TlsShaking">TLS handshakes that run now, those that wait for a ClientHello among them.</param>
/// <param name="TlsSilent">Of these, accepted connections that have not sent a whole ClientHello.</param>
/// <param name="TlsSilentClosed">Closed in favour of newer ones, since more were silent than <see cref="TlsOptions.MaxSilent"/>. Among <paramref name="TlsFailed"/>.</param>
/// <param name="Shed">Closed at once, without having been looked at, because <see cref="EngineOptions.DescriptorMargin"/> or the process's limit was reached.</param>
/// <param name="UserExceptions">
/// Exceptions of your code that were caught: in overrides of sessions, in the factory, in <see cref="ServerOptions.Admit"/> and
/// <see cref="ServerOptions.ChooseLoop"/>, in handlers of streams, in events of the server.
/// </param>
/// <param name="BroadcastsDropped">Messages of broadcasts, each counted for each session that missed it: at its limit, or with a <c>SendAsync</c> that waits.</param>
public readonly record struct ServerCounters(
    int Sessions,
    long Accepted,
    long Rejected,
    long Refused,
    long SlowConsumers,
    long BytesReceived,
    long BytesSent,
    long MessagesReceived,
    long? MessagesSent,
    long TlsHandshakes = 0,
    long TlsResumed = 0,
    long TlsFailed = 0,
    int TlsShaking = 0,
    int TlsSilent = 0,
    long TlsSilentClosed = 0,
    long Shed = 0,
    long UserExceptions = 0,
    long BroadcastsDropped = 0);
