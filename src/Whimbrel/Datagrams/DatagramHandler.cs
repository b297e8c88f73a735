using Whimbrel.Datagrams;
using Whimbrel.Diagnostics;

namespace Whimbrel;

/// <summary>
/// The user's object of a <see cref="DatagramSocket"/>: one for each of its loops, made by the factory. Override what is of interest.
/// </summary>
/// <remarks>
/// <list type="number">
/// <item>Callbacks come on <see cref="Loop"/>, one at a time and never one inside another; they must not block. <see cref="OnStarted"/> is
/// the first, <see cref="OnStopped"/> the last. Receiving goes on by itself: there is nothing to re-arm.</item>
/// <item>One call of <see cref="OnReceived"/> is one datagram, whole; a longer one than the limit comes to <see cref="OnTruncated"/> instead. The
/// bytes are valid during the call only.</item>
/// <item>What throws in a callback goes to <see cref="OnError"/>; the socket goes on, and so does no failed send or ICMP error end it.</item>
/// <item>Sends are queued, whole or not at all, and leave in the order of one caller: at the latest at the end of the turn, together
/// with others. Any thread may send; on the loop it costs a copy.</item>
/// <item>A handler belongs to one socket for one life: a socket that is started again asks the factory again.</item>
/// </list>
/// </remarks>
public abstract class DatagramHandler
{
    private DatagramResident? _resident;

    /// <summary>The socket it belongs to. Set before <see cref="OnStarted"/>.</summary>
    public DatagramSocket Socket => Resident.Owner;

    /// <summary>The loop that its callbacks run on. Set before <see cref="OnStarted"/>.</summary>
    public Loop Loop => Resident.Loop;

    /// <summary>Datagrams of this loop that wait to be sent. Any thread; exact on the loop.</summary>
    public int PendingDatagrams => Resident.PendingDatagrams;

    /// <summary>Their bytes. Any thread; exact on the loop.</summary>
    public long PendingBytes => Resident.PendingBytes;

    internal DatagramResident Resident
    {
        get
        {
            if (_resident is null) Throw.State("The handler has no socket yet: use it from OnStarted on.");
            return _resident;
        }
    }

    // ------------------------------------------------------------------ what a handler can do

    /// <summary>Queues one datagram. Any thread. Empty ones are datagrams too.</summary>
    /// <param name="data">Its bytes, at most <see cref="DatagramOptions.MaxDatagramBytes"/>; copied. Longer ones throw <see cref="ArgumentOutOfRangeException"/>.</param>
    /// <param name="peer">Who it is for; <c>default</c> for the peer of a connected socket.</param>
    /// <returns>Queued, Full (nothing was taken), Closed, or Refused by <see cref="DatagramOptions.AnswerLimit"/>. What the system refuses later is told by
    /// <see cref="OnSendFailed"/>, and so is what a thread other than the loop's sends beyond that limit.</returns>
    public SendResult Send(ReadOnlySpan<byte> data, in DatagramPeer peer) => Resident.Send(data, in peer);

    /// <summary>Queues one datagram for the peer of a connected socket. Any thread. Throws <see cref="InvalidOperationException"/> when the socket is not connected.</summary>
    /// <param name="data">Its bytes, at most <see cref="DatagramOptions.MaxDatagramBytes"/>; copied.</param>
    public SendResult Send(ReadOnlySpan<byte> data) => Resident.Send(data);

    /// <summary>Queues a run of datagrams of one size for one peer, all or none: the form that leaves in the fewest calls. Any thread.</summary>
    /// <param name="run">Their bytes, one after the other; the last may be shorter. At most <see cref="DatagramOptions.SendLimitBytes"/>.</param>
    /// <param name="datagramBytes">Bytes of each, 1 up to <see cref="DatagramOptions.MaxDatagramBytes"/>.</param>
    /// <param name="peer">Who they are for; <c>default</c> for the peer of a connected socket.</param>
    public SendResult SendRun(ReadOnlySpan<byte> run, int datagramBytes, in DatagramPeer peer) => Resident.SendRun(run, datagramBytes, in peer);

    /// <summary>Queues several datagrams. Any thread.</summary>
    /// <param name="datagrams">In the order in which they are to leave.</param>
    /// <returns>How many of them were taken: the first ones. Fewer than given means that the queue is full or the socket closed.</returns>
    public int SendMany(ReadOnlySpan<OutgoingDatagram> datagrams) => Resident.SendMany(datagrams);

