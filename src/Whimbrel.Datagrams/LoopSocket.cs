using System.Net;
using System.Net.Sockets;
using Whimbrel.Connections;
using Whimbrel.Diagnostics;
using Whimbrel.Engines;

namespace Whimbrel.Datagrams;

/// <summary>
/// One socket of a <see cref="DatagramSocket"/> on one loop, with its handler or its inbox. Everything runs on the
/// loop's thread; other threads use the mailbox. States: made, bound (attached), open (handler started, receiving),
/// draining (sends queued datagrams), closed. Sends are in LoopSocket.Send.cs, groups in LoopSocket.Groups.cs; the
/// contract with the engines is in DatagramResident.
/// </summary>
internal sealed partial class LoopSocket : DatagramResident
{
    private const int MaxNotes = 256;
    private const int HeldPerTurn = 256;

    private readonly Completion<EndPoint> _bound;
    private readonly IDatagramEngine _engine;
    private readonly List<LoopTimer> _timers = [];
    private readonly DatagramQueue _held = new();
    private List<Completion<bool>>? _stopped;
    private DatagramFault[] _notes = [];
    private NoticePace _truncatedNotices;
    private NoticePace _failedNotices;
    private NoticePace _peerNotices;
    private bool[] _noteIsPeerError = [];
    private int _noteCount;
    private LoopTimer? _deadline;
    private DatagramHandler? _handler;
    private Life _life;
    private bool _isPaused;
    private bool _isReleased; // a new process receives
    private bool _isReceiving; // if it becomes false in the middle of a batch, the rest is kept
    private bool _isDetaching;
    private bool _toldOpen;
    private uint _lastOverflow;

    internal long DatagramsReceived;
    internal long BytesReceived;
    internal long DatagramsSent;
    internal long BytesSent;
    internal long Truncated;
    internal long Overflowed;
    internal long Displaced;
    internal long Failed;
    internal long Abandoned;
    internal long PeerErrors;
    internal long HandlerErrors;
    internal long SendCalls;
    internal long ReceiveCalls;

    internal LoopSocket(Loop loop, DatagramSocket owner, EndPoint endPoint, PortSharing sharing, int sharers,
        DatagramInbox? inbox)
        : base(loop, endPoint, owner.Options.RemoteEndPoint)
    {
        _engine = (IDatagramEngine)loop;
        Owner = owner;
        Options = owner.Options;
        Sharing = sharing;
        Sharers = sharers;
        Inbox = inbox;
        ReceiveLimitBytes = Options.ReceiveLimitBytes;
        HasMulticastLoopback = Options.MulticastLoopback;
        SegmentLimit = Options.Segmentation && endPoint is IPEndPoint ? DatagramOptions.MaxDatagramBytes / 2 : 0;
        _bound = new Completion<EndPoint>(loop.Engine);
        if (Options.AnswerLimit > 0)
            _answers = new AnswerBudget(Options.AnswerLimit, seed: (int)(loop.Engine.NextRandom() * int.MaxValue));
    }

    private enum Life : byte
    {
        Made,
        Bound,
        Open,
        Draining,
        Closed,
    }

    internal DatagramSocket Owner { get; }

    internal DatagramOptions Options { get; }

    internal PortSharing Sharing { get; }

    /// <summary>Number of sockets that will share the port.</summary>
    internal int Sharers { get; }

    /// <summary>
    /// Number of the interface of <see cref="DatagramOptions.MulticastInterface"/>; 0 for none. Looked up before the
    /// attach.
    /// </summary>
    internal int MulticastInterfaceIndex { get; init; }

    /// <summary>Queue of datagrams for receive calls. Null with a handler.</summary>
    internal DatagramInbox? Inbox { get; }

    // ------------------------------------------------------------------ start

    /// <summary>
    /// Completes with the bound address, or fails with a <see cref="NetworkException"/> or the exception of the
    /// factory.
    /// </summary>
    internal ValueTask<EndPoint> Bound => _bound.Task;

    /// <summary>Calls the factory and binds. Does not receive yet.</summary>
    internal void Bind()
    {
        if (Loop.IsStopping)
        {
            _life = Life.Closed;
            _bound.SetException(Loop.Engine.EndedError());
            return;
        }

        try
        {
            _handler = Owner.MakeHandler();
            _handler?.BelongTo(this);
        }
        catch (Exception e)
        {
            _life = Life.Closed;
            _bound.SetException(e);
            return;
        }

        Loop.Attach(this);
    }

