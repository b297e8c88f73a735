using Whimbrel.Datagrams;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>
/// Base class for the application's code of a <see cref="DatagramSocket"/>: one object for each of its loops, created
/// by the factory. Override the callbacks you need.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>Callbacks run on <see cref="Loop"/>, one at a time and never nested; they must not block.
/// <see cref="OnStarted"/> is the first, <see cref="OnStopped"/> the last. Receiving continues automatically.</item>
/// <item>One call of <see cref="OnReceived"/> is one complete datagram; <see cref="OnTruncated"/> is called for those
/// above the limit. The bytes are valid during the call only.</item>
/// <item>An exception of a callback goes to <see cref="OnError"/>. Neither exceptions nor failed sends nor ICMP errors
/// end the socket.</item>
/// <item>Datagrams are queued completely or not at all, and leave in the order of one caller, at the latest at the end
/// of the turn, together with others. Any thread may send; on the loop it costs a copy.</item>
/// <item>A handler belongs to one start of one socket: a restarted socket calls the factory again.</item>
/// </list>
/// </remarks>
public abstract class DatagramHandler
{
    private LoopSocket? _resident;

    /// <summary>The socket of the handler. Set before <see cref="OnStarted"/>.</summary>
    public DatagramSocket Socket => Resident.Owner;

    /// <summary>The loop that runs the callbacks. Set before <see cref="OnStarted"/>.</summary>
    public Loop Loop => Resident.Loop;

    /// <summary>Number of datagrams of this loop waiting to be sent. Any thread; exact on the loop.</summary>
    public int PendingDatagrams => Resident.PendingDatagrams;

    /// <summary>Number of bytes of these datagrams. Any thread; exact on the loop.</summary>
    public long PendingBytes => Resident.PendingBytes;

    internal LoopSocket Resident
    {
        get
        {
            if (_resident is null) Throw.State("The handler has no socket yet: use it from OnStarted on.");
            return _resident;
        }
    }

    // ------------------------------------------------------------------ operations

    /// <summary>Queues one datagram, which may be empty. Any thread.</summary>
    /// <param name="data">Bytes of the datagram, at most <see cref="DatagramOptions.MaxDatagramBytes"/>; copied. Longer
    /// ones throw <see cref="ArgumentOutOfRangeException"/>.</param>
    /// <param name="peer">Destination; <c>default</c> for the peer of a connected socket.</param>
    /// <returns>Queued, Full (nothing was queued), Closed, or Refused by <see cref="DatagramOptions.AnswerLimit"/>.
    /// <see cref="OnSendFailed"/> is called if the kernel rejects the datagram later, or if a datagram of another
    /// thread exceeds that limit.</returns>
    public SendResult Send(ReadOnlySpan<byte> data, in DatagramPeer peer) => Resident.Send(data, in peer);

    /// <summary>
    /// Queues one datagram for the peer of a connected socket. Any thread. Throws
    /// <see cref="InvalidOperationException"/> if the socket is not connected.
    /// </summary>
    /// <param name="data">Bytes of the datagram, at most <see cref="DatagramOptions.MaxDatagramBytes"/>;
    /// copied.</param>
    public SendResult Send(ReadOnlySpan<byte> data) => Resident.Send(data);

    /// <summary>
    /// Queues a run of datagrams of one size for one peer, all or none. This form needs the fewest system calls. Any
    /// thread.
    /// </summary>
    /// <param name="run">Bytes of the datagrams, one after the other; the last may be shorter. At most
    /// <see cref="DatagramOptions.SendLimitBytes"/>.</param>
    /// <param name="datagramBytes">Length of each datagram, 1 to
    /// <see cref="DatagramOptions.MaxDatagramBytes"/>.</param>
    /// <param name="peer">Destination; <c>default</c> for the peer of a connected socket.</param>
    public SendResult SendRun(ReadOnlySpan<byte> run, int datagramBytes, in DatagramPeer peer) =>
        Resident.SendRun(run, datagramBytes, in peer);

    /// <summary>Queues several datagrams. Any thread.</summary>
    /// <param name="datagrams">Datagrams in sending order.</param>
    /// <returns>Number of queued datagrams, from the start. Fewer than given: the queue is full or the socket
    /// closed.</returns>
    public int SendMany(ReadOnlySpan<OutgoingDatagram> datagrams) => Resident.SendMany(datagrams);

