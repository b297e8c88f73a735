using System.Net;
using System.Net.Sockets;
using Whimbrel.Connections;
using Whimbrel.Engines;

namespace Whimbrel.Datagrams;

/// <summary>
/// A socket for datagrams on one loop, as engines and mailbox see it: its addresses, its send queue, and what the
/// kernel supports. The other half of the class, with handler, limits and life cycle, is LoopSocket of the package
/// Whimbrel.Datagrams. Everything runs on the loop's thread; other threads use the mailbox.
/// </summary>
/// <remarks>
/// The contract with an engine:
/// <list type="number">
/// <item><see cref="Loop.StartReceive"/> until <see cref="Loop.StopReceive"/>: each datagram is one
/// <see cref="CompleteReceive"/>, in order, with its full length and sender, and each batch ends with one
/// <see cref="ReceiveBatchEnded"/>. Their number per turn is bounded.</item>
/// <item><see cref="IDatagramEngine.StartSend"/> sends the queue from its head: <see cref="AdvanceSend"/> for accepted
/// datagrams, <see cref="FailSend"/> for a rejected head, and one <see cref="CompleteSend"/> when the next send may
/// start. An engine never combines two entries or sends a part of one.</item>
/// <item>Errors never end the socket: <see cref="NotePeerError"/>, <see cref="NoteReceiveError"/>. They are reported in
/// the completion phase.</item>
/// </list>
/// </remarks>
internal abstract class DatagramResident : Resident, IMailboxReceiver
{
    /// <summary>Creates it for an address to bind, and the peer of a connected socket.</summary>
    private protected DatagramResident(Loop loop, EndPoint endPoint, EndPoint? remote)
        : base(loop)
    {
        EndPoint = endPoint;
        IsConnected = remote is not null;
        Remote = remote is null ? default : new DatagramPeer(EndPointRules.Plain(remote));
        // The engine maps IPv4 peers for an IPv6 socket.
        IsV6 = endPoint.AddressFamily == AddressFamily.InterNetworkV6;
    }

    /// <summary>Requested address; after the attach, the address that was actually bound. Set by the engine.</summary>
    internal EndPoint EndPoint { get; set; }

    /// <summary>Peer of a connected socket; otherwise <c>default</c>.</summary>
    internal DatagramPeer Remote { get; }

    internal bool IsConnected { get; }

    internal bool IsV6 { get; }

    /// <summary>Maximum length of a datagram that is delivered completely.</summary>
    internal int ReceiveLimitBytes { get; private protected init; }

    /// <summary>True if members on this machine receive datagrams sent to a group.</summary>
    internal bool HasMulticastLoopback { get; private protected init; }

    /// <summary>
    /// Failure of an option, more precise than the number passed to <see cref="Resident.CompleteAttach"/>.
    /// </summary>
    internal NetworkException? Fault { get; set; }

    /// <summary>
    /// True if the kernel may coalesce received datagrams, which the engine splits again. Set where the socket is
    /// created.
    /// </summary>
    internal bool CanCoalesce { get; set; }

    /// <summary>
    /// True if network errors are read from an error queue, with the peer that they concern. Set where the socket is
    /// created.
    /// </summary>
    internal bool HasErrorQueue { get; set; }

    /// <summary>
    /// Maximum length of datagrams in a segmented send. Lowered when the kernel rejects one; 0 if it does not support
    /// segmentation.
    /// </summary>
    internal int SegmentLimit { get; set; }

    /// <summary>
    /// True if the receiver may be full while this socket is writable: the engine then calls <see cref="RetrySend"/>.
    /// </summary>
    internal bool RetriesByTimer => EndPoint is UnixDomainSocketEndPoint;

    /// <summary>The queue, for the engine during a send.</summary>
    internal DatagramQueue Queue { get; } = new();

    /// <summary>True if a send was started and has not completed: the engine waits for the kernel.</summary>
    internal bool IsSendInFlight { get; private protected set; }

    /// <summary>
    /// Number of heads of the queue that an asynchronous call of the engine refers to. They must not move.
    /// </summary>
    internal int InFlightHeads { get; set; }

    /// <summary>Name of the handler's class, for messages.</summary>
    internal abstract string HandlerName { get; }

    // ------------------------------------------------------------------ called by the engine

    /// <summary>
    /// Creates a bound (and connected) descriptor for a Linux engine. Returns it, or the negative error number with
    /// <see cref="Fault"/>. Sets <see cref="EndPoint"/> to the actual address.
    /// </summary>
    internal abstract int OpenDescriptor();

    /// <summary>
    /// The same as a Socket in non-blocking mode. Returns null, with <see cref="Fault"/>, if an option could not be
    /// set. Throws the exceptions of sockets.
    /// </summary>
    internal abstract Socket? OpenSocket();

    /// <summary>
    /// Called with one received datagram; <paramref name="length"/> is its length on the wire.
    /// </summary>
    internal abstract void CompleteReceive(ReadOnlySpan<byte> data, int length, in DatagramPeer peer);

    /// <summary>
    /// Called with several coalesced datagrams of one sender: <paramref name="segment"/> bytes each, the last one
    /// possibly shorter, <paramref name="length"/> in total; <paramref name="data"/> is the available part of them.
    /// </summary>
    internal abstract void CompleteReceives(ReadOnlySpan<byte> data, int length, int segment, in DatagramPeer peer);

    /// <summary>Called at the end of a batch: queued answers are sent while they are in the cache.</summary>
    internal abstract void ReceiveBatchEnded();

    /// <summary>Updates the count of dropped datagrams from the kernel's 32-bit counter, which wraps around.</summary>
    internal abstract void NoteOverflow(uint total);

    /// <summary>
    /// Records a failed receive; receiving continues. The error is of an earlier send, or of the system; for a
    /// connected socket it belongs to the peer.
    /// </summary>
    internal abstract void NoteReceiveError(int error);

    /// <summary>Records an ICMP error for a datagram that was not delivered.</summary>
    internal abstract void NotePeerError(in DatagramPeer peer, int error, int length, int pathMtu);

    /// <summary>
    /// Called when the kernel has accepted the first <paramref name="count"/> entries, with <paramref name="calls"/>
    /// calls.
    /// </summary>
    internal abstract void AdvanceSend(int count, int calls);

    /// <summary>Called when the kernel has rejected the head: it is dropped, counted, and reported later.</summary>
    internal abstract void FailSend(int error);

    /// <summary>Called when the next send may be started: the queue is empty, or the turn's share was sent.</summary>
    internal abstract void CompleteSend();

    /// <summary>
    /// Tries again soon, because the receiver's queue of a Unix datagram is full and no event reports when it has
    /// space.
    /// </summary>
    internal abstract void RetrySend();

    internal override string? TextOf(string callback) => $"{callback} of {HandlerName} (datagrams at {EndPoint})";

    // ------------------------------------------------------------------ called by the mailbox

    void IMailboxReceiver.RunItem(in DataItem item, ReadOnlySpan<byte> bytes, ReadOnlySpan<int> lengths)
    {
        if (item.Kind == DataKind.DatagramOperation)
            DrainOperation(item.Payload!);
        else
            DrainDatagrams(bytes[DatagramPeer.PackedBytes..], item.Value,
                DatagramPeer.Unpack(bytes, (UnixName?)item.Extra));
    }

    /// <summary>Called with datagrams of another thread.</summary>
    internal abstract void DrainDatagrams(ReadOnlySpan<byte> data, int datagramBytes, in DatagramPeer peer);

    /// <summary>Called with a waiting send of another thread, as it was posted.</summary>
    internal abstract void DrainOperation(object operation);
}