    internal override int OpenDescriptor() => DatagramSetup.Open(this);

    internal override Socket? OpenSocket() => DatagramSetup.Create(this);

    /// <summary>Socket of another process, of which this one is a duplicate; null if this process binds.</summary>
    internal InheritedSocket? Inherited
    {
        get;
        init => LeavesPath = (field = value) is not null;
    }

    /// <summary>True while another process has the same socket. Set on any thread before the stop.</summary>
    internal bool LeavesPath
    {
        get => Volatile.Read(ref field);
        set => Volatile.Write(ref field, value);
    }

    internal override bool OwnsPath => !LeavesPath;

    /// <summary>Leaves further datagrams to the new process; sends continue. A control action.</summary>
    internal void ReleaseReceiving()
    {
        _isReleased = true;
        EndReceive();
        if (_life == Life.Open) Loop.Schedule(this);
    }

    internal override void CompleteAttach(int error)
    {
        if (error == 0)
        {
            _life = Life.Bound;
            _bound.SetResult(EndPoint);
            return;
        }

        _life = Life.Closed;
        _bound.SetException(Fault ?? DatagramErrors.BindFailure(EndPoint, Options, error));
    }

    /// <summary>
    /// Starts the handler and the receiving, when all sockets of the owner are bound and their groups joined. A control
    /// action, never inside a callback.
    /// </summary>
    internal void Open()
    {
        if (_life != Life.Bound) return;
        _life = Life.Open;
        _toldOpen = true;
        if (_handler is { } handler)
        {
            Enter("OnStarted");
            try
            {
                handler.CallStarted();
            }
            catch (Exception e)
            {
                Threw(e);
            }

            Leave();
            TellJoined();
        }

        if (!_isPaused && _life == Life.Open) BeginReceive();
    }

    // ------------------------------------------------------------------ receive

    private void BeginReceive()
    {
        if (_isReceiving || _isReleased || _life != Life.Open) return;
        _isReceiving = true;
        Loop.StartReceive(this);
    }

    private void EndReceive()
    {
        if (!_isReceiving) return;
        _isReceiving = false;
        if (!_isDetaching) Loop.StopReceive(this);
    }

    internal override void CompleteReceive(ReadOnlySpan<byte> data, int length, in DatagramPeer peer)
    {
        if (!_isReceiving)
        {
            // Received in the batch in which the handler has paused, so it is kept. After a stop nothing is delivered
            // any more.
            if (_life == Life.Open) _held.Append(data, length, in peer);
            if (_isReleased) Loop.Schedule(this);
            return;
        }

        Deliver(data, length, in peer);
    }

    internal override void CompleteReceives(ReadOnlySpan<byte> data, int length, int segment, in DatagramPeer peer)
    {
        int start = 0;
        if (_answers is null && _handler is { } handler && segment <= Options.ReceiveLimitBytes
            && data.Length == length)
            start = DeliverRun(handler, data, segment, in peer);
        for (; start < length; start += segment)
        {
            int one = Math.Min(segment, length - start);
            int here = Math.Clamp(data.Length - start, 0, one);
            CompleteReceive(data.Slice(Math.Min(start, data.Length), here), one, in peer);
        }
    }

    /// <summary>
    /// Delivers a run in one call, or one datagram after the other while receiving. Returns the number of delivered
    /// bytes.
    /// </summary>
    private int DeliverRun(DatagramHandler handler, ReadOnlySpan<byte> data, int segment, in DatagramPeer peer)
    {
        if (_isReceiving && WasTaken(handler, data, segment, in peer)) return data.Length;
        int start = 0;
        Enter("OnReceived");
        while (start < data.Length && _isReceiving)
        {
            try
            {
                while (start < data.Length && _isReceiving)
                {
                    int here = Math.Min(segment, data.Length - start);
                    int at = start;
                    start += here;
                    DatagramsReceived++;
                    BytesReceived += here;
                    handler.CallReceived(data.Slice(at, here), in peer);
                }
            }
            catch (Exception e)
            {
                Threw(e);
            }
        }

        Leave();
        return start;
    }

    private bool WasTaken(DatagramHandler handler, ReadOnlySpan<byte> run, int segment, in DatagramPeer peer)
    {
        bool wasTaken = true; // also if it throws, because it may have processed a part
        Enter("OnReceivedRun");
        try
        {
            wasTaken = handler.CallReceivedRun(run, segment, in peer);
        }
        catch (Exception e)
        {
            Threw(e);
        }

        Leave();
        if (!wasTaken) return false;
        DatagramsReceived += ((run.Length - 1) / segment) + 1;
        BytesReceived += run.Length;
        return true;
    }