    /// <summary>Queues one datagram when there is room, first come first served. Any thread. While one waits, Send gives Full.</summary>
    /// <param name="data">Its bytes; the memory may be used again when the task has completed.</param>
    /// <param name="peer">Who it is for; <c>default</c> for the peer of a connected socket.</param>
    /// <param name="cancellationToken">Ends the wait; then nothing was sent.</param>
    /// <returns>Queued, Closed, or Refused by <see cref="DatagramOptions.AnswerLimit"/>.</returns>
    public ValueTask<SendResult> SendAsync(ReadOnlyMemory<byte> data, DatagramPeer peer, CancellationToken cancellationToken = default) =>
        Resident.SendAsync(data, peer, cancellationToken);

    /// <summary>Nothing is delivered until <see cref="ResumeReceiving"/>; what is taken already (one batch) is kept and comes first, the rest waits in the system's buffer, which drops when it is full. In a callback.</summary>
    public void PauseReceiving() => Resident.PauseReceiving();

    /// <summary>Ends <see cref="PauseReceiving"/>. In a callback; what was kept is delivered after it.</summary>
    public void ResumeReceiving() => Resident.ResumeReceiving();

    /// <summary>
    /// The peer has proved that it receives at its address, for example with a token that it was sent (<see cref="AddressTokens"/>):
    /// <see cref="DatagramOptions.AnswerLimit"/> no longer counts for it, until nothing has come from it for ten minutes, or its place is
    /// needed for others (16,384 peers are remembered, verified ones longest). On the handler's loop; without that limit, nothing.
    /// </summary>
    /// <param name="peer">Address and port.</param>
    public void Verify(in DatagramPeer peer) => Resident.Verify(in peer);

    /// <summary>Takes <see cref="Verify"/> back, and what is left of the peer's answers with it. On the handler's loop.</summary>
    /// <param name="peer">Address and port.</param>
    public void Forget(in DatagramPeer peer) => Resident.Forget(in peer);

    /// <summary>True while <see cref="DatagramOptions.AnswerLimit"/> does not count for the peer. On the handler's loop.</summary>
    /// <param name="peer">Address and port.</param>
    public bool IsVerified(in DatagramPeer peer) => Resident.IsVerified(in peer);

    /// <summary>
    /// True when the sender is this socket itself, or claims to be: its own port, at its own address or, bound to all addresses, at any of
    /// this machine's; of a Unix socket its own path. Who answers such a datagram answers himself, for ever, and anybody can forge one. Costs a
    /// comparison unless the port is the own one. On the handler's loop.
    /// </summary>
    /// <param name="peer">The sender of a datagram.</param>
    public bool IsOwn(in DatagramPeer peer) => Resident.IsOwn(in peer);

    /// <summary>Starts a timer that calls <see cref="OnTimer"/>, until the socket is stopped. On the handler's loop.</summary>
    /// <param name="due">Time until the first firing; zero means the next turn.</param>
    /// <param name="period">Distance between firings; zero for one shot.</param>
    protected LoopTimer StartTimer(TimeSpan due, TimeSpan period = default) => Resident.StartTimer(due, period);

    // ------------------------------------------------------------------ what a handler is told

    /// <summary>The socket is bound, its groups are joined, and receiving begins after this call.</summary>
    protected virtual void OnStarted()
    {
    }

    /// <summary>One datagram has arrived. Empty datagrams come too.</summary>
    /// <param name="datagram">Its bytes, valid during the call.</param>
    /// <param name="peer">Who sent it, or says so: a sender can write any address into a datagram.</param>
    protected virtual void OnReceived(ReadOnlySpan<byte> datagram, in DatagramPeer peer)
    {
    }

    /// <summary>
    /// Several datagrams of one sender have arrived joined: override it to take them in one call, and to answer with
    /// <see cref="SendRun"/>. Only the epoll and io_uring engines join, and only datagrams of one size that came one behind the other
    /// (UDP_GRO, see <see cref="DatagramOptions.Segmentation"/>): all others come to <see cref="OnReceived"/>, so that is needed as well.
    /// Not called with an <see cref="DatagramOptions.AnswerLimit"/>, nor for datagrams longer than <see cref="DatagramOptions.ReceiveLimitBytes"/>.
    /// </summary>
    /// <param name="run">Their bytes, one datagram behind the other, valid during the call.</param>
    /// <param name="datagramBytes">Bytes of each; the last may be shorter.</param>
    /// <param name="peer">Who sent them, or says so.</param>
    /// <returns>False, the default: not taken, and <see cref="OnReceived"/> is called for each.</returns>
    protected virtual bool OnReceivedRun(ReadOnlySpan<byte> run, int datagramBytes, in DatagramPeer peer) => false;

