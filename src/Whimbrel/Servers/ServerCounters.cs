namespace Whimbrel;

/// <summary>
/// Counters of a <see cref="Server"/> since its start. Each number is exact when its sessions have ended. While they
/// run it may be slightly outdated, and the numbers need not belong to the same moment.
/// </summary>
/// <param name="Sessions">Number of sessions that are connected, starting or ending.</param>
/// <param name="Accepted">Number of accepted connections.</param>
/// <param name="Rejected">Number of connections closed at once because <see cref="ServerLimits.Connections"/> or
/// <see cref="AcceptOptions.Limit"/> was reached.</param>
/// <param name="Refused">Number of connections closed at once because <see cref="AcceptOptions.Admit"/> returned false,
/// or it or <see cref="AcceptOptions.ChooseLoop"/> threw.</param>
/// <param name="SlowConsumers">Number of sessions ended because their peer read too slowly.</param>
/// <param name="BytesReceived">Number of bytes received.</param>
/// <param name="BytesSent">Number of bytes passed to the kernel.</param>
/// <param name="MessagesReceived">Number of calls of <see cref="Session"/>'s OnData or OnReceived. These are
/// deliveries, which may contain more or fewer messages of a protocol.</param>
/// <param name="MessagesSent">Number of queued sends (Send, SendAsync, Commit; without empty ones and broadcasts), or
/// null without <see cref="ConnectionOptions.CountSends"/>.</param>
/// <param name="TlsHandshakes">Number of successful TLS handshakes.</param>
/// <param name="TlsResumed">Number of those handshakes that resumed an earlier session, as far as it is known
/// (<see cref="TlsInfo.IsResumed"/>).</param>
/// <param name="TlsFailed">Number of TLS handshakes that failed, timed out or exceeded a limit.</param>
/// <param name="TlsShaking">Number of TLS handshakes in progress, including those that wait for a ClientHello.</param>
/// <param name="TlsSilent">Number of accepted connections among these without a complete ClientHello.</param>
/// <param name="TlsSilentClosed">Number of silent connections closed in favour of newer ones because of
/// <see cref="TlsOptions.MaxSilent"/>. Included in <paramref name="TlsFailed"/>.</param>
/// <param name="Shed">Number of connections closed at once, without checks, because
/// <see cref="EngineOptions.DescriptorMargin"/> or the process's limit was reached.</param>
/// <param name="UserExceptions">Number of caught exceptions of application code: overrides of sessions, the factory,
/// <see cref="AcceptOptions.Admit"/>, <see cref="AcceptOptions.ChooseLoop"/>, stream handlers, events of the
/// server.</param>
/// <param name="BroadcastsDropped">Number of broadcast messages that a session missed, counted for each session: at its
/// limit, or with a waiting <c>SendAsync</c>.</param>
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