    private void Deliver(ReadOnlySpan<byte> data, int length, in DatagramPeer peer)
    {
        int limit = Options.ReceiveLimitBytes;
        bool isTruncated = length > limit || length > data.Length;
        if (isTruncated)
        {
            if (data.Length > limit) data = data[..limit];
            Truncated++;
        }

        _answers?.Received(in peer, length, Loop.TimeMs);
        DatagramsReceived++;
        BytesReceived += data.Length;
        DatagramHandler? handler = _handler;
        if (handler is null)
        {
            if (!Inbox!.Put(data, length, in peer)) EndReceive();
            return;
        }

        Enter("OnReceived");
        try
        {
            if (isTruncated) handler.CallTruncated(data, length, in peer);
            else handler.CallReceived(data, in peer);
        }
        catch (Exception e)
        {
            Threw(e);
        }

        Leave();
    }

    internal override void ReceiveBatchEnded()
    {
        ReceiveCalls++;
        if (!_isDetaching && Queue.Count > 0 && !IsSendInFlight) SendQueued();
    }

    internal override void NoteOverflow(uint total)
    {
        Overflowed += total - _lastOverflow;
        _lastOverflow = total;
    }

    internal override void NoteReceiveError(int error)
    {
        if (_life == Life.Closed) return;
        NotePeerError(Remote, error, -1, 0);
    }

    internal void PauseReceiving()
    {
        RequireLoop(nameof(PauseReceiving));
        _isPaused = true;
        EndReceive();
    }

    internal void ResumeReceiving()
    {
        RequireLoop(nameof(ResumeReceiving));
        if (!_isPaused) return;
        _isPaused = false;
        // Scheduled, because this may be inside a callback, and kept datagrams come first.
        Loop.Schedule(this);
    }

    /// <summary>Called when the inbox has space again. A control action.</summary>
    internal void ResumeInbox()
    {
        if (_life == Life.Open) Loop.Schedule(this);
    }

    private void DeliverHeld()
    {
        // The bytes stay in the queue until the callback has returned; a limited number per turn.
        for (int budget = HeldPerTurn; budget > 0 && _held.Count > 0 && !_isPaused && _life == Life.Open; budget--)
        {
            if (Inbox is { IsFull: true }) return;
            DeliverFirstHeld();
        }

        if (_held.Count > 0)
        {
            if (!_isPaused && _life == Life.Open) Loop.Schedule(this);
            return;
        }

        if (!_isPaused && Inbox is null or { IsFull: false }) BeginReceive();
    }

    // Safe: the entry's bytes stay where they are until Remove, which comes after the callback.
    private unsafe void DeliverFirstHeld()
    {
        QueuedDatagram entry = _held[0];
        Deliver(new ReadOnlySpan<byte>(entry.Data, entry.Length), entry.FullLength, in entry.Peer);
        _held.Remove(1);
    }

    /// <summary>Returns whether the sender is this socket, or claims to be.</summary>
    internal bool IsOwn(in DatagramPeer peer)
    {
        if (EndPoint is not IPEndPoint ip) return !peer.IsNone && peer == new DatagramPeer(EndPoint);
        if (peer.Port != ip.Port || peer.IsNone) return false;
        bool isWildcard = ip.Address.Equals(IPAddress.Any) || ip.Address.Equals(IPAddress.IPv6Any);
        return isWildcard ? OwnAddresses.Contains(in peer) : peer == new DatagramPeer(ip);
    }

    // ------------------------------------------------------------------ callbacks

    private void Enter(string name) => Loop.EnterCallback(this, name);

    private void Leave() => Loop.LeaveCallback();

    /// <summary>
    /// Reports an exception of a callback; the socket continues. The loop still counts this as inside the callback.
    /// </summary>
    private void Threw(Exception exception)
    {
        HandlerErrors++;
        Loop.Engine.UserCodeThrew(exception);
        try
        {
            _handler!.CallError(exception);
        }
        catch (Exception e)
        {
            Loop.Engine.ReportException("OnError of a datagram handler", e);
        }
    }

    internal override string HandlerName => _handler?.GetType().Name ?? "no handler";

