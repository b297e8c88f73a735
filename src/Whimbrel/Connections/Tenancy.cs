using System.Runtime.InteropServices;
using Whimbrel.Tls;

namespace Whimbrel.Connections;

/// <summary>
/// State of one use of a <see cref="Connection"/>: everything about its socket and its sessions. The next use begins
/// with its default, in one assignment. State that stays with the object is outside: the send queue (its word for other
/// threads outlives uses), lists that are empty between two uses, and fields of loop and engine. Loop's thread.
/// </summary>
[StructLayout(LayoutKind.Auto)]
internal struct Tenancy
{
    // ---- session
    internal HostShard Shard;
    internal SessionDriver Driver; // with a pool session, that has a driver of its own, and this one only holds
    internal PoolSession? Pool;
    internal SessionHooks Hooks;

    // ---- its socket
    internal bool HoldsSocket; // accepted, and not adopted yet
    internal ConnectOperation? ConnectOperation;
    internal string? ConnectedHost;
    internal TlsTransport? Tls;

    // ---- its lifecycle
    internal Life Life;
    // number of received bytes plus 1 when the session declared that the peer sends no more; otherwise 0
    internal long SaidAllAt;
    internal long DrainEndsMs;
    internal long ProgressAtDeadline;

    // ---- receiving
    internal bool IsReceiving;
    internal bool OfferOwed; // without a hold (BackPressure is off): only unread data waits
    internal int Discarded;
    internal long BytesReceived;
    internal long GoesOnAt; // back-pressure: reading and unread data continue at this number of pending bytes
    internal long HeldMs; // total time for which the gate was shut, at least 1 for each time
    internal long HeldFromMs;

    // ---- callbacks after sends
    internal bool DrainOwed;
    internal long SentUntold;
}