    /// <summary>
    /// Waits for queue space in FIFO order, then queues one datagram. Any thread. While a call waits, Send returns
    /// Full.
    /// </summary>
    /// <param name="data">Bytes of the datagram; the memory may be reused when the task has completed.</param>
    /// <param name="peer">Destination; <c>default</c> for the peer of a connected socket.</param>
    /// <param name="cancellationToken">Cancels the wait; nothing is sent then.</param>
    /// <returns>Queued, Closed, or Refused by <see cref="DatagramOptions.AnswerLimit"/>.</returns>
    public ValueTask<SendResult> SendAsync(ReadOnlyMemory<byte> data, DatagramPeer peer,
        CancellationToken cancellationToken = default) =>
        Resident.SendAsync(data, peer, cancellationToken);

    /// <summary>
    /// Stops deliveries until <see cref="ResumeReceiving"/>. Datagrams already received (one batch) are kept and
    /// delivered first; the rest waits in the kernel's buffer, which drops datagrams when it is full. In a callback.
    /// </summary>
    public void PauseReceiving() => Resident.PauseReceiving();

    /// <summary>Ends <see cref="PauseReceiving"/>. In a callback; kept datagrams are delivered after it.</summary>
    public void ResumeReceiving() => Resident.ResumeReceiving();

    /// <summary>
    /// Marks a peer as verified after it has proved its address, for example with a token
    /// (<see cref="AddressTokens"/>). <see cref="DatagramOptions.AnswerLimit"/> then does not apply to it, until
    /// nothing has arrived from it for ten minutes, or its entry is evicted (16,384 peers are stored, verified ones
    /// longest). On the handler's loop; has no effect without that limit.
    /// </summary>
    /// <param name="peer">Address and port of the peer.</param>
    public void Verify(in DatagramPeer peer) => Resident.Verify(in peer);

    /// <summary>Reverts <see cref="Verify"/>, and drops the peer's remaining credit. On the handler's loop.</summary>
    /// <param name="peer">Address and port of the peer.</param>
    public void Forget(in DatagramPeer peer) => Resident.Forget(in peer);

    /// <summary>
    /// Returns true while <see cref="DatagramOptions.AnswerLimit"/> does not apply to the peer. On the handler's loop.
    /// </summary>
    /// <param name="peer">Address and port of the peer.</param>
    public bool IsVerified(in DatagramPeer peer) => Resident.IsVerified(in peer);

    /// <summary>
    /// Returns true if the sender is this socket itself, or claims to be. The port must be its own, and the address its
    /// own or, for a wildcard socket, any address of this machine; for a Unix socket, the path must be its own.
    /// Answering such a datagram would loop forever, and any attacker can forge one. Costs a comparison unless the port
    /// is the same. On the handler's loop.
    /// </summary>
    /// <param name="peer">Sender of a datagram.</param>
    public bool IsOwn(in DatagramPeer peer) => Resident.IsOwn(in peer);

    /// <summary>
    /// Starts a timer that calls <see cref="OnTimer"/>, until the socket is stopped. On the handler's loop.
    /// </summary>
    /// <param name="due">Time until the first call; zero means the next turn.</param>
    /// <param name="period">Interval between calls; zero for a single call.</param>
    protected LoopTimer StartTimer(TimeSpan due, TimeSpan period = default) => Resident.StartTimer(due, period);

    // ------------------------------------------------------------------ callbacks

    /// <summary>Called when the socket is bound and its groups are joined; receiving begins after this call.</summary>
    protected virtual void OnStarted()
    {
    }

    /// <summary>Called for each received datagram, also for empty ones.</summary>
    /// <param name="datagram">Bytes of the datagram, valid during the call.</param>
    /// <param name="peer">Sender as stated in the datagram; the address may be forged.</param>
    protected virtual void OnReceived(ReadOnlySpan<byte> datagram, in DatagramPeer peer)
    {
    }

    /// <summary>
    /// Called for several datagrams of one sender that arrived coalesced: override it to process them in one call, and
    /// to answer with <see cref="SendRun"/>. Only the epoll and io_uring engines coalesce, and only consecutive
    /// datagrams of one size (UDP_GRO, see <see cref="DatagramOptions.Segmentation"/>), so <see cref="OnReceived"/> is
    /// needed as well. Not called with an <see cref="DatagramOptions.AnswerLimit"/>, nor for datagrams longer than
    /// <see cref="DatagramOptions.ReceiveLimitBytes"/>.
    /// </summary>
    /// <param name="run">Bytes of the datagrams, one after the other, valid during the call.</param>
    /// <param name="datagramBytes">Length of each datagram; the last may be shorter.</param>
    /// <param name="peer">Sender as stated in the datagrams.</param>
    /// <returns>True if the run was processed. False, the default: <see cref="OnReceived"/> is called for each
    /// datagram.</returns>
    protected virtual bool OnReceivedRun(ReadOnlySpan<byte> run, int datagramBytes, in DatagramPeer peer) => false;