    /// <summary>
    /// Default implementation of OnError: reports a diagnostic event, at most once a minute per callback and exception
    /// type.
    /// </summary>
    internal void NoteUserException(Exception exception)
    {
        string type = exception.GetType().Name;
        string what = $"{Loop.ActiveCallback ?? "A callback"} of {HandlerName}";
        if (!Loop.Engine.ExceptionNotices.TryTake($"{EndPoint}: {what}: {type}", Loop.Engine.NowMs, out long leftOut))
            return;
        Loop.Engine.Report(new DiagnosticEvent(
            DiagnosticEventKind.UserException,
            $"{what} (datagrams at {EndPoint}) threw {ErrorText.Of(exception)}. Nothing was ended; the socket "
            + $"continues. Override OnError to handle it yourself.{NoticePaces.LeftOutText(leftOut)}",
            "user-exception.md",
            exception));
    }

    /// <summary>Default implementation of OnTruncated.</summary>
    internal void NoteTruncated(int length, in DatagramPeer peer)
    {
        if (!_truncatedNotices.TryTake(Loop.Engine.NowMs)) return;
        NoteLost($"A datagram of {length:n0} bytes from {peer} came to {EndPoint}, and ReceiveLimitBytes is "
            + $"{Owner.Options.ReceiveLimitBytes:n0}: it was dropped. Raise ReceiveLimitBytes, or override "
            + $"OnTruncated. Further ones of the next minute are only counted (DatagramCounters.Truncated).");
    }

    /// <summary>
    /// Default implementation of OnSendFailed. Datagrams withheld by AnswerLimit are lost on purpose, so they are not
    /// reported.
    /// </summary>
    internal void NoteSendFailed(in DatagramFault fault)
    {
        if (fault.Error.Code == 0 || !_failedNotices.TryTake(Loop.Engine.NowMs)) return;
        NoteLost($"A datagram of {fault.Length:n0} bytes to {fault.Peer} "
            + $"was not sent: {DatagramErrors.WordsOf(fault.Error.Code)} "
            + (_handler is null
                ? "A socket with a handler gets it as OnSendFailed. "
                : "Override OnSendFailed to handle it yourself. ")
            + "Further ones of the next minute are only counted (DatagramCounters.Failed).");
    }

    /// <summary>
    /// Default implementation of OnPeerError. Errors of an unconnected socket's peers are counted only, because peers
    /// come and go.
    /// </summary>
    internal void NoteUntoldPeerError(in DatagramFault fault)
    {
        if (!IsConnected || !_peerNotices.TryTake(Loop.Engine.NowMs)) return;
        NoteLost($"A datagram to {fault.Peer} did not get there: {DatagramErrors.WordsOf(fault.Error.Code)} "
            + $"Override OnPeerError to handle it yourself. Further ones of the next minute are only counted "
            + $"(DatagramCounters.PeerErrors).");
    }

    private void NoteLost(string message) =>
        Loop.Engine.Report(new DiagnosticEvent(DiagnosticEventKind.System, message, "datagram-not-sent.md"));

    internal LoopTimer StartTimer(TimeSpan due, TimeSpan period)
    {
        RequireLoop(nameof(StartTimer));
        if (_life == Life.Closed) Throw.State("The socket is closed: its timers have ended with it.");
        for (int i = _timers.Count - 1; i >= 0; i--)
        {
            if (!_timers[i].IsActive) _timers.RemoveAt(i);
        }

        HandlerTimer timer = new(this);
        _timers.Add(timer);
        timer.Start(due, period);
        return timer;
    }

    internal void TimerFired(LoopTimer timer)
    {
        if (_life == Life.Closed || _handler is null)
        {
            // The timer was started again after its socket was closed.
            timer.Cancel();
            return;
        }

        if (!_timers.Contains(timer)) _timers.Add(timer);
        Enter("OnTimer");
        try
        {
            _handler.CallTimer(timer);
        }
        catch (Exception e)
        {
            Threw(e);
        }

        Leave();
    }

    private void RequireLoop(string member)
    {
        if (!Loop.IsCurrent)
            Throw.State($"{member} belongs to the handler's own loop: call it inside a callback, or Post it to the "
                + $"handler's Loop.");
    }

    // ------------------------------------------------------------------ faults: reported in the completion phase

    internal override void NotePeerError(in DatagramPeer peer, int error, int length, int pathMtu)
    {
        PeerErrors++;
        AddNote(new DatagramFault(peer, DatagramErrors.Of(error), length, pathMtu), isPeerError: true);
    }

