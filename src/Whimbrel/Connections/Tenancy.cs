using System.Runtime.InteropServices;
using Whimbrel.Tls;

namespace Whimbrel.Connections;

/// <summary>
/// What belongs to one tenancy of a <see cref="Connection"/>: all that it knows of the one socket and its sessions. The next tenant begins with
/// the default of it, in one assignment. What stays with the object lies beside it: the send queue (its word of other threads
/// outlives tenants), lists that are empty between two of them, and what loop and engine keep there. Loop's thread.
/// </summary>
[StructLayout(LayoutKind.Auto)]
internal struct Tenancy
{
    // ---- who
    internal HostShard Shard;
    internal Session Session;
    internal Session? Next;
    internal Strand? Strand;
    internal SessionHooks Hooks;
    internal LoopTimer? Timers; // those of the session, linked

    // ---- its socket
    internal bool HoldsSocket; // accepted, and nobody has adopted it
    internal ConnectOperation? ConnectOperation;
    internal string? ConnectedHost;
    internal TlsTransport? Tls;

    // ---- its life
    internal Life Life;
    internal long SaidAllAt; // when the session said that the peer sends no more: the bytes received, and 1; 0 when it did not
    internal long DrainEndsMs;
    internal long ProgressAtDeadline;

    // ---- receiving
    internal ReceiveGate Gate;
    internal bool IsReceiving;
    internal bool OfferPending;
    internal bool OfferOwed; // without holding (BackPressure is off): only what was left unread waits
    internal bool KnowsOfQueue; // the running callback asked what is pending, or was refused
    internal int AtLeast;
    internal int Discarded;
    internal UnreadStore Unread;
    internal long BytesReceived;
    internal long GoesOnAt; // back-pressure: reading, and what was left unread, go on when no more than this is pending
    internal long HeldMs; // how often and long the gate was shut, in all
    internal long HeldFromMs;

    // ---- sending
    internal bool SendInFlight;
    internal bool HoldsSends; // what is queued waits for the OnConnected of who takes over
    internal bool DrainOwed;
    internal int SendError;
    internal Exception? QueueFault; // of memory that threw, or a file that could not be sent: the completion phase ends the connection
    internal bool FileFailed; // it was a file
    internal long BytesSent;
    internal long PaceTurn; // the turn in which awaited sends were counted last
    internal int PaceBytes; // of awaited sends in that turn
    internal long SentUntold;
    internal SendOperation? FirstOperation;
    internal SendOperation? LastOperation;
    internal SentMarks Marks;
    internal PacedSend? FirstPaced; // of those that wait until less is pending
    internal PacedSend? LastPaced;
    internal FileRead? FileRead;
    internal Pipe? FirstFeed; // of those that send here
    internal int WaitingFeeds;
    internal BroadcastGate BroadcastGate;
}