    /// <summary>
    /// Called for a datagram longer than <see cref="DatagramOptions.ReceiveLimitBytes"/>, which is dropped and counted.
    /// The default reports a diagnostic event, at most once a minute.
    /// </summary>
    /// <param name="start">First bytes of the datagram, valid during the call.</param>
    /// <param name="length">Full length of the datagram.</param>
    /// <param name="peer">Sender of the datagram.</param>
    protected virtual void OnTruncated(ReadOnlySpan<byte> start, int length, in DatagramPeer peer) =>
        _resident?.NoteTruncated(length, in peer);

    /// <summary>
    /// Called when the kernel has rejected a queued datagram. The socket continues. At most 256 per turn are reported;
    /// all are counted. The default reports a diagnostic event, at most once a minute.
    /// </summary>
    /// <param name="fault">Destination and reason.</param>
    protected virtual void OnSendFailed(in DatagramFault fault) => _resident?.NoteSendFailed(in fault);

    /// <summary>
    /// Called when an ICMP error reports that a datagram was not delivered: no socket at that port, no route, or too
    /// large. Only a hint, which any attacker can forge. The socket continues. The default reports a diagnostic event
    /// for a connected socket, at most once a minute.
    /// </summary>
    /// <param name="fault">Destination and reason.</param>
    protected virtual void OnPeerError(in DatagramFault fault) => _resident?.NoteUntoldPeerError(in fault);

    /// <summary>Called when the send queue is empty after it had rejected a datagram.</summary>
    protected virtual void OnDrained()
    {
    }

    /// <summary>Called when a multicast group was joined; its datagrams arrive from now on.</summary>
    /// <param name="group">The group, as requested.</param>
    protected virtual void OnJoined(MulticastGroup group)
    {
    }

    /// <summary>Called when a multicast group was left, also by a stop.</summary>
    /// <param name="group">The group, as it was joined.</param>
    protected virtual void OnLeft(MulticastGroup group)
    {
    }

    /// <summary>Called when a timer of <see cref="StartTimer"/> fires.</summary>
    /// <param name="timer">The timer; it may be started again.</param>
    protected virtual void OnTimer(LoopTimer timer)
    {
    }

    /// <summary>
    /// Called when a callback threw; the socket continues. The default reports a diagnostic event, at most once a
    /// minute per callback, class and exception type, with the number of suppressed diagnostic events. Exceptions are
    /// counted in any case (<see cref="DatagramCounters.HandlerErrors"/>).
    /// </summary>
    /// <param name="exception">Exception that was thrown.</param>
    protected virtual void OnError(Exception exception) => _resident?.NoteUserException(exception);

    /// <summary>Called last, when the socket is closed. Sends return Closed from the begin of the stop.</summary>
    protected virtual void OnStopped()
    {
    }

    // ------------------------------------------------------------------ for its resident

    internal void CallStarted() => OnStarted();

    internal void CallReceived(ReadOnlySpan<byte> datagram, in DatagramPeer peer) => OnReceived(datagram, in peer);

    internal bool CallReceivedRun(ReadOnlySpan<byte> run, int datagramBytes, in DatagramPeer peer) =>
        OnReceivedRun(run, datagramBytes, in peer);

    internal void CallTruncated(ReadOnlySpan<byte> start, int length, in DatagramPeer peer) =>
        OnTruncated(start, length, in peer);

    internal void CallSendFailed(in DatagramFault fault) => OnSendFailed(in fault);

    internal void CallPeerError(in DatagramFault fault) => OnPeerError(in fault);

    internal void CallDrained() => OnDrained();

    internal void CallJoined(MulticastGroup group) => OnJoined(group);

    internal void CallLeft(MulticastGroup group) => OnLeft(group);

    internal void CallTimer(LoopTimer timer) => OnTimer(timer);

    internal void CallError(Exception exception) => OnError(exception);

    internal void CallStopped() => OnStopped();

    internal void BelongTo(LoopSocket resident)
    {
        if (_resident is not null)
            Throw.State(
                "This handler has been used already: the factory makes a new one for each loop and each start.");
        _resident = resident;
    }
}