    private void AddNote(in DatagramFault fault, bool isPeerError)
    {
        if (_handler is null)
        {
            // Otherwise a caller that waits for the answer of a connected peer would wait forever. One socket for many
            // peers must not fail for one of them.
            if (IsConnected) Inbox!.Fail(new NetworkException(fault.Error));
            else if (!isPeerError) NoteSendFailed(in fault);
            return;
        }

        if (_noteCount == MaxNotes) return;
        if (_noteCount == _notes.Length)
        {
            int room = Math.Max(16, _notes.Length * 2);
            Array.Resize(ref _notes, room);
            Array.Resize(ref _noteIsPeerError, room);
        }

        _notes[_noteCount] = fault;
        _noteIsPeerError[_noteCount++] = isPeerError;
        Loop.Schedule(this);
    }

    private void TellNotes()
    {
        // Faults caused by these callbacks are reported in the next round.
        int count = _noteCount;
        for (int i = 0; i < count && _life != Life.Closed; i++)
        {
            Enter(_noteIsPeerError[i] ? "OnPeerError" : "OnSendFailed");
            try
            {
                if (_noteIsPeerError[i]) _handler!.CallPeerError(in _notes[i]);
                else _handler!.CallSendFailed(in _notes[i]);
            }
            catch (Exception e)
            {
                Threw(e);
            }

            Leave();
        }

        int rest = _noteCount - count;
        Array.Copy(_notes, count, _notes, 0, rest);
        Array.Copy(_noteIsPeerError, count, _noteIsPeerError, 0, rest);
        _noteCount = rest;
    }

    internal override void RunScheduled()
    {
        // The descriptor may be closed already, and its number belong to another socket.
        if (_isDetaching || _life is Life.Closed or Life.Made) return;
        if (_noteCount > 0) TellNotes();
        if (_life == Life.Open && (_held.Count > 0 || (!_isReceiving && _toldOpen && !_isPaused))) DeliverHeld();
        if (_life == Life.Closed) return;
        if (Queue.Count > 0 && !IsSendInFlight) SendQueued();
        AfterSends();
    }

    // ------------------------------------------------------------------ stop

    /// <summary>
    /// Sends queued datagrams until the deadline, then closes. A control action, never inside a callback.
    /// </summary>
    internal void Stop(Completion<bool>? stopped, long deadlineMs)
    {
        if (_life is Life.Closed or Life.Made)
        {
            stopped?.SetResult(true);
            return;
        }

        if (stopped is not null) (_stopped ??= []).Add(stopped);
        if (_life != Life.Draining)
        {
            EndReceive();
            _life = Life.Draining;
            Volatile.Write(ref _refuses, true);
            CancelTimers();
        }

        _deadline?.Cancel();
        if (deadlineMs > 0)
            _deadline = Loop.StartTimer(TimeSpan.FromMilliseconds(deadlineMs),
                static resident => ((LoopSocket)resident!).Detach(), this);
        else if (!HasSends) Detach();
        else _deadline = Loop.StartTimer(TimeSpan.Zero, static resident => ((LoopSocket)resident!).Detach(), this);
        Loop.Schedule(this);
    }

    internal override void Abort()
    {
        if (_life is Life.Closed or Life.Made) return;
        EndReceive();
        _life = Life.Draining;
        Volatile.Write(ref _refuses, true);
        CancelTimers();
        Detach();
    }

    private void Detach()
    {
        if (_isDetaching) return;
        _isDetaching = true;
        _deadline?.Cancel();
        Loop.Detach(this);
    }

    internal override void CompleteClose()
    {
        _life = Life.Closed;
        Volatile.Write(ref _refuses, true);
        // Timers that were started while it drained.
        CancelTimers();
        AbandonSends();
        _held.Free();
        Inbox?.Close();
        if (_toldOpen && _handler is { } handler)
        {
            TellAllLeft();
            Enter("OnStopped");
            try
            {
                handler.CallStopped();
            }
            catch (Exception e)
            {
                Threw(e);
            }

            Leave();
        }

        if (_stopped is not { } waiting) return;
        _stopped = null;
        foreach (Completion<bool> stopped in waiting) stopped.SetResult(true);
    }

    private void CancelTimers()
    {
        foreach (LoopTimer timer in _timers) timer.Cancel();
        _timers.Clear();
    }
}