    /// <summary>A datagram was longer than <see cref="DatagramOptions.ReceiveLimitBytes"/>. It is dropped, and counted. The default gives a notice, at most once a minute.</summary>
    /// <param name="start">Its first bytes, valid during the call.</param>
    /// <param name="length">How many it had.</param>
    /// <param name="peer">Who sent it.</param>
    protected virtual void OnTruncated(ReadOnlySpan<byte> start, int length, in DatagramPeer peer) => _resident?.NoteTruncated(length, in peer);

    /// <summary>The system did not take a datagram that was queued. The socket continues. Of a flood of them, 256 a turn are reported and all are counted. The default gives a notice, at most once a minute.</summary>
    /// <param name="fault">Who it was for, and why.</param>
    protected virtual void OnSendFailed(in DatagramFault fault) => _resident?.NoteSendFailed(in fault);

    /// <summary>The system was told by ICMP that a datagram did not get there: nobody receives at that port, no way leads there, it was too large. Only a hint, and anybody can forge it. The socket continues. The default gives a notice for a connected socket, at most once a minute.</summary>
    /// <param name="fault">Who it was for, and why.</param>
    protected virtual void OnPeerError(in DatagramFault fault) => _resident?.NoteUntoldPeerError(in fault);

    /// <summary>The send queue is empty again after it had refused something.</summary>
    protected virtual void OnDrained()
    {
    }

    /// <summary>A multicast group was joined; what is sent to it arrives from now on.</summary>
    /// <param name="group">As it was asked for.</param>
    protected virtual void OnJoined(MulticastGroup group)
    {
    }

    /// <summary>A multicast group was left, also by a stop.</summary>
    /// <param name="group">As it was joined.</param>
    protected virtual void OnLeft(MulticastGroup group)
    {
    }

    /// <summary>A timer of <see cref="StartTimer"/> has fired.</summary>
    /// <param name="timer">Which one; it may be started again.</param>
    protected virtual void OnTimer(LoopTimer timer)
    {
    }

    /// <summary>
    /// A callback threw; the socket goes on. The default gives a notice that names callback, class and exception, once a minute for each of them with
    /// the number left out; an override gets no notice. It is counted either way (<see cref="DatagramCounters.HandlerErrors"/>).
    /// </summary>
    /// <param name="exception">What was thrown.</param>
    protected virtual void OnError(Exception exception) => _resident?.NoteUserException(exception);

    /// <summary>The socket is closed: the last callback. Sends give Closed from the beginning of the stop.</summary>
    protected virtual void OnStopped()
    {
    }

    // ------------------------------------------------------------------ for its resident

    internal void CallStarted() => OnStarted();

    internal void CallReceived(ReadOnlySpan<byte> datagram, in DatagramPeer peer) => OnReceived(datagram, in peer);

    internal bool CallReceivedRun(ReadOnlySpan<byte> run, int datagramBytes, in DatagramPeer peer) => OnReceivedRun(run, datagramBytes, in peer);

    internal void CallTruncated(ReadOnlySpan<byte> start, int length, in DatagramPeer peer) => OnTruncated(start, length, in peer);

    internal void CallSendFailed(in DatagramFault fault) => OnSendFailed(in fault);

    internal void CallPeerError(in DatagramFault fault) => OnPeerError(in fault);

    internal void CallDrained() => OnDrained();

    internal void CallJoined(MulticastGroup group) => OnJoined(group);

    internal void CallLeft(MulticastGroup group) => OnLeft(group);

    internal void CallTimer(LoopTimer timer) => OnTimer(timer);

    internal void CallError(Exception exception) => OnError(exception);

    internal void CallStopped() => OnStopped();

    internal void BelongTo(DatagramResident resident)
    {
        if (_resident is not null) Throw.State("This handler has been used already: the factory makes a new one for each loop and each start.");
        _resident = resident;
    }
}
